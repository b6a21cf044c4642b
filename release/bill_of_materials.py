"""The bill of materials: all packages that the images have, in the CycloneDX format."""

import json
from typing import Any

from release.checks import CheckResult, Release, ReleaseCheck, failed, ok, run_module


def write(release: Release) -> CheckResult:
    """Write the packages of the environment in which the wheel is installed."""
    if not release.environment.is_dir():
        return failed("there is no environment: install the wheel first")
    done = run_module(
        *("cyclonedx_py", "environment", "--output-reproducible"),
        *("--pyproject", "pyproject.toml", "--output-file", release.bill_of_materials),
        release.environment,
        folder=release.root,
    )
    if done.returncode:
        return failed("no bill of materials was written: see above", done.stderr)
    return ok(f"{len(components(release))} packages in dist/{release.bill_of_materials.name}")


def components(release: Release) -> list[dict[str, Any]]:
    """Return the packages in the bill of materials, without our own."""
    content = json.loads(release.bill_of_materials.read_text(encoding="utf-8"))
    own = content["metadata"]["component"]["name"]
    return [component for component in content["components"] if component["name"] != own]


CHECKS = (ReleaseCheck("bill of materials", write),)

"""kubectl, for tests that are skipped where it is missing or too old."""

import functools
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

OLDEST_MINOR = 30
KUBECTL = shutil.which("kubectl") or "kubectl"


@functools.cache
def problem() -> str:
    """Return the reason why kubectl can't be used; empty if it can."""
    if shutil.which(KUBECTL) is None:
        return "kubectl is not on the PATH"
    found = subprocess.run(
        [KUBECTL, "version", "--client", "--output=json"], check=False, capture_output=True
    )
    if found.returncode != 0:
        return "kubectl can't tell its version"
    minor = int(json.loads(found.stdout)["clientVersion"]["minor"].rstrip("+"))
    return "" if minor >= OLDEST_MINOR else f"kubectl 1.{minor} is older than 1.{OLDEST_MINOR}"


def needs_kubectl() -> list[pytest.MarkDecorator]:
    """Return the marks of a module whose tests run kubectl."""
    return [pytest.mark.kubectl, pytest.mark.skipif(bool(problem()), reason=problem())]


@functools.cache
def rendered(folder: Path) -> tuple[dict[str, Any], ...]:
    """Return the objects of a kustomization, which callers must not change.

    Raises:
        AssertionError: kubectl can't render it; the message is its own.
    """
    found = subprocess.run(
        [KUBECTL, "kustomize", str(folder)], check=False, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr
    return tuple(yaml.load_all(found.stdout, Loader=yaml.CSafeLoader))


def rendered_with(folder: Path, component: str, *, deploy: Path) -> tuple[dict[str, Any], ...]:
    """Return the objects of ``deploy`` with one of its optional components.

    ``folder`` must be empty, and gets the kustomization that an operator would write.
    """
    link = folder / "deploy"
    link.symlink_to(deploy)
    page = {"resources": ["deploy"], "components": [f"deploy/components/{component}"]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(page))
    return rendered(folder)

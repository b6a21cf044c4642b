"""Known vulnerabilities of all pinned packages, those for development included."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from release.checks import CheckResult, Release, ReleaseCheck, failed, ok, run_module, skipped

_UNREACHABLE = re.compile(r"^requests\.exceptions\.|your network may be blocking", re.MULTILINE)
_SKIPPED = (
    "the database of vulnerabilities can't be reached: run `make release-check` elsewhere, too"
)


def audit(release: Release) -> CheckResult:
    """Look up each version in each list of constraints."""
    lists = sorted(release.root.glob("constraints*.txt"))
    options = [word for each in lists for word in ("--requirement", each)]
    done = run_module(
        *("pip_audit", "--require-hashes", "--disable-pip", "--progress-spinner", "off"),
        *("--format", "json", *options),
        folder=release.root,
    )
    return judge(done.stdout, done.stderr)


def judge(report: str, log: str) -> CheckResult:
    """Return the result for the report of pip-audit; ``log`` is what it wrote beside it."""
    if not report.strip():
        if _UNREACHABLE.search(log):
            return skipped(_SKIPPED)
        return failed("pip-audit failed: see above", log)
    packages = json.loads(report)["dependencies"]
    found = [
        f"{package['name']} {package['version']} ({finding['id']}, {_fixed_in(finding)})"
        for package in packages
        for finding in package.get("vulns", ())
    ]
    if found:
        return failed(f"pin other versions of {'; '.join(found)}")
    return _audited(packages)


def _fixed_in(finding: Mapping[str, Any]) -> str:
    versions = finding.get("fix_versions")
    return f"fixed in {' or '.join(versions)}" if versions else "not fixed yet"


def _audited(packages: Iterable[Mapping[str, Any]]) -> CheckResult:
    """Return the result if no package has a known vulnerability.

    A proxy that answers 404 for the database looks like a database without these packages.
    """
    missing = [package["name"] for package in packages if "skip_reason" in package]
    audited = [package["name"] for package in packages if "skip_reason" not in package]
    if missing and not audited:
        return skipped(_SKIPPED)
    if missing:
        return failed(f"not in the database: {', '.join(missing)}: replace them, or look them up")
    return ok(f"none known of {len(audited)} packages")


CHECKS = (ReleaseCheck("vulnerabilities", audit),)

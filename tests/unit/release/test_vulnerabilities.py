"""The result of an audit, by the report of pip-audit 2.10."""

import json
from typing import Any

import pytest

from release.checks import CheckState
from release.vulnerabilities import judge

CLEAN: dict[str, Any] = {"name": "a", "version": "1", "vulns": []}
UNKNOWN = {"name": "b", "skip_reason": "Dependency not found on PyPI and could not be audited"}
OFFLINE = """Traceback (most recent call last):
requests.exceptions.ConnectionError: HTTPSConnectionPool(host='x', port=443): Max retries exceeded
"""
BLOCKED = "ERROR:pip_audit._cli:Tip: your network may be blocking this service. Try another one"


def vulnerable(*fixed: str) -> dict[str, Any]:
    return {"name": "c", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": list(fixed)}]}


def report(*packages: dict[str, Any]) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


@pytest.mark.parametrize(
    ("found", "log", "want"),
    [
        pytest.param(report(CLEAN), "", "ok: none known of 1 packages", id="clean"),
        pytest.param(
            report(CLEAN, vulnerable("3", "2.1")),
            "Found 1 known vulnerability",
            "failed: pin other versions of c 2 (CVE-1, fixed in 3 or 2.1)",
            id="a vulnerability",
        ),
        pytest.param(
            report(vulnerable()),
            "",
            "failed: pin other versions of c 2 (CVE-1, not fixed yet)",
            id="without a fix",
        ),
        pytest.param(
            report(vulnerable(), UNKNOWN), "", "failed: pin other", id="one, and an unknown one"
        ),
        pytest.param(
            report(CLEAN, UNKNOWN), "", "failed: not in the database: b", id="an unknown package"
        ),
        pytest.param(report(UNKNOWN), "", "skipped: ", id="a proxy that answers 404"),
        pytest.param("", OFFLINE, "skipped: ", id="no connection"),
        pytest.param("", BLOCKED, "skipped: ", id="a timeout"),
        pytest.param("", "invalid specifier", "failed: pip-audit failed", id="another failure"),
    ],
)
def test_the_result_of_an_audit(found: str, log: str, want: str) -> None:
    assert str(judge(found, log)).startswith(want)


def test_the_output_of_a_failed_audit_is_kept() -> None:
    result = judge("", "invalid specifier")
    assert (result.state, result.output) == (CheckState.FAILED, "invalid specifier")

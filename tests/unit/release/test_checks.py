"""The lines of checks, and what a failed one means."""

from functools import partial
from pathlib import Path

import pytest

from release.checks import CheckResult, Release, ReleaseCheck, failed, ok, run_checks, skipped

RELEASE = Release(root=Path("/r"), version="1.2.3", programs=("vpa-x",))


def returned(result: CheckResult, _release: Release) -> CheckResult:
    return result


def lines(*results: CheckResult) -> tuple[bool, list[str]]:
    """Run checks with these results; return whether they passed, and what was written."""
    written: list[str] = []
    checks = [ReleaseCheck("n" * at, partial(returned, it)) for at, it in enumerate(results, 1)]
    return run_checks(checks, RELEASE, write=written.append), written


@pytest.mark.parametrize(
    ("result", "passed", "line"),
    [
        pytest.param(ok(), True, "n  ok", id="ok"),
        pytest.param(ok("found"), True, "n  ok: found", id="ok, with what was found"),
        pytest.param(failed("do it"), False, "n  failed: do it", id="failed"),
        pytest.param(skipped("no network"), True, "n  skipped: no network", id="skipped"),
    ],
)
def test_a_check_is_one_line(result: CheckResult, *, passed: bool, line: str) -> None:
    assert lines(result) == (passed, [line])


def test_a_failure_stops_no_other_check() -> None:
    want = ["n    ok", "nn   failed: x", "nnn  ok"]
    assert lines(ok(), failed("x"), ok()) == (False, want)


def test_the_output_of_a_failed_program_precedes_its_line() -> None:
    assert lines(failed("see above", "a\nb\n")) == (False, ["a\nb", "n  failed: see above"])


def test_the_version_and_the_programs_are_those_of_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nversion = "1.2.3"\n[project.scripts]\nvpa-x = "x:main"\n'
    )
    release = Release.of(tmp_path)
    assert (release.version, release.programs) == ("1.2.3", ("vpa-x",))
    assert release.wheel.name == "pyvpa-1.2.3-py3-none-any.whl"

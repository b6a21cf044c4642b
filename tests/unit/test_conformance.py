"""docs/conformance.md names an existing test for each line of the checklist and each quirk."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/conformance.md").read_text(encoding="utf-8")
LINE = re.compile(r"^\| ([^|]+) \| `(tests/[^`|]+\.py::[^`|]+)` \|$", re.MULTILINE)
QUIRK = re.compile(r"^\| (Q\d+) \| (differs|the same) \| `(tests/[^`|]+)` \|$", re.MULTILINE)
DIFFERENCE = re.compile(r"^\| (Q\d+) \|[^|]*\|[^|]*\|[^|]*\|$", re.MULTILINE)
KEPT = re.compile(r"^\| (Q\d+) \|[^|]*\|$", re.MULTILINE)
QUIRKS = {f"Q{number}" for number in range(1, 34)}


def section(name: str) -> str:
    return PAGE.partition(f"## {name}\n")[2].partition("\n## ")[0]


def named_tests() -> list[str]:
    return [
        *(test for _, test in LINE.findall(PAGE)),
        *(test for _, _, test in QUIRK.findall(PAGE)),
    ]


def test_every_row_is_read() -> None:
    tables = PAGE.count("\n|---")
    assert len(named_tests()) == PAGE.count("\n| ") - tables, (
        "all lines of tables except their heads"
    )


def test_every_line_of_the_checklist_has_a_test() -> None:
    """The checklist has 21 lines besides the examples."""
    lines = {line for line, _ in LINE.findall(section("What decides the numbers"))}
    assert len(lines) == 21


def test_every_worked_example_has_a_test() -> None:
    examples = LINE.findall(section("Worked examples"))
    assert {example.partition(",")[0] for example, _ in examples} == set("ABCDEFG")


def test_every_quirk_has_a_test_and_agrees_with_the_deviations() -> None:
    deviations = (ROOT / "docs/deviations.md").read_text(encoding="utf-8")
    expected = dict.fromkeys(DIFFERENCE.findall(deviations), "differs")
    expected |= dict.fromkeys(KEPT.findall(deviations), "the same")
    assert {quirk: here for quirk, here, _ in QUIRK.findall(PAGE)} == expected
    assert expected.keys() == QUIRKS


@pytest.mark.timeout(180)  # another pytest collects many tests
def test_the_named_tests_exist() -> None:
    """pytest collects them, so that a renamed test or row is an error."""
    words = ("--collect-only", "--quiet", "-p", "no:cacheprovider", *named_tests())
    command = (sys.executable, "-P", "-m", "pytest", *words)
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr + found.stdout[-2000:]

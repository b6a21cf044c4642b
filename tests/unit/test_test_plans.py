"""docs/test-plans.md says which case stands for which line of a document, and is complete."""

import ast
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandbox.version import NEWEST_MINOR, OLDEST_MINOR

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/test-plans.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([AK]EP-\d+) \| ([^|]+) \| `(\w+)` \| (?:(1\.\d+) )?\|$", re.MULTILINE)
E2E = ROOT / "tests/e2e"
# Of each document's plan; of the AEPs also promises from the rest of the text.
LINES = {"AEP-8818": 14, "AEP-4016": 7, "KEP-4831": 4, "AEP-8905": 6}


@dataclass(frozen=True)
class Case:
    name: str
    says: str  # the docstring
    marks: frozenset[str]
    version: str  # that the sandbox runs it on; empty: the newest


def constants(module: ast.Module) -> dict[str, ast.expr]:
    return {
        target.id: node.value
        for node in module.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def cases_of(document: str) -> list[Case]:
    """The tests of the document's file, as they are written there."""
    file = E2E / f"test_{document.lower().replace('-', '_')}.py"
    module = ast.parse(file.read_text(encoding="utf-8"))
    named = constants(module)
    common = [ast.unparse(named["pytestmark"])] if "pytestmark" in named else []
    found = []
    for node in module.body:
        if isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("test_"):
            marks = [
                ast.unparse(named.get(one.id, one) if isinstance(one, ast.Name) else one)
                for one in node.decorator_list
            ] + common
            versions = re.findall(r"pytest\.mark\.kubernetes\('([\d.]+)'\)", " ".join(marks))
            kinds = frozenset(re.findall(r"pytest\.mark\.(\w+)", " ".join(marks)))
            found.append(Case(node.name, ast.get_docstring(node) or "", kinds, "".join(versions)))
    return found


def rows_of(document: str) -> list[tuple[str, str, str]]:
    return [row[1:] for row in ROW.findall(PAGE) if row[0] == document]


def test_every_row_is_read() -> None:
    assert len(ROW.findall(PAGE)) == PAGE.count("\n| ") - 1, "all lines of the table but its head"


@pytest.mark.parametrize("document", LINES)
def test_every_line_of_a_plan_has_a_row(document: str) -> None:
    assert len({line for line, _, _ in rows_of(document)}) == LINES[document]


@pytest.mark.parametrize("document", LINES)
def test_the_rows_are_the_cases_and_say_what_they_run_on(document: str) -> None:
    rows = [(case, version) for _, case, version in rows_of(document)]
    assert rows == [(case.name, case.version) for case in cases_of(document)]
    assert max(Counter(case for case, _ in rows).values()) == 1


@pytest.mark.parametrize("document", LINES)
def test_a_case_names_its_document_and_runs_on_both_clusters(document: str) -> None:
    for case in cases_of(document):
        assert case.says.startswith(document), case.name
        assert not case.marks & {"only_on", "skip", "skipif", "xfail"}, case.name


def test_the_three_modes_run_on_every_version_of_the_sandbox() -> None:
    minors = range(OLDEST_MINOR, NEWEST_MINOR + 1)
    text = (E2E / "test_versions.py").read_text(encoding="utf-8")
    written = ", ".join(f'"1.{minor}"' for minor in minors)
    assert f"for version in ({written})" in text

"""docs/test-plans.md names the case of each line of a document, and is complete."""

import ast
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/test-plans.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([AK]EP-\d+) \| ([^|]+) \| `(\w+)` \|$", re.MULTILINE)
E2E = ROOT / "tests/e2e"
# Lines of each document's test plan, and for the AEPs also promises of the other sections.
LINES = {"AEP-8818": 14, "AEP-4016": 7, "KEP-4831": 4, "AEP-8905": 6}


@dataclass(frozen=True)
class Case:
    name: str
    docstring: str
    marks: frozenset[str]


def constants(module: ast.Module) -> dict[str, ast.expr]:
    return {
        target.id: node.value
        for node in module.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def cases_of(document: str) -> list[Case]:
    """Return the tests in the document's file, in order."""
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
            kinds = frozenset(re.findall(r"pytest\.mark\.(\w+)", " ".join(marks)))
            found.append(Case(node.name, ast.get_docstring(node) or "", kinds))
    return found


def rows_of(document: str) -> list[tuple[str, str]]:
    return [row[1:] for row in ROW.findall(PAGE) if row[0] == document]


def test_every_row_is_read() -> None:
    assert len(ROW.findall(PAGE)) == PAGE.count("\n| ") - 1, (
        "all lines of the table except its head"
    )


@pytest.mark.parametrize("document", LINES)
def test_every_line_of_a_plan_has_a_row(document: str) -> None:
    assert len({line for line, _ in rows_of(document)}) == LINES[document]


@pytest.mark.parametrize("document", LINES)
def test_the_rows_equal_the_cases(document: str) -> None:
    rows = [case for _, case in rows_of(document)]
    assert rows == [case.name for case in cases_of(document)]
    assert max(Counter(rows).values()) == 1


@pytest.mark.parametrize("document", LINES)
def test_a_case_names_its_document_and_is_not_skipped(document: str) -> None:
    for case in cases_of(document):
        assert case.docstring.startswith(document), case.name
        assert not case.marks & {"skip", "skipif", "xfail"}, case.name

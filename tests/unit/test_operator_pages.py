"""The pages for operators name the Events, conditions, flags and metrics that exist."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from recommender.publish.status import ConditionType

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = (
    *("certificates", "checkpoints", "compatibility", "configuration", "debugging", "events"),
    *("health", "high-availability", "install", "migration", "security", "sizing"),
    *("troubleshooting", "uninstall", "upgrade"),
)
# Flags of other programs.
FOREIGN = {"--admission-control-config-file", "--build-arg", "--metric-labels-allowlist"}
ROW = re.compile(r"^\| (`\w+`(?:, `\w+`)*) \|", re.MULTILINE)
FLAG = re.compile(r"`(--[a-z][a-z0-9-]+)")
METRIC = re.compile(r"\bvpa_(?:recommender|updater|admission_controller)_\w+")


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def first_column(text: str) -> set[str]:
    """Return the names in code in the first column of tables."""
    return {name for cell in ROW.findall(text) for name in re.findall(r"\w+", cell)}


def event_reasons(module: Path) -> Iterator[str]:
    """Yield the reasons of the Events that a module sends."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(func=ast.Attribute(attr="event" | "_report_both"), args=args):
                yield from (
                    each.value
                    for each in args
                    if isinstance(each, ast.Constant) and isinstance(each.value, str)
                )


def test_the_page_of_events_lists_every_event() -> None:
    sent = set(event_reasons(ROOT / "updater" / "actuation.py"))
    assert first_column(page("events").partition("## Conditions")[0]) == sent


def test_the_page_of_events_lists_every_condition() -> None:
    listed = first_column(page("events").partition("## Conditions")[2])
    assert listed == {kind.value for kind in ConditionType}


@pytest.mark.parametrize("name", PAGES)
def test_flags_on_a_page_exist(name: str) -> None:
    known = set(FLAG.findall(page("flags")))  # generated from the code
    assert set(FLAG.findall(page(name))) - FOREIGN <= known


@pytest.mark.parametrize("name", PAGES)
def test_metrics_on_a_page_exist(name: str) -> None:
    known = re.findall(r"`(vpa_\w+)`", page("metrics"))
    assert set(METRIC.findall(page(name))) <= set(known)

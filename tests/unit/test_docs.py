"""The reference pages are what the code says: flags, metrics, and deviations from the reference."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from common.errors import ConfigError
from common.flags import declared, read_flags
from updater.decision import Reason

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PACKAGES = ("common", "recommender", "updater", "admission", "certs", "sandbox", "demo")
ID = re.compile(r"\b([ADQ])(\d{1,2})\b")


def _loaded() -> Any:
    spec = importlib.util.spec_from_file_location("docs_build", DOCS / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build = _loaded()


def sources(*folders: str) -> Iterator[tuple[Path, str]]:
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield file, file.read_text(encoding="utf-8")


# Flags and metrics


@pytest.mark.parametrize("name", sorted(build.PAGES))
def test_a_page_is_what_the_code_says(name: str) -> None:
    written = (DOCS / name).read_text(encoding="utf-8")
    same = written == build.PAGES[name]()
    assert same, f"docs/{name} is out of date; `{build.COMMAND}` writes it anew"


def test_tables_have_no_entries_for_nothing() -> None:
    labels = {
        (component, label)
        for component, registry in build.registries().items()
        for metric in build.exposed(registry)
        for label in metric.labels
    }
    assert set(build.LABELS) == labels
    assert set(build.REASONS) == set(Reason)
    assert set(build.GATES) == set(build._gates())
    fields = {field.name for program in build.PROGRAMS.values() for field in declared(program)}
    assert {*build.NOT_YET, *build.NOTES} <= fields


def test_flags_that_are_read_by_nobody_say_so() -> None:
    unread = set()
    for program, settings in build.PROGRAMS.items():
        texts = [
            text
            for file, text in sources(program, "common")
            if file.name != "history_settings.py"  # it only refuses them
        ]
        for field in declared(settings):
            reads = re.compile(rf"(settings|self)\.{field.name}\b")
            if not any(reads.search(text) for text in texts):
                unread.add(field.name)
    assert unread == {*build.NOT_YET, *build.NOTES}


@pytest.mark.parametrize("argument", ["--storage=prometheus", "--use-external-metrics"])
def test_what_is_not_supported_yet_is_refused(argument: str) -> None:
    assert f"`{argument}`" in build.UNSUPPORTED
    with pytest.raises(ConfigError, match="not supported yet"):
        read_flags(build.PROGRAMS["recommender"], [argument])

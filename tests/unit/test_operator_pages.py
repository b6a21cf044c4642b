"""The pages for operators name the Events, conditions, flags and metrics that exist."""

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubectl_vpa.program import new_parser
from page_commands import pages
from recommender.publish.status import ConditionType

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
# Pages that are about this version; those of differences and releases name flags of others.
GENERATED = {"docs/flags.md", "docs/metrics.md"}
HISTORY = {"docs/deviations.md", "docs/conformance.md", "docs/test-plans.md"}
PAGES = sorted({*pages(), "SECURITY.md"} - GENERATED - HISTORY)
# Flags of other programs.
FOREIGN = {
    *("--capacity-buffer-controller-enabled", "--capacity-buffer-pod-injection-enabled"),
    *("--enable-provisioning-requests", "--status-config-map-name", "--write-status-configmap"),
    *("--admission-control-config-file", "--build-arg", "--custom-resource-state-config-file"),
    *("--metric-labels-allowlist", "--take-ownership"),
}
# Messages of other programs.
FOREIGN_MESSAGES = {"address already in use", "Metrics API not available", "Permission denied"}
COMPOSED = {"status not written"}  # from "{kind} not written"
ROW = re.compile(r"^\| (`\w+`(?:, `\w+`)*) \|", re.MULTILINE)
FLAG = re.compile(r"`(--[a-z][a-z0-9-]+)")
METRIC = re.compile(r"\bvpa_(?:recommender|updater|admission_controller)_\w+")


COMMANDS = ("crictl ", "docker ", "journalctl ", "kubeadm ", "kubectl ", "make ", "systemctl ")
MESSAGE = re.compile(r"`([A-Za-z][a-z']*(?: [a-z'-]+,?){2,})`")


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def texts(*packages: str) -> str:
    """Return the string constants of the packages, one in each line."""
    found = []
    for package in packages:
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                match node:
                    case ast.Constant(value=str(text)):
                        found.append(text)
    return "\n".join(found)


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


def options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the options of a parser and of its commands."""
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from options(command)


@pytest.mark.parametrize("name", PAGES)
def test_flags_on_a_page_exist(name: str) -> None:
    known = {*FLAG.findall(page("flags")), *options(new_parser())}  # that page is generated
    assert set(FLAG.findall((ROOT / name).read_text(encoding="utf-8"))) - FOREIGN <= known


@pytest.mark.parametrize("name", PAGES)
def test_metrics_on_a_page_exist(name: str) -> None:
    known = re.findall(r"`(vpa_\w+)`", page("metrics"))
    assert set(METRIC.findall((ROOT / name).read_text(encoding="utf-8"))) <= set(known)


@pytest.fixture(scope="module")
def messages() -> str:
    return texts("admission", "certs", "common", "recommender", "updater")


@pytest.mark.parametrize("name", PAGES)
def test_messages_on_a_page_exist(name: str, messages: str) -> None:
    found = set(MESSAGE.findall((ROOT / name).read_text(encoding="utf-8")))
    missing = {one for one in found if one not in messages and not one.startswith(COMMANDS)}
    assert missing - FOREIGN_MESSAGES - COMPOSED == set()

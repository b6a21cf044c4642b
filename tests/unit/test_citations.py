"""Every citation of the specification names a heading or a rule of docs/spec."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "docs" / "spec"
DEVIATIONS = ROOT / "docs" / "deviations.md"
PACKAGES = (
    *("common", "recommender", "updater", "admission", "certs", "kubectl_vpa"),
    *("sandbox", "controlplane", "demo", "tests", "benchmarks"),
)
_NAMES = ("recommender", "updater", "admission", "kubernetes-resize", "pod-level-resources")
_PLACE = r"(?:[0-9]+(?:\.[0-9]+)*|[A-Z][0-9]+)"
_CITATION = re.compile(
    rf"\b({'|'.join(_NAMES)})\.md"
    rf"(?:,? (?:sections? )?({_PLACE}(?:(?:, | and |, and | to |-){_PLACE})*))?"
)
_HEADING = re.compile(r"^#+ ([0-9]+(?:\.[0-9]+)*)\.? ", re.MULTILINE)
_RULE = re.compile(r"^(?:\| |#+ )([A-Z][0-9]+)\b", re.MULTILINE)


@dataclass(frozen=True)
class Citation:
    """A section or rule that a module names."""

    module: str
    document: str
    place: str  # a number, a rule's id, or empty for the whole document


def citations(module: str, text: str) -> Iterator[Citation]:
    """Yield the citations of a module; a citation may continue on the next line."""
    joined = re.sub(r"\s*\n\s*(?:# )?", " ", text)
    for found in _CITATION.finditer(joined):
        document, places = found.groups()
        for place in re.findall(_PLACE, places or "") or [""]:
            yield Citation(module, f"{document}.md", place)


def all_citations() -> list[Citation]:
    return [
        one
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if path != Path(__file__)
        for one in citations(str(path.relative_to(ROOT)), path.read_text())
    ]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        pytest.param("Source: updater.md 7.", ["7"], id="section"),
        pytest.param(
            "updater.md sections 1.4, 3.6 and 11;", ["1.4", "3.6", "11"], id="several sections"
        ),
        pytest.param("updater.md 10.2-10.5;", ["10.2", "10.5"], id="range"),
        pytest.param("updater.md 7 and D28 (ours)", ["7", "D28"], id="rule"),
        pytest.param("updater.md 13,\n    D35.", ["13", "D35"], id="next line"),
        pytest.param("see updater.md. 3 pods", [""], id="the whole document"),
    ],
)
def test_citations_in_a_text(text: str, places: list[str]) -> None:
    assert [one.place for one in citations("m.py", text)] == places


def test_every_citation_resolves() -> None:
    places: dict[str, set[str]] = {}
    deviations = set(_RULE.findall(DEVIATIONS.read_text()))
    for name in _NAMES:
        text = (SPEC / f"{name}.md").read_text()
        places[f"{name}.md"] = {*_HEADING.findall(text), *_RULE.findall(text), *deviations, ""}
    found = all_citations()
    assert len(found) > 300
    assert [one for one in found if one.place not in places[one.document]] == []

"""docs/validation.md as data: the sentences about each field."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "validation.md"

_ROW = re.compile(r"^\| `([^`]+)` \| ([^|]+) \| [^|]+ \|$", re.MULTILINE)
_WARNING = re.compile(r"^\| (spec\.[^|]+) \| [^|]+ \|$", re.MULTILINE)
_VARIES = re.compile(r"<[^>]+>|\bN\b")
_BOOST = r"(?:spec|spec\.resourcePolicy\.containerPolicies\[\d+\])\."


@dataclass(frozen=True, slots=True)
class DocumentedRule:
    """One row: patterns of the field and of the sentence."""

    field: str
    sentence: str

    def matches(self, field: str, sentence: str) -> bool:
        prefix = _BOOST if self.field.startswith("startupBoost") else ""
        return bool(
            re.fullmatch(prefix + _pattern(self.field), field)
            and re.fullmatch(_pattern(self.sentence), sentence)
        )


def rules() -> list[DocumentedRule]:
    """Return the rows of all rules, in the page's order."""
    return [DocumentedRule(*found) for found in _ROW.findall(_text())]


def warnings() -> list[str]:
    return _WARNING.findall(_text())


def is_warning(text: str) -> bool:
    """Return whether the page lists a warning."""
    return any(re.fullmatch(_pattern(known), text) for known in warnings())


def _text() -> str:
    return PAGE.read_text(encoding="utf-8")


def _pattern(text: str) -> str:
    return "".join(_parts(text))


def _parts(text: str) -> Iterator[str]:
    end = 0
    for found in _VARIES.finditer(text):
        yield re.escape(text[end : found.start()])
        yield r"\d+" if found.group() == "N" else r".+"
        end = found.end()
    yield re.escape(text[end:])

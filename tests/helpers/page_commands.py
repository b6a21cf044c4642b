"""Commands and manifests of the documentation's pages.

A fenced block ``console`` has commands behind ``$ ``, each with its output. In an output, … stands
for any text of a line, and a line with only … for any lines. Spaces between columns don't count.

A fenced block ``yaml title="NAME"`` is a manifest, which the commands of the page name as a file.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

DOCS = Path(__file__).parents[2] / "docs"

_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MANIFEST = re.compile(r'^```yaml title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ ((?:.*[\\|]\n)*.*)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PageCommand:
    """A command of a page, with the output that the page shows."""

    page: str
    command: str
    output: str

    def matches(self, printed: str) -> bool:
        """Return whether the page shows what the command printed."""
        pattern = "".join(_pattern(line) for line in _lines(self.output))
        return re.fullmatch(pattern, "".join(f"{line}\n" for line in _lines(printed))) is not None


def pages() -> list[str]:
    """Return the pages that have commands or manifests."""
    found = (file.relative_to(DOCS).as_posix() for file in sorted(DOCS.rglob("*.md")))
    return [page for page in found if commands(page) or manifests(page)]


def commands(page: str) -> list[PageCommand]:
    """Return the commands of a page in their order."""
    return [each for block in _CONSOLE.findall(_text(page)) for each in _commands(page, block)]


def manifests(page: str) -> dict[str, str]:
    """Return the manifests of a page by their file names, in their order.

    Raises:
        ValueError: two have the same name.
    """
    found = _MANIFEST.findall(_text(page))
    files = dict(found)
    if len(files) < len(found):
        raise ValueError(f"{page} has two manifests of one name")
    return files


def objects(page: str) -> list[dict[str, Any]]:
    """Return the objects of all manifests of a page."""
    return [one for text in manifests(page).values() for one in yaml.safe_load_all(text)]


def _commands(page: str, block: str) -> Iterator[PageCommand]:
    before, *parts = _COMMAND.split(block)
    if before:
        raise ValueError(f"{page}: a console block begins with output: {before}")
    for command, output in zip(parts[::2], parts[1::2], strict=True):
        yield PageCommand(page, command, output)


def _text(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def _lines(text: str) -> list[str]:
    """Return the lines that aren't empty, with single spaces."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def _pattern(line: str) -> str:
    if line == "…":
        return r"(?:.*\n)*"
    return re.escape(line).replace("…", ".*") + r"\n"

"""Commands and manifests of the documentation's pages.

A page is named by its path in the repository. Its blocks are fenced, in one of these languages:

- ``console``: commands behind ``$ ``, each with its output, which a test runs. In an output, …
  stands for any text of a line, and a line with only … for any lines. Spaces between columns
  don't count.
- ``sh``: commands that no test can run. tests/unit/test_page_blocks.py has the reason of each.
- ``yaml title="NAME"``: a manifest, which the commands of the page name as a file. A title
  ``kustomization.yaml`` is an overlay, and a page may have several.
- ``json``: an example of an answer. ``text``: anything else, such as lines of a log; with a title
  a screen that a test compares.
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
OVERLAY = "kustomization.yaml"

# Where the commands of a page run.
SANDBOX = tuple(
    f"docs/{name}.md"
    for name in (
        *("choosing-a-mode", "how-a-number-is-made", "in-place-updates"),
        *("known-limitations", "limits", "validation"),
    )
)
CONTROL_PLANE = tuple(
    f"docs/{name}.md"
    for name in (
        *("quick-start", "eviction-requirements", "install", "configuration", "security", "sizing"),
        *("checkpoints", "events", "monitoring", "troubleshooting", "certificates"),
        *("control-plane", "upgrade", "uninstall", "tour"),
    )
)
COMPONENTS = ("README.md", "docs/debugging.md", "docs/read-api.md")
CHART = "deploy/chart/README.md"  # tests/deploy/test_chart.py renders its values
REFERENCE = ("docs/migration.md",)  # tests/reference runs each of its blocks as a script

_BLOCK = re.compile(
    r'^(?P<indent> *)```(?P<language>\S*)(?: title="(?P<title>[^"]+)")?\n'
    r"(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_COMMAND = re.compile(r"^\$ ((?:.*[\\|]\n)*.*)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block."""

    language: str
    title: str
    text: str


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
    """Return all pages."""
    docs = (f"docs/{file.name}" for file in sorted((ROOT / "docs").glob("*.md")))
    return ["README.md", CHART, *docs]


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page in their order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        Block(each["language"], each["title"] or "", textwrap.dedent(each["text"]))
        for each in _BLOCK.finditer(text)
    ]


def find_block(page: str, start: str) -> str:
    """Return the one block of a page that begins with ``start``.

    Raises:
        ValueError: there is no block like this, or more than one.
    """
    (found,) = (each.text for each in blocks(page) if each.text.startswith(start))
    return found


def commands(page: str) -> list[PageCommand]:
    """Return the commands of a page that a test runs, in their order."""
    return [
        command
        for block in blocks(page)
        if block.language == "console"
        for command in _commands(page, block.text)
    ]


def manifests(page: str) -> dict[str, str]:
    """Return the manifests of a page by their file names, in their order, without overlays.

    Raises:
        ValueError: two have the same name.
    """
    found = [
        (block.title, block.text)
        for block in blocks(page)
        if block.language == "yaml" and block.title != OVERLAY
    ]
    files = dict(found)
    if len(files) < len(found):
        raise ValueError(f"{page} has two manifests of one name")
    return files


def overlays(page: str) -> list[str]:
    """Return the overlays of a page in their order."""
    return [block.text for block in blocks(page) if block.title == OVERLAY]


def objects(page: str) -> list[dict[str, Any]]:
    """Return the objects of all manifests of a page."""
    return [one for text in manifests(page).values() for one in yaml.safe_load_all(text)]


def _commands(page: str, block: str) -> Iterator[PageCommand]:
    before, *parts = _COMMAND.split(block)
    if before:
        raise ValueError(f"{page}: a console block begins with output: {before}")
    for command, output in zip(parts[::2], parts[1::2], strict=True):
        yield PageCommand(page, command, output)


def _lines(text: str) -> list[str]:
    """Return the lines that aren't empty, with single spaces."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def _pattern(line: str) -> str:
    if line == "…":
        return r"(?:.*\n)*"
    return re.escape(line).replace("…", ".*") + r"\n"

# ruff: noqa: INP001 - a script, not a package
"""Find words that this project's prose doesn't use: ``make lint`` runs it.

Checked are the pages of the documentation without their code, and the texts of programs: help,
log messages, Events, errors, metrics. These are all string literals but docstrings.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("*.md", "[!.]*/README.md", "docs/**/*.md", "sandbox/**/README.md")
PROGRAMS = (
    *("common", "recommender", "updater", "admission", "certs", "sandbox", "controlplane", "demo"),
    "docs",
)

# Each word, and what to write instead.
WORDS = {
    "anew": "again, or a new …",
    "as far as": "if, or: the part that",
    "at hand": "current, or: in progress",
    "by then": "before that",
    "dear": "expensive",
    "for ever": "until …, or: never …",
    "in vain": "without success",
    "nobody": "no one is a subject: name the component, or use the passive",
    "somebody": "name the component, or: another client",
    "such an?": "this, or: of this kind",
    "tell|tells|telling|told": "report, return, log, state or distinguish",
}
_BANNED = re.compile(rf"\b(?:{'|'.join(WORDS)})\b".replace(" ", r"\s+"), re.IGNORECASE)

_CODE = re.compile(r"^```.*?^```|^(?: {4}|\t).*?$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


class Finding(NamedTuple):
    """A banned word at a place."""

    file: str
    line: int
    word: str

    def __str__(self) -> str:
        word = " ".join(self.word.split()).lower()
        (instead,) = (text for banned, text in WORDS.items() if re.fullmatch(banned, word))
        return f"{self.file}:{self.line}: {word!r} (write {instead})"


def find_in_page(file: str, text: str) -> Iterator[Finding]:
    """Yield the banned words of a Markdown page, outside of its code."""
    prose = _CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)
    yield from _find(file, 1, prose)


def find_in_program(file: str, source: str) -> Iterator[Finding]:
    """Yield the banned words in the string literals of a module that aren't docstrings."""
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if id(node) in docstrings:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _find(file, node.lineno, node.value)


def _find(file: str, line: int, text: str) -> Iterator[Finding]:
    for found in _BANNED.finditer(text):
        yield Finding(file, line + text.count("\n", 0, found.start()), found[0])


def find_all(root: Path) -> Iterator[Finding]:
    """Yield the banned words of all pages and programs below ``root``."""
    pages = {page for pattern in PAGES for page in root.glob(pattern)}
    programs = {file for folder in PROGRAMS for file in (root / folder).rglob("*.py")}
    for file in sorted(pages | programs - {Path(__file__).resolve()}):
        name, text = str(file.relative_to(root)), file.read_text(encoding="utf-8")
        yield from (find_in_page if file.suffix == ".md" else find_in_program)(name, text)


def main() -> int:
    """Print what is found; the exit code."""
    wrong = [str(finding) for finding in find_all(ROOT)]
    print("\n".join(wrong), end="\n" * bool(wrong))  # noqa: T201 - a script
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

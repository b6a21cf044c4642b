"""Find words that this project's prose doesn't use: ``make lint`` runs it.

It checks the pages of the documentation without their code, docstrings, comments, and the texts of
programs: help, log messages, Events, errors, metrics. The texts are all string literals. Those of
tests may quote anything.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("*.md", "[!.]*/README.md", "docs/**/*.md", "sandbox/**/README.md")
PROGRAMS = (
    *("common", "recommender", "updater", "admission", "certs", "kubectl_vpa"),
    *("sandbox", "controlplane", "demo", "docs", "benchmarks", "deploy", "release"),
)
TESTS = "tests"

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

_INLINE_CODE = re.compile(r"`[^`\n]+`")
_CODE = re.compile(
    rf"^```.*?^```|^(?: {{4}}|\t).*?$|{_INLINE_CODE.pattern}", re.MULTILINE | re.DOTALL
)


class Finding(NamedTuple):
    """A banned word at a place."""

    file: str
    line: int
    word: str

    def __str__(self) -> str:
        word = " ".join(self.word.split()).lower()
        (instead,) = (text for banned, text in WORDS.items() if re.fullmatch(banned, word))
        return f"{self.file}:{self.line}: {word!r} (write {instead})"


Check: TypeAlias = Callable[[str, str], Iterator[Finding]]
"""Finds the banned words of a file, given its name and its text."""


def find_in_page(file: str, text: str) -> Iterator[Finding]:
    """Yield the banned words of a Markdown page, outside of its code."""
    prose = _CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)
    yield from _find(file, 1, prose)


def find_in_program(file: str, source: str) -> Iterator[Finding]:
    """Yield the banned words in the docstrings, comments and other string literals of a module."""
    yield from find_in_test(file, source)
    tree = ast.parse(source)
    docstrings = set(map(id, _docstrings(tree)))
    for node in ast.walk(tree):
        match node:
            case ast.Constant(str(text)) if id(node) not in docstrings:
                yield from _find(file, node.lineno, text)


def find_in_test(file: str, source: str) -> Iterator[Finding]:
    """Yield the banned words in the docstrings and comments of a module, outside of their code."""
    for node in _docstrings(ast.parse(source)):
        yield from _find(file, node.lineno, _INLINE_CODE.sub("", str(node.value)))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from _find(file, token.start[0], _INLINE_CODE.sub("", token.string))


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        match node:
            case ast.Expr(ast.Constant(str()) as docstring):
                yield docstring


def _find(file: str, line: int, text: str) -> Iterator[Finding]:
    for found in _BANNED.finditer(text):
        yield Finding(file, line + text.count("\n", 0, found.start()), found[0])


def find_all(root: Path) -> Iterator[Finding]:
    """Yield the banned words of all pages, programs and tests below ``root``."""
    checks: dict[Path, Check] = {}
    for pattern in PAGES:
        checks |= dict.fromkeys(root.glob(pattern), find_in_page)
    for folder in PROGRAMS:
        checks |= dict.fromkeys((root / folder).rglob("*.py"), find_in_program)
    checks |= dict.fromkeys((root / TESTS).rglob("*.py"), find_in_test)
    checks.pop(Path(__file__).resolve(), None)
    for file, check in sorted(checks.items()):
        text = file.read_text(encoding="utf-8")
        if _BANNED.search(text):  # perhaps in code: parsing every file takes ten seconds
            yield from check(str(file.relative_to(root)), text)


def main() -> int:
    """Print what is found; the exit code."""
    wrong = [str(finding) for finding in find_all(ROOT)]
    print("\n".join(wrong), end="\n" * bool(wrong))  # noqa: T201 - a script
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

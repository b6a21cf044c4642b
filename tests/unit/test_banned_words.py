"""The check for banned words reports file, line and replacement, in pages and messages."""

from pathlib import Path

import pytest

import banned_words
from banned_words import find_all, find_in_page, find_in_program, find_in_test

PAGE = """\
# Title

It is
DEAR, and as
far as `told` goes:

    dear

```
at hand
```
"""

PROGRAM = '''"""Tell the caller; `tell` and ``told`` are code."""
import logging

LIMIT = 3  # as far as a comment goes
"""The docstring of a variable: dear."""


def act(name: str) -> None:
    """Act with the data at hand."""
    logging.getLogger().warning("by then it is late")
    raise ValueError(f"the {name} was told" + " to stop")
'''


def test_a_page() -> None:
    assert [str(found) for found in find_in_page("a.md", PAGE)] == [
        "a.md:4: 'dear' (write expensive)",
        "a.md:4: 'as far as' (write if, or: the part that)",
    ]


def test_a_program() -> None:
    assert [(found.line, found.word) for found in sorted(find_in_program("a.py", PROGRAM))] == [
        (1, "Tell"),
        (4, "as far as"),
        (5, "dear"),
        (9, "at hand"),
        (10, "by then"),
        (11, "told"),
    ]


def test_a_test_may_quote_anything() -> None:
    found = sorted(find_in_test("a.py", PROGRAM))
    assert [one.word for one in found] == ["Tell", "as far as", "dear", "at hand"]


@pytest.mark.parametrize("text", ["endear", "foretold", "by thence", "teller", "such as these"])
def test_longer_words(text: str) -> None:
    assert not list(find_in_page("a.md", text))


def test_all_files(tmp_path: Path) -> None:
    for folder, name, text in (
        ("", "README.md", "dear"),
        ("docs/spec", "a.md", "at hand"),
        ("docs/data", "a.csv", "at hand"),
        ("common/api", "a.py", "HELP = 'as far as'"),
        ("tests/unit", "a.py", "HELP = 'as far as'"),
        ("tests/unit", "b.py", "# as far as"),
    ):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / name).write_text(text)
    assert [str(found).split(":")[0].split("/") for found in find_all(tmp_path)] == [
        ["README.md"],
        ["common", "api", "a.py"],
        ["docs", "spec", "a.md"],
        ["tests", "unit", "b.py"],
    ]


def test_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(banned_words, "ROOT", tmp_path)
    assert banned_words.main() == 0
    (tmp_path / "README.md").write_text("dear")
    assert banned_words.main() == 1
    assert capsys.readouterr().out == "README.md:1: 'dear' (write expensive)\n"

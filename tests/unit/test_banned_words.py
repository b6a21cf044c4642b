"""The check of words finds them in pages and messages, with file, line and replacement."""

from pathlib import Path

import banned_words
import pytest
from banned_words import find_all, find_in_page, find_in_program

PAGE = """\
# Title

It starts
ANEW, and as
far as `nobody` knows:

    dear

```
in vain
```
"""

PROGRAM = '''"""Nobody is a word that a docstring may have."""
import logging

LIMIT = 3  # as far as a comment goes
"""The docstring of a variable: anew."""


def act(name: str) -> None:
    """Act in vain."""
    logging.getLogger().warning("somebody else writes")
    raise ValueError(f"the {name} was told" + " to stop")
'''


def test_a_page() -> None:
    assert [str(found) for found in find_in_page("a.md", PAGE)] == [
        "a.md:4: 'anew' (write again, or a new …)",
        "a.md:4: 'as far as' (write if, or: the part that)",
    ]


def test_a_program() -> None:
    assert [(found.line, found.word) for found in find_in_program("a.py", PROGRAM)] == [
        (10, "somebody"),
        (11, "told"),
    ]


@pytest.mark.parametrize("text", ["endear", "foretold", "by thence", "teller", "such as these"])
def test_longer_words(text: str) -> None:
    assert not list(find_in_page("a.md", text))


def test_all_files(tmp_path: Path) -> None:
    for folder, name, text in (
        ("", "README.md", "dear"),
        ("docs/spec", "a.md", "in vain"),
        ("docs/data", "a.csv", "in vain"),
        ("common/api", "a.py", "HELP = 'for ever'"),
        ("tests", "a.py", "HELP = 'for ever'"),
    ):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / name).write_text(text)
    assert [str(found).split(":")[0].split("/") for found in find_all(tmp_path)] == [
        ["README.md"],
        ["common", "api", "a.py"],
        ["docs", "spec", "a.md"],
    ]


def test_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(banned_words, "ROOT", tmp_path)
    assert banned_words.main() == 0
    (tmp_path / "README.md").write_text("dear")
    assert banned_words.main() == 1
    assert capsys.readouterr().out == "README.md:1: 'dear' (write expensive)\n"

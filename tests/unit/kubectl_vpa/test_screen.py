"""Texts for a terminal."""

import pytest

from kubectl_vpa.output.screen import printable


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("500m → 49m\nnext", "500m → 49m\nnext"),
        ("a\x1b[2Jb", "a\ufffd[2Jb"),
        ("a\rb\tc", "a\ufffdb\ufffdc"),
        ("\x9b31m\x7f", "\ufffd31m\ufffd"),
    ],
    ids=["ordinary", "an escape sequence", "a carriage return", "C1 and delete"],
)
def test_no_text_changes_the_terminal(text: str, want: str) -> None:
    assert printable(text) == want

"""Where a text stops to be base64: what Go's ``base64.StdEncoding`` says of each."""

import pytest

from sandbox.objects.byte_fields import broken_at

GOOD = ["", "abcd", "ab==", "abc=", "ab\n==", "ab=\n=", "ab==\n", "abcdab=="]
BROKEN = [
    ("%", 0),
    ("a b", 1),
    ("abc", 0),
    ("abcde", 4),
    ("abc\n", 1),
    ("=", 0),
    ("a=", 1),
    ("abcd=", 4),
    ("ab=", 3),
    ("ab=\n", 4),
    ("ab=x", 2),
    ("ab==x", 4),
    ("abc==", 4),
    ("YQ==YQ==", 4),
]


@pytest.mark.parametrize("text", GOOD, ids=repr)
def test_base64(text: str) -> None:
    assert broken_at(text) is None


@pytest.mark.parametrize(("text", "place"), BROKEN, ids=repr)
def test_no_base64(text: str, place: int) -> None:
    assert broken_at(text) == place

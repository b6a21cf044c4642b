"""Go's regular expressions and formats of texts, as schemas of custom resources use them."""

import pytest

from sandbox.objects.go_patterns import compiled, problem
from sandbox.objects.rules.text_formats import FORMATS


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("^[[:alnum:]]+$", "a1", True),
        ("^[[:alnum:]]+$", "a-", False),
        ("^[[:alpha:]_-]+$", "a_-", True),
        (r"a\z", "a\n", False),
        ("(?<word>a+)b", "aab", True),
        (r"^\d+(\.\d+)?$", "1.5", True),
    ],
)
def test_what_only_go_writes_so(pattern: str, text: str, *, fits: bool) -> None:
    assert problem(pattern) == ""
    assert (compiled(pattern).search(text) is not None) is fits


def test_what_can_not_be_applied_is_refused_though_go_takes_it() -> None:
    assert problem(r"^\p{L}+$").startswith("the sandbox can't apply it")


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("datetime", "2026-11-21t08:25:00.5+01:00", "2026-11-21 08:25:00Z"),
        ("date", "2026-02-28", "2026-02-30"),
        ("byte", "YQ==", "a"),
        ("cidr", "10.0.0.0/8", "10.0.0.0"),
        ("ipv6", "::1", "127.0.0.1"),
        ("uuid4", "8c5a1c5e-0f5e-4b7a-9c1d-2f3a4b5c6d7e", "8c5a1c5e-0f5e-1b7a-9c1d-2f3a4b5c6d7e"),
    ],
)
def test_formats(name: str, good: str, bad: str) -> None:
    assert FORMATS[name](good)
    assert not FORMATS[name](bad)

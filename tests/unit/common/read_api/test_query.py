"""The parameters of lists, continue tokens and ETags."""

import pytest

from common.read_api.query import (
    BadQueryError,
    ListQuery,
    decode_token,
    encode_token,
    etag,
    matches,
)


@pytest.mark.parametrize(
    ("limit", "want"),
    [
        pytest.param("", 250, id="the default"),
        pytest.param("1", 1, id="the least"),
        pytest.param("1000", 1000, id="the most"),
        pytest.param("0", None, id="too few"),
        pytest.param("1001", None, id="too many"),
        pytest.param("10000000", None, id="far too many"),
        pytest.param("-1", None, id="negative"),
        pytest.param("1.5", None, id="a fraction"),
        pytest.param("all", None, id="a word"),
        pytest.param("٣", None, id="a digit of another script"),
        pytest.param("0001", 1, id="leading zeros"),
    ],
)
def test_limits(limit: str, want: int | None) -> None:
    if want is None:
        with pytest.raises(BadQueryError, match="1 to 1000"):
            ListQuery.of({"limit": limit}, name="vpa")
    else:
        assert ListQuery.of({"limit": limit}, name="vpa").limit == want


def test_a_query_has_the_filters_of_its_list() -> None:
    given = {"namespace": "shop", "vpa": "web", "name": "other", "continue": "x", "unknown": "y"}
    assert ListQuery.of(given, name="vpa") == ListQuery(namespace="shop", name="web", after="x")
    assert ListQuery.of(given, name="name").name == "other"


@pytest.mark.parametrize("place", [("shop", "web", "web-0"), ("a" * 253, "ü", None)], ids=str)
def test_a_token_names_its_place(place: tuple[str, str, str | None]) -> None:
    token = encode_token(place)
    assert token.isascii()
    assert not set(token) & set("+/=&? ")
    assert decode_token(token, tuple[str, str, str | None]) == place


@pytest.mark.parametrize(
    "token",
    ["x", "!!!!", "ü", encode_token(7), encode_token(["shop"]), encode_token("a" * 9000), "\x00"],
    ids=["one character", "no base64", "no ASCII", "a history's", "too short", "too long", "zero"],
)
def test_another_token_is_refused(token: str) -> None:
    with pytest.raises(BadQueryError, match="token"):
        decode_token(token, tuple[str, str, str | None])


def test_an_etag_depends_on_each_part() -> None:
    tags = {etag("p", 1, "limit=1", ""), etag("q", 1, "limit=1", ""), etag("p", 2, "limit=1", "")}
    tags |= {etag("p", 1, "limit=2", ""), etag("p", 1, "limit=1", "bob"), etag("p1", "", "", "")}
    assert len(tags) == 6
    assert etag("p", 1) == etag("p", 1)


@pytest.mark.parametrize(
    ("header", "want"),
    [
        pytest.param("", False, id="no header"),
        pytest.param('W/"a"', True, id="the same"),
        pytest.param('"a"', True, id="the same, strong"),
        pytest.param('"b", W/"a"', True, id="one of several"),
        pytest.param("*", True, id="any"),
        pytest.param('W/"b"', False, id="another"),
        pytest.param('W/"ab"', False, id="a longer one"),
    ],
)
def test_if_none_match(header: str, *, want: bool) -> None:
    assert matches(header, 'W/"a"') is want

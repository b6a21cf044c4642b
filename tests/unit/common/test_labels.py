"""Label selectors: parsing, printing, matching and comparison."""

import pytest

from common.api.meta import LabelSelector, LabelSelectorRequirement
from common.labels import (
    EVERYTHING,
    NOTHING,
    LabelSelectorError,
    canonical_labels,
    from_label_selector,
    from_map,
    parse_selector,
)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("  ", ""),
        ("b,a", "a,b"),
        ("!a", "!a"),
        ("a==1", "a==1"),
        ("a in (c, b,b)", "a in (b,c)"),
        ("a in (,b)", "a in (,b)"),
        ("a in (b,)", "a in (,b)"),
        ("a notin (in)", "a notin (in)"),
        ("in in (notin)", "in in (notin)"),
        ("a=,b", "a=,b"),
        ("a!=", "a!="),
    ],
)
def test_texts(text: str, canonical: str) -> None:
    assert str(parse_selector(text)) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "a,",
        ",a",
        "=a",
        "!a=b",
        "!",
        "a in",
        "a in b",
        "a in (b",
        "a in (b c)",
        "a b",
        "a=b=c",
        "a>b",
        "a>",
        "a=b c",
        "a/b/c",
        "A.example/x",
        "-a",
        "a=-b",
        "a=" + "b" * 64,
        "a" * 64,
    ],
)
def test_invalid_selectors(text: str) -> None:
    with pytest.raises(LabelSelectorError):
        parse_selector(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "a is b",
            "unable to parse requirement: found 'is', expected: in, notin, =, ==, !=, gt, lt",
        ),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("a==!", "unable to parse requirement: found '!', expected: identifier"),
    ],
)
def test_errors_equal_those_of_apimachinery(text: str, sentence: str) -> None:
    with pytest.raises(LabelSelectorError) as caught:
        parse_selector(text)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
        ("a!=1", {}, True),
        ("a notin (1)", {}, True),
        ("a=1", {}, False),
        ("a in (1,2)", {"a": "2"}, True),
        ("a>1", {"a": "2"}, True),
        ("a>1", {"a": "1"}, False),
        ("a<1", {"a": "0"}, True),
        ("a<1", {"a": "1"}, False),
        ("a<1", {"a": "none"}, False),
        ("a<1", {"a": "-9223372036854775808"}, True),
        ("a<1", {"a": "-9223372036854775809"}, False),
        ("a,b=2", {"a": "1", "b": "1"}, False),
    ],
)
def test_matches(text: str, labels: dict[str, str], *, matches: bool) -> None:
    assert parse_selector(text).matches(labels) is matches


def test_an_absent_selector_selects_nothing_and_an_empty_one_everything() -> None:
    for nothing in (from_label_selector(None), from_map(None)):
        assert nothing == NOTHING
        assert not nothing.matches({"a": "1"})
        assert not nothing.matches(None)
    for everything in (from_label_selector(LabelSelector()), from_map({}), parse_selector("")):
        assert everything == EVERYTHING
        assert everything.matches({"a": "1"})
        assert everything.matches(None)


def test_selectors_are_compared_by_value() -> None:
    assert str(NOTHING) == str(EVERYTHING)
    assert NOTHING != EVERYTHING
    assert from_map({"a": "1", "b": "2"}) == parse_selector("b=2,a=1")


def test_an_unknown_operator_is_named() -> None:
    selector = LabelSelector(
        match_expressions=(LabelSelectorRequirement(key="a", operator="Like", values=("b",)),)
    )
    with pytest.raises(LabelSelectorError, match='"Like" is not a valid label selector operator'):
        from_label_selector(selector)


def test_canonical_labels() -> None:
    assert canonical_labels(None) == canonical_labels({}) == ""
    assert canonical_labels({"b": "1", "a": "2"}) == canonical_labels({"a": "2", "b": "1"})
    assert canonical_labels({"a": "", "a.b/c": ""}) == "a.b/c=,a="

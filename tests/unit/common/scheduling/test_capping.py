"""Containers of a pod that don't fit are capped in proportion."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.scheduling.capping import Claims, capped_in_proportion

CASES = [
    ("all fits", {"a": 100, "b": 50}, {}, 150, {"a": 100, "b": 50}),
    ("one too many", {"a": 100, "b": 50}, {}, 149, {"a": 99, "b": 49}),
    ("half", {"a": 100, "b": 50}, {}, 75, {"a": 50, "b": 25}),
    ("no room", {"a": 100, "b": 50}, {}, 0, {"a": 0, "b": 0}),
    ("less than no room", {"a": 100}, {}, -5, {"a": 0}),
    (
        "a minimum is kept, and the other container gives more",
        {"a": 100, "b": 100},
        {"a": 80},
        100,
        {"a": 80, "b": 20},
    ),
    (
        "a minimum below the share changes nothing",
        {"a": 100, "b": 100},
        {"a": 50},
        100,
        {"a": 50, "b": 50},
    ),
    ("minimums above the bound", {"a": 100, "b": 100}, {"a": 80, "b": 40}, 100, {"a": 80, "b": 40}),
    ("a minimum above its target", {"a": 10, "b": 90}, {"a": 50}, 50, {"a": 10, "b": 40}),
    (
        "a second minimum is reached by the first",
        {"a": 100, "b": 60, "c": 40},
        {"a": 90, "b": 20},
        120,
        {"a": 90, "b": 20, "c": 10},
    ),
    ("nothing is wanted", {"a": 0}, {}, 0, {"a": 0}),
]


@pytest.mark.parametrize(
    ("targets", "minimums", "most", "amounts"),
    [pytest.param(*case, id=name) for name, *case in CASES],
)
def test_amounts(
    targets: Mapping[str, int], minimums: Mapping[str, int], most: int, amounts: Mapping[str, int]
) -> None:
    claims = Claims(targets=targets, minimums=minimums)
    assert capped_in_proportion(claims, most) == amounts


amounts = st.integers(min_value=0, max_value=10**6)
containers = st.dictionaries(st.sampled_from("abcd"), amounts, min_size=1)


@given(containers, st.dictionaries(st.sampled_from("abcd"), amounts), amounts)
def test_sums_fit_or_are_the_least_that_is_allowed(
    targets: Mapping[str, int], minimums: Mapping[str, int], most: int
) -> None:
    claims = Claims(targets=targets, minimums=minimums)
    found = capped_in_proportion(claims, most)
    assert sum(found.values()) <= max(most, claims.least)
    for name, amount in found.items():
        assert min(minimums.get(name, 0), targets[name]) <= amount <= targets[name]

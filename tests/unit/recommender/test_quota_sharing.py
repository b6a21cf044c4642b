"""The division of a quota among the workloads that compete for it."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recommender.estimate.quota_sharing import Claim, divide


def claim(need: int, *, least: int = 0, fixed: int = 0, weight: int | None = None) -> Claim:
    return Claim(
        least=max(least, fixed),
        need=need,
        fixed=fixed,
        weight=need - fixed if weight is None else weight,
    )


@pytest.mark.parametrize(
    ("room", "claims", "shares"),
    [
        pytest.param(100, {}, {}, id="no workload"),
        pytest.param(100, {"a": claim(60)}, {"a": 100}, id="one workload may take everything"),
        pytest.param(
            60, {"a": claim(100)}, {"a": 60}, id="one workload gets no more than is there"
        ),
        pytest.param(
            100,
            {"a": claim(60), "b": claim(30)},
            {"a": 70, "b": 40},
            id="each may take what is left beside all needs",
        ),
        pytest.param(
            90, {"a": claim(60), "b": claim(30)}, {"a": 60, "b": 30}, id="all needs just fit"
        ),
        pytest.param(
            60,
            {"a": claim(60), "b": claim(30)},
            {"a": 40, "b": 20},
            id="otherwise they share in proportion to their weight",
        ),
        pytest.param(
            60,
            {"a": claim(90), "b": claim(10, weight=90)},
            {"a": 50, "b": 50},
            id="what one doesn't need goes to the others",
        ),
        pytest.param(
            60,
            {"a": claim(60), "b": claim(30, least=25)},
            {"a": 35, "b": 25},
            id="a minimum is kept, and the others share the rest",
        ),
        pytest.param(
            40,
            {"a": claim(60, least=30), "b": claim(30, least=25)},
            {"a": 21, "b": 18},
            id="minimums that don't fit share the room in proportion",
        ),
        pytest.param(
            -5, {"a": claim(60), "b": claim(30)}, {"a": 0, "b": 0}, id="an exceeded quota"
        ),
        pytest.param(
            60,
            {"a": claim(50, fixed=20), "b": claim(30)},
            {"a": 40, "b": 20},
            id="containers that aren't scaled come first",
        ),
        pytest.param(
            10, {"a": claim(8, least=8, weight=0), "b": claim(9)}, {"a": 8, "b": 2}, id="no weight"
        ),
        pytest.param(
            10,
            {"a": claim(4), "b": claim(4), "c": claim(4)},
            {"a": 3, "b": 3, "c": 3},
            id="shares are rounded down",
        ),
    ],
)
def test_shares_of_a_room(
    room: int, claims: Mapping[str, Claim], shares: Mapping[str, int]
) -> None:
    assert divide(room, claims) == shares


@st.composite
def any_claim(draw: st.DrawFn) -> Claim:
    amounts = st.integers(0, 10_000)
    fixed = draw(amounts)
    least = fixed + draw(amounts)
    return Claim(
        least=least, need=least + draw(amounts), fixed=fixed, weight=draw(st.integers(0, 30_000))
    )


@given(st.integers(-1000, 60_000), st.lists(any_claim(), min_size=1, max_size=7))
def test_what_workloads_take_fits_unless_minimums_forbid_it(room: int, given_: list[Claim]) -> None:
    claims = dict(enumerate(given_))

    shares = divide(room, claims)

    taken = {key: each.taken(shares[key]) for key, each in claims.items()}
    least = sum(each.least for each in given_)
    assert sum(taken.values()) <= max(room, least)
    assert (sum(taken.values()) <= room) == (least <= room)
    if least > room:
        assert sum(shares.values()) <= max(0, room)
    if sum(each.need for each in given_) <= room:
        assert taken == {key: each.need for key, each in claims.items()}


@given(st.integers(0, 60_000), st.lists(any_claim(), min_size=1, max_size=7))
def test_little_is_left_while_a_need_is_not_met(room: int, given_: list[Claim]) -> None:
    """Each share is rounded down, so less than one unit for each workload is left."""
    claims = {key: each for key, each in enumerate(given_) if each.weight}

    taken = {key: claims[key].taken(share) for key, share in divide(room, claims).items()}

    if any(taken[key] < each.need for key, each in claims.items()):
        assert sum(taken.values()) > room - len(claims)

"""Until when a decision that nothing is written stands (X80)."""

from array import array
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from recommender.model.keys import VpaKey
from recommender.model.usage import Group
from recommender.publish.status import NOTICED
from recommender.publish.status_decision_cache import Grounds, Standing, room

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
WEB = Group(vpa=VpaKey("shop", "web"), container="app", rows=(0,), has_pods=True)
GROUNDS = Grounds(
    controlled_by="",
    version="7",
    unsupported="",
    groups=(WEB,),
    has_pods=True,
    is_sure=True,
    targets=array("q", (100, 1000)),
    bounds=array("q", (50, 200, 500, 2000)),
)
STANDING = Standing(
    grounds=GROUNDS,
    room=room(0.0),
    due=NOW + timedelta(minutes=9),
    is_equal=True,
    compared={},
)


def bounds(*amounts: int) -> Grounds:
    return replace(GROUNDS, bounds=array("q", amounts))


@pytest.mark.parametrize(
    ("now", "want"),
    [
        pytest.param(GROUNDS, True, id="nothing is new"),
        pytest.param(replace(GROUNDS, version="8"), False, id="another version of the VPA"),
        pytest.param(replace(GROUNDS, unsupported="why"), False, id="its target can't be used"),
        pytest.param(replace(GROUNDS, controlled_by="old"), False, id="an older VPA has come"),
        pytest.param(replace(GROUNDS, groups=(WEB, WEB)), False, id="another container"),
        pytest.param(replace(GROUNDS, has_pods=False), False, id="no pods any more"),
        pytest.param(replace(GROUNDS, is_sure=False), False, id="less history"),
        pytest.param(replace(GROUNDS, targets=array("q", (101, 1000))), False, id="another target"),
        pytest.param(bounds(50, 201, 500, 2000), True, id="a bound by less than one percent"),
        pytest.param(bounds(50, 203, 500, 2000), False, id="a bound by more than one percent"),
        pytest.param(bounds(50, 200, 500, 2019), True, id="the last bound by less"),
        pytest.param(bounds(50, 200, 500, 1979), False, id="the last bound by more, downwards"),
    ],
)
def test_what_a_decision_stands_on(*, now: Grounds, want: bool) -> None:
    assert STANDING.holds(now, NOW) is want


def test_a_vpa_without_a_version_may_be_any() -> None:
    unknown = replace(GROUNDS, version="")
    assert not replace(STANDING, grounds=unknown).holds(unknown, NOW)


@pytest.mark.parametrize(
    ("standing", "now", "want"),
    [
        pytest.param(STANDING, GROUNDS, True, id="equal, and nothing has moved"),
        pytest.param(STANDING, bounds(50, 200, 500, 2001), False, id="equal, and something moved"),
        pytest.param(
            replace(STANDING, is_equal=False), GROUNDS, False, id="a small difference is left"
        ),
    ],
)
def test_in_time_small_differences_are_decided_anew(
    *, standing: Standing, now: Grounds, want: bool
) -> None:
    assert standing.holds(now, STANDING.due) is want
    assert standing.holds(now, STANDING.due - timedelta(seconds=1))


@pytest.mark.parametrize("moved", [0.0, 0.001, 0.0099, NOTICED])
def test_in_the_room_nobody_notices_anything(moved: float) -> None:
    published = 1_000_000
    estimated = published * (1 + moved)
    furthest = estimated * (1 + room(moved))
    assert (furthest - published) / published <= NOTICED
    assert room(moved) >= 0.0

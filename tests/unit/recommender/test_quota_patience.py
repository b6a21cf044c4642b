"""Targets that don't follow each move of a bound by quotas; steps of one minute."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from recommender.estimate.quota_patience import NewTargets, QuotaState, QuotaWait, settle

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def walk(*bounds: int, wanted: int = 200, published: int = 100, lowered: bool = True) -> list[int]:
    """Return the targets for these bounds, a minute apart; each is published before the next.

    ``lowered``: quotas have lowered the first published target.
    """
    found: list[int] = []
    state: QuotaState | None = None
    for minute, bound in enumerate(bounds):

        def fits(targets: Mapping[str, int], bound: int = bound) -> bool:
            return targets["app"] <= bound

        target, state = settle(
            {"app": wanted},
            {"app": min(wanted, bound)},
            {"app": min(wanted, published)},
            fits,
            was_lowered=lowered,
            last=state,
            now=NOW + timedelta(minutes=minute),
        )
        published = target["app"]
        lowered = published < wanted
        found.append(published)
    return found


@pytest.mark.parametrize(
    ("bounds", "targets"),
    [
        pytest.param([99] * 30, [100] * 30, id="not yet half an hour"),
        pytest.param([99] * 31, [100] * 30 + [99], id="half an hour"),
        pytest.param(
            [99] * 20 + [100] + [99] * 20, [100] * 41, id="in between it fitted for a minute"
        ),
        pytest.param(
            [99] * 20 + [110] + [99] * 20, [100] * 41, id="in between a larger one fitted"
        ),
        pytest.param(
            [98] * 10 + [50] * 21, [100] * 30 + [98], id="the largest that fitted within this time"
        ),
        pytest.param(
            [98] * 10 + [50] * 51,
            [100] * 30 + [98] * 30 + [50],
            id="a lower one has another half an hour",
        ),
    ],
)
def test_a_target_that_is_refused_is_lowered(bounds: list[int], targets: list[int]) -> None:
    assert walk(*bounds) == targets


@pytest.mark.parametrize(
    ("bounds", "targets"),
    [
        pytest.param([100], [100], id="it just fits"),
        pytest.param([109] * 40, [100] * 40, id="less than ten percent more"),
        pytest.param([110] * 30, [100] * 30, id="ten percent more, not yet half an hour"),
        pytest.param([110] * 31, [100] * 30 + [110], id="ten percent more, half an hour"),
        pytest.param(
            [150] * 20 + [109] + [150] * 20, [100] * 41, id="in between there was less room"
        ),
        pytest.param(
            [150] * 20 + [99] + [150] * 20, [100] * 41, id="in between it did not fit at all"
        ),
        pytest.param(
            [150] * 10 + [120] + [150] * 20,
            [100] * 30 + [120],
            id="the smallest that fitted within this time",
        ),
        pytest.param(
            [120] + [150] * 60,
            [100] * 30 + [120] * 30 + [150],
            id="a larger one has another half an hour",
        ),
        pytest.param([200] * 31, [100] * 30 + [200], id="the wanted target"),
    ],
)
def test_a_lowered_target_grows(bounds: list[int], targets: list[int]) -> None:
    assert walk(*bounds) == targets


@pytest.mark.parametrize(
    ("published", "targets"),
    [
        pytest.param(195, [195] * 30 + [200], id="less than ten percent, if it is unlowered then"),
        pytest.param(200, [200] * 31, id="nothing is left to grow"),
    ],
)
def test_growth_to_the_wanted_target(published: int, targets: list[int]) -> None:
    assert walk(*[300] * 31, published=published) == targets


@pytest.mark.parametrize(
    ("bounds", "targets"),
    [
        pytest.param([200], [200], id="at once, as far as it is wanted"),
        pytest.param([110], [110], id="at once, as far as there is room"),
        pytest.param([109], [100], id="not by less than ten percent"),
        pytest.param([199, 120], [199, 120], id="it is lowered at once if it doesn't fit then"),
        pytest.param([200, 120], [200, 120], id="also one that isn't lowered"),
        pytest.param(
            [199, 199, 120], [199, 199, 199], id="a target that fitted once stays for half an hour"
        ),
        pytest.param([199, 120, 100], [199, 120, 120], id="so does one that was lowered at once"),
    ],
)
def test_a_target_that_was_not_lowered_grows(bounds: list[int], targets: list[int]) -> None:
    assert walk(*bounds, lowered=False) == targets


def test_a_grown_target_that_was_not_published_has_patience() -> None:
    """Its write failed: the smaller one is still published."""
    kept, state = {"app": 100}, NewTargets(above={"app": 100})

    found, _ = settle(
        {"app": 200},
        {"app": 90},
        kept,
        lambda _: False,
        was_lowered=False,
        last=state,
        now=NOW,
    )

    assert found == kept


def test_targets_at_their_lowest_wait_for_nothing_more() -> None:
    old = QuotaWait(since=NOW - timedelta(hours=1), fitting={"app": 50})

    found = settle(
        {"app": 200},
        {"app": 50},
        {"app": 100},
        lambda _: False,
        was_lowered=True,
        last=old,
        now=NOW,
    )

    assert found == ({"app": 50}, old)


def test_targets_are_lowered_in_the_proportion_of_the_recommendation() -> None:
    """One of two containers may even grow; otherwise it would do so one cycle later."""
    kept, fitting = {"app": 900, "log": 100}, {"app": 250, "log": 250}
    old = QuotaWait(since=NOW - timedelta(hours=1), fitting={"app": 200, "log": 200})

    found, _ = settle(
        {"app": 1000, "log": 1000},
        fitting,
        kept,
        lambda _: False,
        was_lowered=True,
        last=old,
        now=NOW,
    )

    assert found == fitting


@pytest.mark.parametrize(
    ("since", "fitting", "grows"),
    [
        pytest.param(NOW + timedelta(hours=1), 50, False, id="the clock moved back"),
        pytest.param(NOW - timedelta(hours=1), 50, True, id="there was more room until now"),
        pytest.param(NOW - timedelta(hours=1), 150, False, id="there was less room until now"),
    ],
)
def test_the_time_starts_again(since: datetime, fitting: int, *, grows: bool) -> None:
    last = QuotaWait(since=since, fitting={"app": fitting}, grows=grows)

    found, state = settle(
        {"app": 200},
        {"app": fitting},
        {"app": 100},
        lambda targets: targets["app"] <= fitting,
        was_lowered=True,
        last=last,
        now=NOW,
    )

    assert found == {"app": 100}
    assert state == QuotaWait(since=NOW, fitting={"app": fitting}, grows=fitting > 100)

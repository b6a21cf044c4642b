"""Targets that don't follow each move of a bound by quotas; steps of one minute."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from recommender.estimate.quota_patience import QuotaWait, settle

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def walk(*bounds: int, wanted: int = 200, published: int = 100) -> list[int]:
    """Return the targets for these bounds, a minute apart; each is published before the next."""
    found: list[int] = []
    wait: QuotaWait | None = None
    for minute, bound in enumerate(bounds):

        def fits(targets: Mapping[str, int], bound: int = bound) -> bool:
            return targets["app"] <= bound

        target, wait = settle(
            {"app": wanted},
            {"app": min(wanted, bound)},
            {"app": min(wanted, published)},
            fits,
            wait=wait,
            now=NOW + timedelta(minutes=minute),
        )
        published = target["app"]
        found.append(published)
    return found


@pytest.mark.parametrize(
    ("bounds", "targets"),
    [
        pytest.param([100], [100], id="it just fits"),
        pytest.param([109], [100], id="less than ten percent more"),
        pytest.param([110], [110], id="ten percent more"),
        pytest.param([110, 115, 121], [110, 110, 121], id="steps count from the last one"),
        pytest.param([99] * 30, [100] * 30, id="not yet half an hour"),
        pytest.param([99] * 31, [100] * 30 + [99], id="half an hour"),
        pytest.param(
            [99] * 20 + [100] + [99] * 20, [100] * 41, id="in between it fitted for a minute"
        ),
        pytest.param(
            [98] * 10 + [50] * 21, [100] * 30 + [98], id="the largest that fitted within this time"
        ),
        pytest.param(
            [98] * 10 + [50] * 51,
            [100] * 30 + [98] * 30 + [50],
            id="a lower one has another half an hour",
        ),
        pytest.param([99] * 10 + [200], [100] * 10 + [200], id="it grows while it waits"),
        pytest.param([199, 120], [199, 120], id="a target that has just grown has no patience"),
        pytest.param([200, 120], [200, 120], id="nor one that isn't lowered"),
        pytest.param(
            [199, 199, 120], [199, 199, 199], id="a target that fitted once stays for half an hour"
        ),
        pytest.param([199, 120, 100], [199, 120, 120], id="so does one that was lowered at once"),
    ],
)
def test_the_target_of_one_resource(bounds: list[int], targets: list[int]) -> None:
    assert walk(*bounds) == targets


def test_targets_are_lowered_in_the_proportion_of_the_recommendation() -> None:
    """One of two containers may even grow; otherwise it would do so one cycle later."""
    kept, fitting = {"app": 900, "log": 100}, {"app": 250, "log": 250}
    old = QuotaWait(since=NOW - timedelta(hours=1), fitting={"app": 200, "log": 200})

    found, _ = settle({"app": 1000, "log": 1000}, fitting, kept, lambda _: False, wait=old, now=NOW)

    assert found == fitting


def test_a_clock_that_moved_back_starts_the_time_again() -> None:
    later = QuotaWait(since=NOW + timedelta(hours=1), fitting={"app": 50})

    _, wait = settle({"app": 200}, {"app": 50}, {"app": 100}, lambda _: False, wait=later, now=NOW)

    assert wait is not None
    assert wait.since == NOW

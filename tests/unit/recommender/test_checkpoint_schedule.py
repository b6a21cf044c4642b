"""Checkpoints that are due, and their order."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from fixed_clock import FixedClock
from recommender.checkpoints.schedule import CheckpointSchedule
from recommender.model.aggregates import History
from recommender.model.histograms import SavedHistogram
from recommender.model.keys import VpaKey
from recommender.model.timestamps import NEVER, instant

NOW = datetime(2026, 1, 2, tzinfo=UTC)
A, B, C, D = (VpaKey("prod", name) for name in "abcd")
EMPTY = SavedHistogram(weights={}, total=0.0, reference=NEVER)


def history_of(covered: timedelta) -> History:
    first = instant(NOW - covered)
    return History(cpu=EMPTY, memory=EMPTY, first_sample=first, last_sample=instant(NOW), samples=9)


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW)


@pytest.fixture
def schedule(clock: FixedClock) -> CheckpointSchedule:
    return CheckpointSchedule(clock)


def test_urgent_and_new_checkpoints_come_first_then_the_oldest(
    schedule: CheckpointSchedule, clock: FixedClock
) -> None:
    schedule.written(A, timedelta(minutes=4))
    schedule.written(B, timedelta(minutes=3))
    schedule.at_once(D)
    clock.time = NOW + timedelta(minutes=5)
    assert schedule.in_order([A, B, C, D]) == [D, C, B, A]


@pytest.mark.parametrize(
    ("passed", "is_due"),
    [
        pytest.param(
            timedelta(minutes=5) - timedelta(microseconds=1), False, id="just before its lag"
        ),
        pytest.param(timedelta(minutes=5), True, id="after its lag"),
        pytest.param(timedelta(days=-1), True, id="after the clock was set back"),
    ],
)
def test_a_written_checkpoint_is_due_again_after_its_lag(
    schedule: CheckpointSchedule, clock: FixedClock, passed: timedelta, *, is_due: bool
) -> None:
    schedule.written(A, timedelta(minutes=5))
    clock.time = NOW + passed
    assert (schedule.in_order([A]) == [A]) == is_due
    assert schedule.in_order([A], all_of_them=True) == [A], "before the process ends"


def test_an_oom_kill_makes_a_written_checkpoint_due(schedule: CheckpointSchedule) -> None:
    schedule.written(A, timedelta(minutes=5))
    schedule.at_once(A)
    assert schedule.in_order([A]) == [A]
    schedule.written(A, timedelta(minutes=5))
    assert schedule.in_order([A]) == []


def test_loaded_checkpoints_are_due_at_different_times(
    schedule: CheckpointSchedule, clock: FixedClock
) -> None:
    many = [VpaKey("prod", f"v{number}") for number in range(200)]
    for key in many:
        schedule.loaded(key, history_of(timedelta(days=8)))
    counts = []
    for minute in range(6):
        clock.time = NOW + timedelta(minutes=minute)
        counts.append(len(schedule.in_order(many)))
    assert counts[0] == 0
    assert counts[5] == len(many)
    assert all(20 < later - one < 60 for one, later in pairwise(counts))


def test_a_deleted_vpa_is_new_when_it_is_created_again(schedule: CheckpointSchedule) -> None:
    schedule.written(A, timedelta(minutes=5))
    assert schedule.in_order([A]) == []
    assert schedule.in_order([]) == []
    assert schedule.in_order([A]) == [A]

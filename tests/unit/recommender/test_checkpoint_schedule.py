"""Which checkpoints are due, and in which order."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from model_process import SetClock
from recommender.checkpoints.schedule import CheckpointSchedule
from recommender.model.aggregates import History
from recommender.model.histograms import SavedHistogram
from recommender.model.keys import VpaKey
from recommender.model.timestamps import NEVER, instant

NOW = datetime(2026, 1, 2, tzinfo=UTC)
A, B, C, D = (VpaKey("prod", name) for name in "abcd")
EMPTY = SavedHistogram(weights={}, total=0.0, reference=NEVER)


def of(covered: timedelta) -> History:
    first = instant(NOW - covered)
    return History(cpu=EMPTY, memory=EMPTY, first_sample=first, last_sample=instant(NOW), samples=9)


@pytest.fixture
def clock() -> SetClock:
    return SetClock(NOW)


@pytest.fixture
def schedule(clock: SetClock) -> CheckpointSchedule:
    return CheckpointSchedule(clock)


def test_who_has_waited_longest_comes_first_after_the_new_and_those_that_are_due_at_once(
    schedule: CheckpointSchedule, clock: SetClock
) -> None:
    schedule.written(A, timedelta(minutes=4))
    schedule.written(B, timedelta(minutes=3))
    schedule.at_once(D)
    clock.time = NOW + timedelta(minutes=5)
    assert schedule.in_order([A, B, C, D]) == [D, C, B, A]


@pytest.mark.parametrize(
    ("passed", "is_due"),
    [
        pytest.param(timedelta(minutes=5) - timedelta(microseconds=1), False, id="not quite"),
        pytest.param(timedelta(minutes=5), True, id="due"),
        pytest.param(timedelta(days=-1), True, id="the clock was put back since"),
    ],
)
def test_what_was_written_is_due_again_after_its_lag(
    schedule: CheckpointSchedule, clock: SetClock, passed: timedelta, *, is_due: bool
) -> None:
    schedule.written(A, timedelta(minutes=5))
    clock.time = NOW + passed
    assert (schedule.in_order([A]) == [A]) == is_due
    assert schedule.in_order([A], all_of_them=True) == [A], "before the process ends"


def test_an_oom_kill_makes_due_what_was_just_written(schedule: CheckpointSchedule) -> None:
    schedule.written(A, timedelta(minutes=5))
    schedule.at_once(A)
    assert schedule.in_order([A]) == [A]
    schedule.written(A, timedelta(minutes=5))
    assert schedule.in_order([A]) == []


def test_what_was_loaded_is_not_written_all_at_once(
    schedule: CheckpointSchedule, clock: SetClock
) -> None:
    many = [VpaKey("prod", f"v{number}") for number in range(200)]
    for key in many:
        schedule.loaded(key, of(timedelta(days=8)))
    counts = []
    for minute in range(6):
        clock.time = NOW + timedelta(minutes=minute)
        counts.append(len(schedule.in_order(many)))
    assert counts[0] == 0
    assert counts[5] == len(many)
    assert all(20 < later - one < 60 for one, later in pairwise(counts))


def test_who_is_gone_is_new_when_it_comes_back(schedule: CheckpointSchedule) -> None:
    schedule.written(A, timedelta(minutes=5))
    assert schedule.in_order([A]) == []
    assert schedule.in_order([]) == []
    assert schedule.in_order([A]) == [A]

"""Merging the histories of two recommenders that observed the same containers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from common.labels import EVERYTHING
from recommender.model.aggregates import HalfLives, History
from recommender.model.checkpoint_merge import merge_checkpoint, merged_history
from recommender.model.column_table import Ints
from recommender.model.expiry import collect
from recommender.model.keys import PodKey, VpaKey
from recommender.model.pods import PodFacts
from recommender.model.timestamps import instant, span
from recommender.model.usage import Usage

START = datetime(2026, 1, 1, tzinfo=UTC)
WEB = VpaKey("shop", "web")
POD = PodKey("shop", "web-1")
HOURS = range(72)
APART = [*HOURS[:24], *HOURS[48:]]


def at(hours: float) -> int:
    return instant(START + timedelta(hours=hours))


def ints(*values: int) -> Ints:
    return np.array(values, dtype=np.int64)


def observer(hours: Sequence[int] = (), *, late: bool = False) -> Usage:
    """Return a model of a container with samples of these hours; ``late``: without the VPA."""
    usage = Usage()
    if not late:
        usage.put_autoscaler(WEB, EVERYTHING, ())
    facts = PodFacts(key=POD, uid="a", labels={}, active=True, containers=("app",))
    usage.put_pod(facts, at(0))
    row = ints(usage.pods[POD].containers["app"])
    for hour in hours:
        usage.add_cpu(row, ints(at(hour)), ints(50 + 10 * hour), at(hour))
        usage.add_memory(row, ints(at(hour)), ints(10**8 + 10**7 * hour), at(hour))
    return usage


def history_of(usage: Usage, now: int) -> History:
    (group,) = usage.groups(WEB)
    return usage.without_open_peaks([group], now).save(ints(0))[0]


def weight_at_start(history: History) -> float:
    """Return the CPU weight, at the time of START."""
    days = (history.cpu.reference - at(0)) / span(timedelta(days=1))
    return float(history.cpu.total * 2**days)


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    ours: Sequence[int]  # hours of samples of this process
    stored: Sequence[int]  # hours of samples in the checkpoint
    want: Sequence[int]  # hours of samples in the merged history
    samples: int = 0  # expected sample count; 0: as many as hours in want


CASES = [
    Case(id="no own samples", ours=[], stored=HOURS[:48], want=HOURS[:48]),
    Case(id="own samples cover the checkpoint", ours=HOURS, stored=HOURS[:48], want=HOURS),
    Case(
        id="own samples overlap the checkpoint",
        ours=HOURS[24:],
        stored=HOURS[:48],
        want=HOURS,
        samples=48,
    ),
    Case(
        id="the checkpoint covers the own samples",
        ours=HOURS[24:48],
        stored=HOURS[:48],
        want=HOURS[:48],
    ),
    Case(
        id="own samples are disjoint from the checkpoint",
        ours=HOURS[48:],
        stored=HOURS[:24],
        want=APART,
    ),
    Case(id="an empty checkpoint", ours=HOURS, stored=[], want=HOURS),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_checkpoint_of_another_recommender_counts_once(case: Case) -> None:
    now = at(96)
    stored = history_of(observer(case.stored), now)
    usage = observer(case.ours, late=True)
    usage.put_autoscaler(WEB, EVERYTHING, ())
    merge_checkpoint(usage, WEB, "app", stored, now)
    merge_checkpoint(usage, WEB, "app", stored, now)  # merging again changes nothing
    found, want = history_of(usage, now), history_of(observer(case.want), now)
    assert (found.first_sample, found.last_sample) == (want.first_sample, want.last_sample)
    assert found.samples == (case.samples or len(case.want))
    assert weight_at_start(found) == pytest.approx(weight_at_start(want), rel=1e-3)
    for bucket in found.cpu.weights.keys() | want.cpu.weights.keys():
        weights = [one.cpu.weights.get(bucket, 0) for one in (found, want)]
        assert weights[0] == pytest.approx(weights[1], abs=20)  # of 10,000


def test_a_merged_history_has_no_less_than_either() -> None:
    now, half_lives = at(96), HalfLives()
    one, other = history_of(observer(HOURS[:30]), now), history_of(observer(HOURS[24:]), now)
    found = merged_history(one, other, half_lives)
    assert found.first_sample == one.first_sample
    assert found.last_sample == other.last_sample
    assert found.cpu.total >= max(one.cpu.total, other.cpu.total)
    assert found.memory.total >= max(one.memory.total, other.memory.total)
    assert found.samples == max(one.samples, other.samples)
    assert merged_history(found, other, half_lives) == found
    assert merged_history(found, one, half_lives) == found


def test_only_expired_containers_are_marked_as_forgotten() -> None:
    usage = observer(HOURS)
    sum(collect(usage, at(80), frozenset()))
    assert usage.autoscalers[WEB].history_flags.forgotten == set()
    sum(collect(usage, at(72 + 8 * 24), frozenset()))
    assert usage.autoscalers[WEB].history_flags.forgotten == {"app"}
    empty = observer([])
    sum(collect(empty, at(8 * 24), frozenset()))
    assert empty.aggregate_count() == 0
    assert empty.autoscalers[WEB].history_flags.forgotten == set(), "there was nothing to lose"

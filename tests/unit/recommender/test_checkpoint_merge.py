"""What two observers of the same containers know together."""

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
    """A model that saw a container in these hours; with the VPA, unless that comes ``late``."""
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


def known(usage: Usage, now: int) -> History:
    (group,) = usage.groups(WEB)
    return usage.without_open_peaks([group], now).save(ints(0))[0]


def present_weight(history: History) -> float:
    """Its weight at the start of all."""
    days = (history.cpu.reference - at(0)) / span(timedelta(days=1))
    return float(history.cpu.total * 2**days)


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    ours: Sequence[int]  # hours that this process saw
    stored: Sequence[int]  # hours that the checkpoint knows
    want: Sequence[int]  # hours that count from then on
    samples: int = 0  # that are counted, if they are others: as many as one of both saw


CASES = [
    Case(id="nothing seen yet", ours=[], stored=HOURS[:48], want=HOURS[:48]),
    Case(id="all of it was seen", ours=HOURS, stored=HOURS[:48], want=HOURS),
    Case(id="a part of it was seen", ours=HOURS[24:], stored=HOURS[:48], want=HOURS, samples=48),
    Case(id="less was seen", ours=HOURS[24:48], stored=HOURS[:48], want=HOURS[:48]),
    Case(id="nothing of it was seen", ours=HOURS[48:], stored=HOURS[:24], want=APART),
    Case(id="it is empty", ours=HOURS, stored=[], want=HOURS),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_checkpoint_of_another_counts_once(case: Case) -> None:
    now = at(96)
    stored = known(observer(case.stored), now)
    usage = observer(case.ours, late=True)
    usage.put_autoscaler(WEB, EVERYTHING, ())
    merge_checkpoint(usage, WEB, "app", stored, now)
    merge_checkpoint(usage, WEB, "app", stored, now)  # however often
    found, want = known(usage, now), known(observer(case.want), now)
    assert (found.first_sample, found.last_sample) == (want.first_sample, want.last_sample)
    assert found.samples == (case.samples or len(case.want))
    assert present_weight(found) == pytest.approx(present_weight(want), rel=1e-3)
    for bucket in found.cpu.weights.keys() | want.cpu.weights.keys():
        weights = [one.cpu.weights.get(bucket, 0) for one in (found, want)]
        assert weights[0] == pytest.approx(weights[1], abs=20)  # of 10,000


def test_two_histories_as_one_know_no_less_than_either() -> None:
    now, half_lives = at(96), HalfLives()
    one, other = known(observer(HOURS[:30]), now), known(observer(HOURS[24:]), now)
    found = merged_history(one, other, half_lives)
    assert found.first_sample == one.first_sample
    assert found.last_sample == other.last_sample
    assert found.cpu.total >= max(one.cpu.total, other.cpu.total)
    assert found.memory.total >= max(one.memory.total, other.memory.total)
    assert found.samples == max(one.samples, other.samples)
    assert merged_history(found, other, half_lives) == found
    assert merged_history(found, one, half_lives) == found


def test_what_expires_may_be_missing_from_the_next_checkpoint_and_nothing_else() -> None:
    usage = observer(HOURS)
    collect(usage, at(80), frozenset())
    assert usage.autoscalers[WEB].history_flags.forgotten == set()
    collect(usage, at(72 + 8 * 24), frozenset())
    assert usage.autoscalers[WEB].history_flags.forgotten == {"app"}
    empty = observer([])
    collect(empty, at(8 * 24), frozenset())
    assert empty.aggregate_count() == 0
    assert empty.autoscalers[WEB].history_flags.forgotten == set(), "there was nothing to lose"

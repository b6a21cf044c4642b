"""Memory windows, and the amounts of OOM kills: recommender.md 4.3, 4.4, Q7."""

from dataclasses import dataclass

import numpy as np
import pytest

from recommender.model.column_table import Ints
from recommender.model.memory_peaks import MemoryWindows, is_too_old, needed, observe

HOUR = 3_600_000_000
MIB = 1 << 20
T = 1000 * HOUR


def array_of(value: int) -> Ints:
    return np.array([value], dtype=np.int64)


def windows(*, last: int = 0, end: int = 0, peak: int = 0, oom: int = 0) -> MemoryWindows:
    return MemoryWindows(
        last=array_of(last), end=array_of(end), peak=array_of(peak), oom_peak=array_of(oom)
    )


OPEN = windows(last=T, end=T + 24 * HOUR, peak=100)


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    before: MemoryWindows = OPEN
    time: int = T + HOUR
    amount: int = 200
    oom: bool = False
    accepted: bool = True
    counts: bool = True
    replaces: bool = False
    end: int = T + 24 * HOUR
    peak: int = 200
    oom_peak: int = 0


CASES = [
    Case(id="the first sample opens a window", before=windows(), time=T, end=T + 24 * HOUR),
    Case(id="a higher sample replaces the peak", replaces=True),
    Case(id="an equal sample doesn't replace the peak", amount=100, counts=False, peak=100),
    Case(id="a lower sample doesn't replace the peak", amount=99, counts=False, peak=100),
    Case(id="an equal time is accepted", time=T, replaces=True),
    Case(id="an earlier time is refused", time=T - 1, accepted=False, counts=False, peak=100),
    Case(id="a negative amount is refused", amount=-1, accepted=False, counts=False, peak=100),
    Case(id="just before the end", time=T + 24 * HOUR - 1, replaces=True),
    Case(id="a new window at the end", time=T + 24 * HOUR, end=T + 48 * HOUR),
    Case(id="after a gap", time=T + 48 * HOUR, end=T + 72 * HOUR),
    Case(
        id="Q7: a window that began with zero takes a later sample",
        before=windows(last=T, end=T + 24 * HOUR),
        replaces=True,
    ),
    Case(id="an OOM replaces the peak", oom=True, replaces=True, peak=100, oom_peak=200),
    Case(
        id="usage below the OOM's amount is ignored",
        before=windows(last=T, end=T + 24 * HOUR, oom=300),
        counts=False,
        peak=0,
        oom_peak=300,
    ),
    Case(
        id="an OOM may come late",
        oom=True,
        time=T - HOUR,
        replaces=True,
        peak=100,
        oom_peak=200,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_observe(case: Case) -> None:
    found = observe(
        case.before,
        array_of(case.time),
        array_of(case.amount),
        interval=array_of(24 * HOUR),
        is_oom=case.oom,
    )
    assert found.accepted.tolist() == [case.accepted]
    assert found.counts.tolist() == [case.counts]
    assert found.replaces.tolist() == [case.replaces]
    assert found.after.end.tolist() == [case.end]
    assert found.after.peak.tolist() == [case.peak]
    assert found.after.oom_peak.tolist() == [case.oom_peak]
    assert found.after.last.tolist() == [case.time if case.accepted else T]


@pytest.mark.parametrize(
    ("last", "time", "want"),
    [
        pytest.param(0, 1, False, id="no sample yet"),
        pytest.param(T, T - 24 * HOUR, False, id="exactly an interval older"),
        pytest.param(T, T - 24 * HOUR - 1, True, id="more than an interval older"),
    ],
)
def test_too_old(*, last: int, time: int, want: bool) -> None:
    found = is_too_old(windows(last=last), array_of(time), interval=array_of(24 * HOUR))
    assert found.tolist() == [want]


@pytest.mark.parametrize(
    ("request_mib", "peak_mib", "oom_mib", "want_mib"),
    [
        pytest.param(500, 480, 0, 600, id="example D: both rules agree"),
        pytest.param(50, 0, 0, 150, id="a small container gets the bytes"),
        pytest.param(1000, 0, 0, 1200, id="a large container gets the ratio"),
        pytest.param(50, 700, 0, 840, id="the peak counts if it is more"),
        pytest.param(50, 0, 700, 150, id="an earlier kill doesn't count"),
    ],
)
def test_needed(request_mib: int, peak_mib: int, oom_mib: int, want_mib: int) -> None:
    found = needed(
        windows(peak=peak_mib * MIB, oom=oom_mib * MIB),
        array_of(request_mib * MIB),
        ratio=np.array([1.2]),
        min_bump=np.array([100.0 * MIB]),
    )
    assert found.tolist() == [want_mib * MIB]

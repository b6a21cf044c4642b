"""Admission on a node, and the order of retries; kubernetes-resize.md 3.1, 3.3 and 4."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from sandbox.kubelet.allocation import (
    Answer,
    Refusal,
    Room,
    Waiting,
    admit,
    admit_resize,
    retry_order,
)
from sandbox.kubelet.pod_resources import Totals

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def room(*, cpu: int = 0, memory: int = 0, pods: int = 0) -> Room:
    """Return a node of 4 cores and 1000 bytes, 900 of them allocatable, with these amounts used."""
    return Room(
        allocatable=Totals(4000, 900),
        capacity=Totals(4000, 1000),
        used=Totals(cpu, memory),
        pods=3,
        used_pods=pods,
    )


EMPTY = room()


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    total: Totals
    room: Room
    want: Refusal | None


CASES = [
    Case(id="exactly full", total=Totals(3000, 800), room=room(cpu=1000, memory=100), want=None),
    Case(
        id="one millicore too many",
        total=Totals(3001, 1),
        room=room(cpu=1000),
        want=Refusal(
            reason="OutOfcpu",
            message="Node didn't have enough resource: cpu, "
            "requested: 3001, used: 1000, capacity: 4000",
        ),
    ),
    Case(
        id="one byte too many",
        total=Totals(1, 801),
        room=room(memory=100),
        want=Refusal(
            reason="OutOfmemory",
            message="Node didn't have enough resource: memory, "
            "requested: 801, used: 100, capacity: 900",
        ),
    ),
    Case(
        id="no request of the exhausted resource",
        total=Totals(0, 0),
        room=room(cpu=9999),
        want=None,
    ),
    Case(id="the last pod", total=Totals(1, 1), room=room(pods=2), want=None),
    Case(
        id="one pod too many",
        total=Totals(1, 1),
        room=room(pods=3),
        want=Refusal(
            reason="OutOfpods",
            message="Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3",
        ),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_admit(case: Case) -> None:
    assert admit(case.total, case.room) == case.want


@dataclass(frozen=True, kw_only=True)
class Resize:
    id: str
    total: Totals
    answer: Answer
    message: str = ""
    minor: int = 36
    room: Room = EMPTY


TOO_MUCH = "Node didn't have enough capacity: {}, requested: {}, capacity: {}"
RESIZES = [
    Resize(id="fits", total=Totals(4000, 900), answer=Answer.ADMITTED),
    Resize(
        id="deferred because of other pods",
        total=Totals(3500, 1),
        room=room(cpu=1000),
        minor=35,
        answer=Answer.DEFERRED,
        message="Node didn't have enough resource: cpu, requested: 3500, used: 1000, "
        "capacity: 4000",
    ),
    Resize(
        id="larger than the node, 1.35",
        total=Totals(4001, 1),
        minor=35,
        answer=Answer.INFEASIBLE,
        message=TOO_MUCH.format("cpu", 4001, 4000),
    ),
    Resize(
        id="both larger, memory is named",
        total=Totals(4001, 1001),
        minor=33,
        answer=Answer.INFEASIBLE,
        message=TOO_MUCH.format("memory", 1001, 1000),
    ),
    Resize(
        id="between allocatable and capacity, 1.35",
        total=Totals(1, 950),
        minor=35,
        answer=Answer.DEFERRED,
        message="Node didn't have enough resource: memory, requested: 950, used: 0, capacity: 900",
    ),
    Resize(
        id="larger than the node, 1.36",
        total=Totals(4001, 1),
        answer=Answer.DEFERRED,
        message="Node didn't have enough resource: cpu, requested: 4001, used: 0, capacity: 4000",
    ),
]


@pytest.mark.parametrize("case", RESIZES, ids=lambda case: case.id)
def test_admit_resize(case: Resize) -> None:
    found = admit_resize(case.total, case.room, minor=case.minor)
    assert (found.answer, found.message) == (case.answer, case.message)


def waiting(
    *,
    cpu: int = 200,
    priority: int = 0,
    guaranteed: bool = False,
    minutes: int | None = None,
) -> Waiting:
    """Return a resize from 100m that has waited for ``minutes``; None: it is new."""
    return Waiting(
        wanted=Totals(cpu, 1),
        allocated=Totals(100, 1),
        priority=priority,
        guaranteed=guaranteed,
        since=None if minutes is None else NOW - timedelta(minutes=minutes),
    )


def test_retries_are_ordered_by_direction_priority_class_and_age() -> None:
    want = [
        waiting(cpu=100),  # raises no total
        waiting(priority=5),
        waiting(guaranteed=True),
        waiting(minutes=9),
        waiting(minutes=2),
        waiting(),
    ]
    for order in (want, list(reversed(want))):
        assert sorted(order, key=lambda one: retry_order(one, NOW)) == want

"""Entries of a disruption log for tests of its judge."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from disruption_faults import Fault
from disruption_judge import Judge
from disruption_log import Call, Entry, Group, PodState, Rollout, Wanted

BEGIN = datetime(2026, 1, 2, 12, tzinfo=UTC)
GROUP = ("ReplicaSet", "web")
LAG = timedelta(seconds=5)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def pod(name: str, seconds: float = 0) -> PodState:
    """Return the entry of a running and ready pod."""
    return PodState(
        at=at(seconds),
        uid=name,
        name=name,
        group=GROUP,
        app="web",
        pending=False,
        there=True,
        ready=True,
        evicted=False,
        waits="",
        restarts=False,
        wanted={"app": {"requests": {"cpu": "100m"}}},
    )


def eviction(name: str, seconds: float, *, done: bool = True) -> Call:
    moment = at(seconds)
    return Call(at=moment, kind="eviction", uid=name, name=name, done_at=moment if done else None)


def resize(
    name: str,
    seconds: float,
    *,
    restarts: bool = False,
    changes: bool = True,
    replaces: bool = False,
) -> Call:
    moment = at(seconds)
    return Call(
        at=moment,
        kind="resize",
        uid=name,
        name=name,
        restarts=restarts,
        changes=changes,
        replaces=replaces,
        done_at=moment,
    )


def gone(name: str, seconds: float, *, evicted: bool = False) -> PodState:
    return replace(pod(name, seconds), there=False, evicted=evicted)


# A Deployment with two ReplicaSets.

DEPLOYMENT: Group = ("Deployment", "web")
OLD: Group = ("ReplicaSet", "web-1")
NEW: Group = ("ReplicaSet", "web-2")


def rollout(
    seconds: float, *, in_progress: bool = True, most: int | None = 2, replicas: int = 8
) -> Rollout:
    return Rollout(
        at=at(seconds),
        group=DEPLOYMENT,
        replicas=replicas,
        max_unavailable=most,
        in_progress=in_progress,
    )


def member(
    name: str, group: Group = OLD, seconds: float = 0, *, ready: bool = True, pending: bool = False
) -> PodState:
    return replace(pod(name, seconds), group=group, ready=ready, pending=pending)


def owned(old: int, new: int) -> list[Entry]:
    return [Wanted(at(0), OLD, old, DEPLOYMENT), Wanted(at(0), NEW, new, DEPLOYMENT)]


# Eight pods, all new.
SETTLED: list[Entry] = [
    rollout(0, in_progress=False),
    *owned(0, 8),
    *(member(name, NEW) for name in "abcdefgh"),
]


def faults(judge: Judge, entries: Sequence[Entry]) -> list[Fault]:
    with contextlib.suppress(AssertionError):
        judge.check(entries)
    return judge.faults

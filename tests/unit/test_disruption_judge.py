"""The judge of the proofs convicts: who never does proves nothing."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from disruption_judge import Judge
from disruption_log import Call, Entry, PassBegins, PodState, ProcessBegins, Wanted

BEGIN = datetime(2026, 1, 2, 12, tzinfo=UTC)
GROUP = ("ReplicaSet", "web")
LAG = timedelta(seconds=5)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def pod(name: str, seconds: float = 0) -> PodState:
    """A running and ready one."""
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


RUNNING: list[Entry] = [Wanted(at(0), GROUP, 4), *(pod(name) for name in "abcd")]
PASS = PassBegins(at(60))

# What happened after the four were there, and how many calls were wrong. Two of four may be out.
CASES: dict[str, tuple[Sequence[Entry], int]] = {
    "two evictions": ([PASS, eviction("a", 60), eviction("b", 61)], 0),
    "three evictions": ([PASS, eviction("a", 60), eviction("b", 61), eviction("c", 62)], 1),
    "three, one of them refused": (
        [PASS, eviction("a", 60, done=False), eviction("b", 61), eviction("c", 62)],
        0,
    ),
    "refused, but beyond the budget": (
        [PASS, eviction("a", 60), eviction("b", 61), eviction("c", 62, done=False)],
        1,
    ),
    "an eviction that is carried out late counts from the start": (
        [
            PASS,
            replace(eviction("a", 60), done_at=at(118)),
            eviction("b", 61),
            PassBegins(at(100)),
            eviction("c", 101),
        ],
        1,
    ),
    "unless its process died, and another one looks before": (
        [
            PASS,
            replace(eviction("a", 60), done_at=at(118)),
            eviction("b", 61),
            ProcessBegins(at(70)),
            PassBegins(at(100)),
            eviction("c", 101),
        ],
        0,
    ),
    "once it is carried out it counts again": (
        [
            PASS,
            replace(resize("a", 60, restarts=True), done_at=at(118)),
            ProcessBegins(at(70)),
            replace(pod("a", 118), restarts=True),
            PassBegins(at(130)),
            eviction("b", 131),
            eviction("c", 132),
        ],
        1,
    ),
    "what was carried out is never forgotten": (
        [PASS, eviction("a", 60), ProcessBegins(at(61)), eviction("b", 62), eviction("c", 63)],
        1,
    ),
    "resizes that restart count, too": (
        [PASS, resize("a", 60, restarts=True), eviction("b", 61), eviction("c", 62)],
        1,
    ),
    "until they are done": (
        [
            PASS,
            resize("a", 60, restarts=True),
            eviction("b", 61),
            replace(pod("a", 62), restarts=True),
            pod("a", 70),
            PassBegins(at(90)),
            eviction("c", 91),
        ],
        0,
    ),
    "others cost nothing": (
        [PASS, resize("a", 60), resize("b", 60), eviction("c", 61), eviction("d", 62)],
        0,
    ),
    "what others took down in this pass is not ours": (
        [PASS, gone("a", 61), eviction("b", 62), eviction("c", 63)],
        0,
    ),
    "what they took down before could be seen": (
        [gone("a", 30), PASS, eviction("b", 62), eviction("c", 63)],
        1,
    ),
    "a Pending pod costs nothing": (
        [
            replace(pod("d", 30), pending=True),
            PASS,
            eviction("a", 61),
            eviction("d", 62),
        ],
        0,
    ),
    "a pod that had gone": ([gone("a", 30), PASS, eviction("a", 61)], 1),
    "a pod that waits for the kubelet": (
        [replace(pod("a", 30), waits="Deferred"), PASS, resize("a", 61)],
        1,
    ),
    "a deferred resize is replaced": (
        [replace(pod("a", 30), waits="Deferred"), PASS, resize("a", 61, replaces=True)],
        0,
    ),
    "a deferred resize is replaced that began a moment ago": (
        [
            replace(pod("a", 30), waits="Deferred"),
            PASS,
            replace(pod("a", 61), waits="InProgress"),
            resize("a", 62, replaces=True),
        ],
        0,
    ),
    "a resize that is carried out is replaced": (
        [replace(pod("a", 30), waits="InProgress"), PASS, resize("a", 61, replaces=True)],
        1,
    ),
    "since this pass alone": (
        [PASS, replace(pod("a", 61), waits="Deferred"), resize("a", 62)],
        0,
    ),
    "nothing new is asked for": ([PASS, resize("a", 61, changes=False)], 1),
    "a budget of three that keeps two": (
        [PASS, eviction("a", 60), gone("a", 60, evicted=True), gone("b", 60, evicted=True)],
        1,
    ),
}


@pytest.mark.parametrize(("entries", "wrong"), CASES.values(), ids=CASES)
def test_what_should_not_have_been_sent(entries: Sequence[Entry], wrong: int) -> None:
    judge = Judge(0.5, LAG, {"web": 3})
    if wrong == 0:
        judge.check([*RUNNING, *entries])
        return
    with pytest.raises(AssertionError, match=f"^{wrong} should not have been sent"):
        judge.check([*RUNNING, *entries])


@pytest.mark.parametrize(("replicas", "wrong"), [(1, 0), (2, 1)])
def test_without_a_tolerance_only_a_complete_group_loses_one(replicas: int, wrong: int) -> None:
    entries: list[Entry] = [Wanted(at(0), GROUP, replicas), pod("a"), PASS, eviction("a", 60)]
    judge = Judge(0.1, LAG)
    if wrong:
        with pytest.raises(AssertionError, match="has 1 of 2 running"):
            judge.check(entries)
    else:
        judge.check(entries)

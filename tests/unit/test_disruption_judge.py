"""The judge of the proofs finds faults: one that never did would prove nothing."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from disruption_entries import (
    GROUP,
    LAG,
    NEW,
    OLD,
    SETTLED,
    at,
    eviction,
    faults,
    gone,
    member,
    owned,
    pod,
    resize,
    rollout,
)
from disruption_judge import Judge
from disruption_log import Entry, PassBegins, ProcessBegins, Wanted

RUNNING: list[Entry] = [Wanted(at(0), GROUP, 4), *(pod(name) for name in "abcd")]
PASS = PassBegins(at(60))

# Events in a group of four pods, of which two may be unavailable; and the number of wrong calls.
CASES: dict[str, tuple[Sequence[Entry], int]] = {
    "two evictions": ([PASS, eviction("a", 60), eviction("b", 61)], 0),
    "three evictions": ([PASS, eviction("a", 60), eviction("b", 61), eviction("c", 62)], 1),
    "three evictions, one of them refused": (
        [PASS, eviction("a", 60, done=False), eviction("b", 61), eviction("c", 62)],
        0,
    ),
    "a refused eviction beyond the budget": (
        [PASS, eviction("a", 60), eviction("b", 61), eviction("c", 62, done=False)],
        1,
    ),
    "an eviction that is executed late counts from its call": (
        [
            PASS,
            replace(eviction("a", 60), done_at=at(118)),
            eviction("b", 61),
            PassBegins(at(100)),
            eviction("c", 101),
        ],
        1,
    ),
    "an eviction of a dead process does not count before it is executed": (
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
    "a resize of a dead process counts once it is executed": (
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
    "an executed eviction of a dead process counts": (
        [PASS, eviction("a", 60), ProcessBegins(at(61)), eviction("b", 62), eviction("c", 63)],
        1,
    ),
    "evicting a Pending pod is permitted without budget": (
        [
            replace(pod("d", 30), pending=True),
            *(gone(name, 31) for name in "ab"),
            PASS,
            eviction("d", 61),
        ],
        0,
    ),
    "evicting a pod that was Pending within LAG of the pass is permitted": (
        [
            replace(pod("d", 30), pending=True),
            *(gone(name, 31) for name in "ab"),
            pod("d", 60 - LAG.total_seconds()),
            PASS,
            eviction("d", 61),
        ],
        0,
    ),
    "evicting a pod that was Pending before LAG is wrong": (
        [
            replace(pod("d", 20), pending=True),
            *(gone(name, 21) for name in "ab"),
            pod("d", 59 - LAG.total_seconds()),
            PASS,
            eviction("d", 61),
        ],
        1,
    ),
    "a resize that restarts counts": (
        [PASS, resize("a", 60, restarts=True), eviction("b", 61), eviction("c", 62)],
        1,
    ),
    "a resize that restarts counts until it is complete": (
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
    "other resizes are free": (
        [PASS, resize("a", 60), resize("b", 60), eviction("c", 61), eviction("d", 62)],
        0,
    ),
    "a pod deleted by another client in this pass does not count": (
        [PASS, gone("a", 61), eviction("b", 62), eviction("c", 63)],
        0,
    ),
    "a pod deleted by another client before the pass counts": (
        [gone("a", 30), PASS, eviction("b", 62), eviction("c", 63)],
        1,
    ),
    "a Pending pod takes no budget": (
        [
            replace(pod("d", 30), pending=True),
            PASS,
            eviction("a", 61),
            eviction("d", 62),
        ],
        0,
    ),
    "an eviction of a deleted pod": ([gone("a", 30), PASS, eviction("a", 61)], 1),
    "a resize of a pod with a deferred resize": (
        [replace(pod("a", 30), waits="Deferred"), PASS, resize("a", 61)],
        1,
    ),
    "a deferred resize is replaced": (
        [replace(pod("a", 30), waits="Deferred"), PASS, resize("a", 61, replaces=True)],
        0,
    ),
    "a deferred resize is replaced just after it started": (
        [
            replace(pod("a", 30), waits="Deferred"),
            PASS,
            replace(pod("a", 61), waits="InProgress"),
            resize("a", 62, replaces=True),
        ],
        0,
    ),
    "a resize in progress is replaced": (
        [replace(pod("a", 30), waits="InProgress"), PASS, resize("a", 61, replaces=True)],
        1,
    ),
    "a resize that was deferred in this pass": (
        [PASS, replace(pod("a", 61), waits="Deferred"), resize("a", 62)],
        0,
    ),
    "a resize without a change": ([PASS, resize("a", 61, changes=False)], 1),
    "a budget of three that keeps two": (
        [PASS, eviction("a", 60), gone("a", 60, evicted=True), gone("b", 60, evicted=True)],
        1,
    ),
}


@pytest.mark.parametrize(("entries", "wrong"), CASES.values(), ids=CASES)
def test_wrong_calls(entries: Sequence[Entry], wrong: int) -> None:
    judge = Judge(0.5, LAG, {"web": 3})
    if wrong == 0:
        judge.check([*RUNNING, *entries])
        return
    with pytest.raises(AssertionError, match=f"^{wrong} should not have been sent"):
        judge.check([*RUNNING, *entries])


@pytest.mark.parametrize(("replicas", "wrong"), [(1, 0), (2, 1)])
def test_without_a_tolerance_only_a_complete_group_may_lose_a_pod(
    replicas: int, wrong: int
) -> None:
    entries: list[Entry] = [Wanted(at(0), GROUP, replicas), pod("a"), PASS, eviction("a", 60)]
    judge = Judge(0.1, LAG)
    if wrong:
        with pytest.raises(AssertionError, match="has 1 of 2 running"):
            judge.check(entries)
    else:
        judge.check(entries)


# A Deployment of eight. Its rollout is stuck: six old pods, and four new ones that aren't ready.

STUCK: list[Entry] = [
    rollout(0),
    *owned(6, 4),
    *(member(name) for name in "abcdef"),
    *(member(name, NEW, ready=False) for name in "wxyz"),
]
ROLLOUTS: dict[str, tuple[Sequence[Entry], int]] = {
    "maxUnavailable pods are unavailable": ([*STUCK, PASS, eviction("a", 61)], 1),
    "one fewer is unavailable": (
        [*STUCK, member("w", NEW, 30), PASS, eviction("a", 61)],
        0,
    ),
    "one fewer is unavailable, and a second eviction": (
        [*STUCK, member("w", NEW, 30), PASS, eviction("a", 61), eviction("b", 62)],
        1,
    ),
    "evicting an unavailable pod": (
        [*STUCK, member("b", OLD, 30, ready=False), PASS, eviction("w", 61)],
        0,
    ),
    "maxUnavailable is all pods, and the tolerance is used up": (
        [
            rollout(0, most=8),
            *owned(4, 8),
            *(member(name) for name in "abcd"),
            *(member(name, NEW, pending=True) for name in "wxyz"),
            PASS,
            eviction("a", 61),
        ],
        1,
    ),
    "maxUnavailable is all pods, and an unavailable pod is evicted": (
        [
            rollout(0, most=8),
            *owned(4, 8),
            *(member(name, ready=name != "a") for name in "abcd"),
            *(member(name, NEW, pending=True) for name in "wxyz"),
            PASS,
            eviction("a", 61),
        ],
        0,
    ),
    "the tolerance counts available pods of the whole workload": (
        [
            rollout(0, most=8),
            *owned(4, 8),
            *(member(name) for name in "abcd"),
            *(member(name, NEW) for name in "wxyz"),
            PASS,
            eviction("a", 61),
        ],
        0,
    ),
    "the strategy Recreate": ([*STUCK, rollout(1, most=None), PASS, eviction("w", 61)], 1),
    "the strategy Recreate, a resize that restarts": (
        [*STUCK, rollout(1, most=None), PASS, resize("a", 61, restarts=True)],
        1,
    ),
    "a resize that restarts": ([*STUCK, PASS, resize("a", 61, restarts=True)], 1),
    "a resize that restarts nothing": ([*STUCK, PASS, resize("a", 61)], 0),
    "a rollout that ended within LAG": (
        [*STUCK, rollout(58, in_progress=False), PASS, eviction("a", 61)],
        0,
    ),
    "a rollout that started within LAG": (
        [*STUCK, rollout(1, in_progress=False), rollout(56), PASS, eviction("a", 61)],
        0,
    ),
    "a rollout that started before LAG": (
        [*STUCK, rollout(1, in_progress=False), rollout(54), PASS, eviction("a", 61)],
        1,
    ),
    "a pod that the updater restarts counts as unavailable": (
        [
            *STUCK,
            member("w", NEW, 30),
            PASS,
            resize("b", 61, restarts=True),
            eviction("a", 62),
        ],
        1,
    ),
    "no rollout: four of eight": (
        [*SETTLED, PASS, *(eviction(name, 61) for name in "abcd")],
        0,
    ),
    "no rollout: five of eight": (
        [*SETTLED, PASS, *(eviction(name, 61) for name in "abcde")],
        2,  # one for the group, one for the workload
    ),
}


@pytest.mark.parametrize(("entries", "wrong"), ROLLOUTS.values(), ids=ROLLOUTS)
def test_wrong_calls_during_a_rollout(entries: Sequence[Entry], wrong: int) -> None:
    assert len(faults(Judge(0.5, LAG), entries)) == wrong


@pytest.mark.parametrize(("least", "wrong"), [(8, 0), (9, 1)])
@pytest.mark.parametrize("pending", [False, True])
def test_an_eviction_with_fewer_pods_than_min_replicas_is_wrong(
    least: int, wrong: int, *, pending: bool
) -> None:
    """Pods without a node count, in the whole workload."""
    entries = [*SETTLED, member("a", NEW, 1, pending=pending), PASS, eviction("b", 61)]
    judge = Judge(0.5, LAG, min_replicas={"web": least})
    assert len(faults(judge, entries)) == wrong


def test_a_fault_is_reported_with_the_log_before_it() -> None:
    earlier = member("b", OLD, -90, ready=False)
    other = replace(member("other", ("ReplicaSet", "web-2-1"), 30), app="web-2")
    entries = [earlier, *STUCK, other, replace(PASS, at=at(61)), eviction("a", 61)]
    with pytest.raises(AssertionError) as raised:
        Judge(0.5, LAG).check(entries)
    lines = str(raised.value).splitlines()
    assert "02 12:00:00 a there ready  {'cpu': '100m'}" in lines
    assert "02 12:00:00 rolling, 8 replicas" in lines
    assert "02 12:00:00 web-1 wants 6" in lines
    assert "02 12:01:01 pass" in lines
    assert not [line for line in lines if "other" in line or "11:58:30" in line]

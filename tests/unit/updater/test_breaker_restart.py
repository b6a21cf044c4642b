"""The eviction breaker of a process that starts with existing pods.

Restarts at any time don't permit more evictions than a single process.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from replacements import (
    CLOSED,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    VPA,
    WEB,
    allowed,
    born,
    view,
    wrong,
)
from updater.eviction.breaker import (
    Breaker,
    BreakerObservation,
    BreakerTransition,
    Closed,
    Eviction,
    Open,
    State,
    breaker_wait,
    observe,
    record_eviction,
)
from updater.snapshot.cluster_snapshot import AutoscaledPods
from updater.snapshot.live_pod import LivePod
from updater.snapshot.workload_size import GroupSize

# After a restart


@dataclass(frozen=True, kw_only=True)
class FirstObservation:
    """Pods that were created in this order, one second apart; ``since``: recommended since then."""

    id: str
    pods: str  # r: right, w: without the annotation
    want: Breaker
    at: datetime = NOW  # creation of the first pod
    since: datetime | None = NOW - HOUR
    wanted: int | None = None


def closed_breaker(count: int) -> Breaker:
    """Return a breaker that permits no eviction before these pods exist and one is right."""
    return Breaker(state=Closed(2), unanswered=pending_evictions(count))


def open_breaker(until: datetime, *, missing: int = 0) -> Breaker:
    return Breaker(state=Open(until), unanswered=pending_evictions(missing))


def pending_evictions(count: int) -> tuple[Eviction, ...]:
    return (Eviction(workload=WEB, uid="", vpa=VPA, gone_since=NOW),) * count


RESTARTS = [
    FirstObservation(
        id="a wrong pod opens, until an hour after its creation",
        pods="w",
        wanted=1,
        want=open_breaker(NOW + HOUR),
    ),
    FirstObservation(
        id="of several wrong pods the youngest counts",
        pods="www",
        want=open_breaker(NOW + 2 * SECOND + HOUR),
    ),
    FirstObservation(
        id="a wrong pod an hour ago: a probe is permitted",
        pods="w",
        at=NOW - HOUR,
        since=NOW - 2 * HOUR,
        want=open_breaker(NOW),
    ),
    FirstObservation(
        id="a wrong pod days ago: a probe is permitted",
        pods="w",
        at=NOW - 50 * HOUR,
        since=NOW - 60 * HOUR,
        want=open_breaker(NOW - 49 * HOUR),
    ),
    FirstObservation(
        id="a wrong pod, and another is missing: open for an hour from now",
        pods="w",
        at=NOW - MINUTE,
        wanted=2,
        want=open_breaker(NOW + HOUR, missing=1),
    ),
    FirstObservation(
        id="at most three missing pods count",
        pods="w",
        wanted=9,
        want=open_breaker(NOW + HOUR, missing=3),
    ),
    FirstObservation(
        id="no pods, one is missing: the next pod decides",
        pods="",
        wanted=1,
        want=closed_breaker(1),
    ),
    FirstObservation(id="no pods, none wanted", pods="", wanted=0, want=CLOSED),
    FirstObservation(
        id="an old pod, and others are missing",
        pods="w",
        at=NOW - 2 * HOUR,
        wanted=3,
        want=closed_breaker(2),
    ),
    FirstObservation(id="unknown time of the recommendation", pods="www", since=None, want=CLOSED),
    FirstObservation(
        id="unknown time of the recommendation, pods are missing",
        pods="w",
        since=None,
        wanted=3,
        want=CLOSED,
    ),
    FirstObservation(
        id="created before the recommendation", pods="www", since=NOW + HOUR, want=CLOSED
    ),
    FirstObservation(
        id="created in the second of the recommendation",
        pods="w",
        since=NOW,
        want=open_breaker(NOW + HOUR),
    ),
    FirstObservation(
        id="created a second before the recommendation", pods="w", since=NOW + SECOND, want=CLOSED
    ),
    FirstObservation(id="a right pod", pods="r", want=CLOSED),
    FirstObservation(id="a right pod after wrong ones", pods="wwwr", want=CLOSED),
    FirstObservation(
        id="a right pod before a wrong one", pods="rw", want=open_breaker(NOW + SECOND + HOUR)
    ),
    FirstObservation(
        id="a right pod from before the recommendation", pods="r", since=NOW + SECOND, want=CLOSED
    ),
    FirstObservation(id="a right pod, and others are missing", pods="r", wanted=3, want=CLOSED),
]


@pytest.mark.parametrize("case", RESTARTS, ids=lambda case: case.id)
def test_the_first_observation(case: FirstObservation) -> None:
    pods = [
        born(f"web-{number}", right=kind == "r", at=case.at + number * SECOND)
        for number, kind in enumerate(case.pods)
    ]
    seen = view(*pods, in_force_since=case.since)
    wanted = len(pods) if case.wanted is None else case.wanted
    seen = wanting(seen, wanted)
    found = observe(None, seen, now=NOW)
    uids = frozenset(each.metadata.uid for each in pods) if case.want.watches else frozenset()
    transition = BreakerTransition.SUSPENDED if case.want.suspends else BreakerTransition.NONE
    unanswered = tuple(replace(each, vpa=seen.vpa) for each in case.want.unanswered)
    want = replace(case.want, seen=uids, unanswered=unanswered)
    assert found == BreakerObservation(breaker=want, transition=transition)


OLD = wrong("old", at=NOW - 2 * HOUR)


def of_two(*pods: LivePod) -> AutoscaledPods:
    return wanting(view(*pods, in_force_since=NOW - HOUR), 2)


def wanting(seen: AutoscaledPods, count: int) -> AutoscaledPods:
    return replace(seen, sizes={WEB: GroupSize(count)})


MISSING_ONE = observe(None, of_two(OLD), now=NOW).breaker


def test_no_eviction_is_permitted_while_a_pod_is_missing() -> None:
    assert not MISSING_ONE.suspends
    assert not allowed(MISSING_ONE, now=NOW)


@pytest.mark.parametrize(
    ("right", "want"),
    [(True, Closed()), (False, Open(NOW + MINUTE + HOUR))],
    ids=["right", "wrong"],
)
def test_the_missing_pod_decides_when_it_exists(*, right: bool, want: State) -> None:
    came = of_two(OLD, born("new", right=right))
    assert observe(MISSING_ONE, came, now=NOW + MINUTE).breaker.state == want


def test_a_missing_pod_that_is_not_created_suspends() -> None:
    after = observe(MISSING_ONE, of_two(OLD), now=NOW + 2 * MINUTE)
    assert after.transition is BreakerTransition.SUSPENDED


def test_a_missing_pod_that_is_no_longer_wanted_permits_a_probe() -> None:
    fewer = wanting(of_two(OLD), 1)
    after = observe(MISSING_ONE, fewer, now=NOW + 2 * MINUTE).breaker
    assert allowed(after, now=NOW + 2 * MINUTE) == 1


# Restarts at any moment

MANY_STEPS = settings(max_examples=50, stateful_step_count=50, deadline=None, database=None)


class Evictions(RuleBasedStateMachine):
    """A ReplicaSet, passes of the updater, and replacements at random times.

    Time advances between all steps. The updater evicts as many pods as permitted.
    """

    replicas = 12

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.breaker: Breaker | None = None
        self.pods: list[LivePod] = [
            wrong(f"old-{number}", at=NOW - 2 * HOUR) for number in range(self.replicas)
        ]
        self.born = 0
        self.evicted_at: list[datetime] = []
        self.ever_right = False

    def observe_pods(self) -> BreakerObservation:
        seen = view(*self.pods, in_force_since=NOW - HOUR)
        found = observe(self.breaker, wanting(seen, self.replicas), now=self.now)
        self.breaker = found.breaker
        return found

    def create_pod(self, *, is_right: bool) -> None:
        self.born += 1
        self.pods.append(born(f"new-{self.born:03}", right=is_right, at=self.now))
        self.ever_right = self.ever_right or is_right

    @rule(seconds=st.integers(1, 90) | st.integers(600, 3600))
    def advance_time(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(most=st.integers(1, 6), youngest_first=st.booleans())
    def run_pass(self, most: int, *, youngest_first: bool) -> None:
        """Evict the oldest pods, or the youngest ones."""
        breaker = self.observe_pods().breaker
        seen = view(*self.pods)
        for _ in range(most):
            if not self.pods or breaker_wait(breaker, now=self.now) is not None:
                break
            gone = self.pods.pop(-1 if youngest_first else 0)
            breaker = record_eviction(breaker, gone, seen, now=self.now)
            self.evicted_at.append(self.now)
        self.breaker = breaker
        self.now += SECOND

    @precondition(lambda self: len(self.pods) < self.replicas)
    @rule()
    def create_wrong_pod(self) -> None:
        self.create_pod(is_right=False)

    @precondition(lambda self: self.breaker is not None and self.breaker.suspends)
    @rule()
    def create_and_observe_right_pod(self) -> None:
        self.observe_pods()
        self.now += SECOND
        self.create_pod(is_right=True)
        assert not self.observe_pods().breaker.suspends

    @rule()
    def restart(self) -> None:
        self.breaker = None

    @invariant()
    def at_most_three_and_then_one_an_hour(self) -> None:
        if self.ever_right:
            return
        for number, at in enumerate(self.evicted_at[3:], start=3):
            assert at - self.evicted_at[number - 1] >= HOUR

    @invariant()
    def at_most_three_are_unanswered(self) -> None:
        """This holds after right pods and while the breaker is Open, too."""
        if self.breaker is not None:
            assert len(self.breaker.unanswered) <= 3


class EvictionsOfOne(Evictions):
    replicas = 1


class EvictionsOfTwo(Evictions):
    replicas = 2


class EvictionsOfThree(Evictions):
    replicas = 3


for machine in (Evictions, EvictionsOfOne, EvictionsOfTwo, EvictionsOfThree):
    machine.TestCase.settings = MANY_STEPS

TestEvictions = Evictions.TestCase
TestEvictionsOfOne = EvictionsOfOne.TestCase
TestEvictionsOfTwo = EvictionsOfTwo.TestCase
TestEvictionsOfThree = EvictionsOfThree.TestCase

"""What a process that remembers no eviction makes of the pods that are there.

And that restarts, at any moment, don't let more pods go than one process would.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from common.api.core import Pod
from replacements import (
    HOUR,
    MINUTE,
    NEW_VPA,
    NOW,
    SECOND,
    VERIFIED,
    VPA,
    WEB,
    born,
    sight,
    wrong,
)
from updater.outcomes import (
    NOTHING_YET,
    Eviction,
    Observation,
    Outcomes,
    Turn,
    allowance,
    evicted,
    observe,
)

# After a restart


@dataclass(frozen=True, kw_only=True)
class Restart:
    """Pods that were created in this order, a second apart from each other, after ``since``."""

    id: str
    pods: str  # r: right, w: without the annotation
    want: Outcomes
    at: datetime = NOW  # of the first one
    since: datetime | None = NOW - HOUR
    configured: int | None = None
    turn: Turn = Turn.NONE


def missing(count: int) -> tuple[Eviction, ...]:
    return (Eviction(controller=WEB, uid="", vpa=VPA, gone_since=NOW),) * count


HEIR = replace(NEW_VPA, inherited=True)
STOPPED = replace(HEIR, misses=3, probe_at=NOW + HOUR)
YOUNGEST = NOW + SECOND  # of two

RESTARTS = [
    Restart(
        id="two wrong ones of three are two misses",
        pods="ww",
        configured=3,
        want=replace(HEIR, misses=2, unverified=missing(1)),
    ),
    Restart(
        id="two of two suspend as well, until an hour after the younger one",
        pods="ww",
        want=replace(HEIR, misses=2, probe_at=YOUNGEST + HOUR),
        turn=Turn.SUSPENDED,
    ),
    Restart(
        id="so does one of one",
        pods="w",
        configured=1,
        want=replace(HEIR, misses=1, probe_at=NOW + HOUR),
        turn=Turn.SUSPENDED,
    ),
    Restart(
        id="and one of two whose other is on its way",
        pods="w",
        configured=2,
        want=replace(HEIR, misses=1, unverified=missing(1), probe_at=NOW + HOUR),
        turn=Turn.SUSPENDED,
    ),
    Restart(
        id="two of two, an hour ago: one may be tried",
        pods="ww",
        at=NOW - HOUR - SECOND,
        since=NOW - 2 * HOUR,
        want=replace(HEIR, misses=2),
    ),
    Restart(
        id="one of one, days ago: one may be tried",
        pods="w",
        at=NOW - 50 * HOUR,
        since=NOW - 60 * HOUR,
        want=replace(HEIR, misses=2),
    ),
    Restart(
        id="three wrong ones suspend from the start", pods="www", want=STOPPED, turn=Turn.SUSPENDED
    ),
    Restart(
        id="so do more",
        pods="wwwww",
        want=STOPPED,
        turn=Turn.SUSPENDED,
    ),
    Restart(
        id="nobody knows since when they should be right", pods="www", since=None, want=NEW_VPA
    ),
    Restart(id="created before that", pods="www", since=NOW + HOUR, want=NEW_VPA),
    Restart(
        id="the first one was created in that second",
        pods="www",
        since=NOW,
        want=replace(HEIR, misses=2),
    ),
    Restart(id="a right one verifies", pods="r", want=VERIFIED),
    Restart(id="a right one after three wrong ones", pods="wwwr", want=VERIFIED),
    Restart(id="a right one before two wrong ones", pods="rww", want=replace(VERIFIED, misses=2)),
    Restart(
        id="a right one before three wrong ones", pods="rwww", want=STOPPED, turn=Turn.SUSPENDED
    ),
    Restart(id="a right one from before that", pods="r", since=NOW, want=NEW_VPA),
    Restart(
        id="pods on their way count as unverified",
        pods="w",
        configured=3,
        want=replace(HEIR, misses=1, unverified=missing(2)),
    ),
    Restart(
        id="three of them are enough",
        pods="w",
        configured=9,
        want=replace(HEIR, misses=1, unverified=missing(3)),
    ),
    Restart(id="once verified nobody waits for them", pods="r", configured=3, want=VERIFIED),
    Restart(
        id="not known since when, nor waited for", pods="w", since=None, configured=3, want=NEW_VPA
    ),
]


@pytest.mark.parametrize("case", RESTARTS, ids=lambda case: case.id)
def test_first_look(case: Restart) -> None:
    pods = [
        born(f"web-{number}", right=kind == "r", at=case.at + number * SECOND)
        for number, kind in enumerate(case.pods)
    ]
    seen = sight(*pods, in_force_since=case.since)
    seen = replace(seen, configured={} if case.configured is None else {WEB: case.configured})
    found = observe(NOTHING_YET, seen, now=NOW)
    uids = frozenset(each.metadata.uid for each in pods) if case.want.waits else frozenset()
    assert found == Observation(outcomes=replace(case.want, seen=uids), turn=case.turn)


def test_a_pod_that_was_on_its_way_is_judged() -> None:
    before = replace(sight(wrong("a"), in_force_since=NOW - HOUR), configured={WEB: 3})
    outcomes = observe(NOTHING_YET, before, now=NOW).outcomes
    after = observe(outcomes, sight(wrong("a"), wrong("b"), configured=3), now=NOW + MINUTE)
    assert after.outcomes.misses == 2
    assert len(after.outcomes.unverified) == 1


def test_the_only_pod_that_was_on_its_way_suspends_if_it_is_wrong() -> None:
    before = replace(sight(in_force_since=NOW - HOUR), configured={WEB: 1})
    outcomes = observe(NOTHING_YET, before, now=NOW).outcomes
    assert outcomes == replace(HEIR, unverified=missing(1))
    came = replace(sight(wrong("a"), in_force_since=NOW - HOUR), configured={WEB: 1})
    after = observe(outcomes, came, now=NOW + MINUTE)
    assert after.turn is Turn.SUSPENDED
    assert after.outcomes.probe_at == NOW + HOUR
    right_one = replace(sight(born("b", right=True)), configured={WEB: 1})
    resumed = observe(after.outcomes, right_one, now=NOW + 2 * MINUTE)
    assert resumed.turn is Turn.RESUMED
    assert resumed.outcomes == VERIFIED


# Restarts at any moment

MANY_STEPS = settings(max_examples=100, stateful_step_count=50, deadline=None, database=None)


class Evictions(RuleBasedStateMachine):
    """A ReplicaSet, passes of the updater, and replacements that come as they like.

    Time goes on by itself between all steps. The updater wants to evict whatever it may.
    """

    replicas = 12

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.outcomes = NOTHING_YET
        self.pods: list[Pod] = [
            wrong(f"old-{number}", at=NOW - 2 * HOUR) for number in range(self.replicas)
        ]
        self.born = 0
        self.evicted_at: list[datetime] = []
        self.ever_right = False

    def look(self) -> Observation:
        seen = sight(*self.pods, in_force_since=NOW - HOUR)
        found = observe(self.outcomes, replace(seen, configured={WEB: self.replicas}), now=self.now)
        self.outcomes = found.outcomes
        return found

    def come(self, *, is_right: bool) -> None:
        self.born += 1
        self.pods.append(born(f"new-{self.born:03}", right=is_right, at=self.now))
        self.ever_right = self.ever_right or is_right

    @rule(seconds=st.integers(1, 90) | st.integers(600, 3600))
    def time_goes_on(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(most=st.integers(1, 6))
    def one_pass(self, most: int) -> None:
        self.look()
        known = [pod.metadata.uid for pod in self.pods]
        for _ in range(most):
            if not self.pods or not allowance(self.outcomes, now=self.now).allows_one:
                break
            gone = self.pods.pop(0)
            self.outcomes = evicted(
                self.outcomes, gone.metadata.uid, WEB, VPA, known=known, now=self.now
            )
            self.evicted_at.append(self.now)
        self.now += SECOND

    @precondition(lambda self: len(self.pods) < self.replicas)
    @rule()
    def a_wrong_one_comes(self) -> None:
        self.come(is_right=False)

    @precondition(lambda self: self.outcomes.suspended)
    @rule()
    def a_right_one_comes_and_is_seen(self) -> None:
        self.look()
        self.now += SECOND
        self.come(is_right=True)
        self.look()
        assert self.outcomes.verified
        assert not self.outcomes.suspended

    @rule()
    def restart(self) -> None:
        self.outcomes = NOTHING_YET

    @invariant()
    def three_at_most_and_then_one_an_hour(self) -> None:
        if self.ever_right:
            return
        for number, at in enumerate(self.evicted_at[3:], start=3):
            assert at - self.evicted_at[number - 1] >= HOUR

    @invariant()
    def three_are_not_known_yet_at_most(self) -> None:
        if not self.ever_right and not self.outcomes.suspended:
            assert len(self.outcomes.unverified) + self.outcomes.misses <= 3


class OfOne(Evictions):
    replicas = 1


class OfTwo(Evictions):
    replicas = 2


class OfThree(Evictions):
    replicas = 3


for machine in (Evictions, OfOne, OfTwo, OfThree):
    machine.TestCase.settings = MANY_STEPS

TestEvictions = Evictions.TestCase
TestEvictionsOfOne = OfOne.TestCase
TestEvictionsOfTwo = OfTwo.TestCase
TestEvictionsOfThree = OfThree.TestCase

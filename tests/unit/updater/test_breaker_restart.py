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
    CLOSED,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    VPA,
    WEB,
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
    WorkloadView,
    allowance,
    observe,
    record_eviction,
)

# After a restart


@dataclass(frozen=True, kw_only=True)
class Restart:
    """Pods that were created in this order, a second apart from each other, after ``since``."""

    id: str
    pods: str  # r: right, w: without the annotation
    want: Breaker
    at: datetime = NOW  # of the first one
    since: datetime | None = NOW - HOUR
    wanted: int | None = None


def waiting(count: int) -> Breaker:
    """No eviction passes until they have come, and one of them was right."""
    return Breaker(state=Closed(2), unanswered=waited_for(count))


def opened(until: datetime, *, missing: int = 0) -> Breaker:
    return Breaker(state=Open(until), unanswered=waited_for(missing))


def waited_for(count: int) -> tuple[Eviction, ...]:
    return (Eviction(workload=WEB, uid="", vpa=VPA, gone_since=NOW),) * count


RESTARTS = [
    Restart(
        id="a wrong one opens, until an hour after it was created",
        pods="w",
        wanted=1,
        want=opened(NOW + HOUR),
    ),
    Restart(id="of more the youngest counts", pods="www", want=opened(NOW + 2 * SECOND + HOUR)),
    Restart(
        id="an hour ago: one may be tried",
        pods="w",
        at=NOW - HOUR,
        since=NOW - 2 * HOUR,
        want=opened(NOW),
    ),
    Restart(
        id="days ago: one may be tried",
        pods="w",
        at=NOW - 50 * HOUR,
        since=NOW - 60 * HOUR,
        want=opened(NOW - 49 * HOUR),
    ),
    Restart(
        id="while another one is on its way: an hour from now",
        pods="w",
        at=NOW - MINUTE,
        wanted=2,
        want=opened(NOW + HOUR, missing=1),
    ),
    Restart(
        id="of those on their way three are enough",
        pods="w",
        wanted=9,
        want=opened(NOW + HOUR, missing=3),
    ),
    Restart(
        id="none is there, and one is on its way: the next one decides",
        pods="",
        wanted=1,
        want=waiting(1),
    ),
    Restart(id="none is there, and none is wanted", pods="", wanted=0, want=CLOSED),
    Restart(
        id="an old one is there, and others are on their way",
        pods="w",
        at=NOW - 2 * HOUR,
        wanted=3,
        want=waiting(2),
    ),
    Restart(id="nobody knows since when they should be right", pods="www", since=None, want=CLOSED),
    Restart(id="nor is one waited for then", pods="w", since=None, wanted=3, want=CLOSED),
    Restart(id="created before that", pods="www", since=NOW + HOUR, want=CLOSED),
    Restart(id="created in that second", pods="w", since=NOW, want=opened(NOW + HOUR)),
    Restart(id="created a second before", pods="w", since=NOW + SECOND, want=CLOSED),
    Restart(id="a right one", pods="r", want=CLOSED),
    Restart(id="a right one after wrong ones", pods="wwwr", want=CLOSED),
    Restart(id="a right one before a wrong one", pods="rw", want=opened(NOW + SECOND + HOUR)),
    Restart(id="a right one from before that", pods="r", since=NOW + SECOND, want=CLOSED),
    Restart(id="nobody waits for others beside a right one", pods="r", wanted=3, want=CLOSED),
]


@pytest.mark.parametrize("case", RESTARTS, ids=lambda case: case.id)
def test_first_look(case: Restart) -> None:
    pods = [
        born(f"web-{number}", right=kind == "r", at=case.at + number * SECOND)
        for number, kind in enumerate(case.pods)
    ]
    seen = view(*pods, in_force_since=case.since)
    wanted = len(pods) if case.wanted is None else case.wanted
    seen = replace(seen, wanted={WEB: wanted})
    found = observe(None, seen, now=NOW)
    uids = frozenset(each.metadata.uid for each in pods) if case.want.watches else frozenset()
    transition = BreakerTransition.SUSPENDED if case.want.suspends else BreakerTransition.NONE
    assert found == BreakerObservation(breaker=replace(case.want, seen=uids), transition=transition)


OLD = wrong("old", at=NOW - 2 * HOUR)


def of_two(*pods: Pod) -> WorkloadView:
    return replace(view(*pods, in_force_since=NOW - HOUR), wanted={WEB: 2})


ON_ITS_WAY = observe(None, of_two(OLD), now=NOW).breaker


def test_nothing_passes_while_a_pod_is_on_its_way() -> None:
    assert not ON_ITS_WAY.suspends
    assert not allowance(ON_ITS_WAY, now=NOW).allows_one


@pytest.mark.parametrize(
    ("right", "want"),
    [(True, Closed()), (False, Open(NOW + MINUTE + HOUR))],
    ids=["right", "wrong"],
)
def test_the_pod_that_was_on_its_way_decides(*, right: bool, want: State) -> None:
    came = of_two(OLD, born("new", right=right))
    assert observe(ON_ITS_WAY, came, now=NOW + MINUTE).breaker.state == want


def test_a_pod_that_was_on_its_way_and_never_comes_suspends() -> None:
    after = observe(ON_ITS_WAY, of_two(OLD), now=NOW + 2 * MINUTE)
    assert after.transition is BreakerTransition.SUSPENDED


def test_a_pod_that_was_on_its_way_and_is_not_wanted_any_more_lets_one_pass() -> None:
    fewer = replace(of_two(OLD), wanted={WEB: 1})
    after = observe(ON_ITS_WAY, fewer, now=NOW + 2 * MINUTE).breaker
    assert allowance(after, now=NOW + 2 * MINUTE).count == 1


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
        self.breaker: Breaker | None = None
        self.pods: list[Pod] = [
            wrong(f"old-{number}", at=NOW - 2 * HOUR) for number in range(self.replicas)
        ]
        self.born = 0
        self.evicted_at: list[datetime] = []
        self.ever_right = False

    def look(self) -> BreakerObservation:
        seen = view(*self.pods, in_force_since=NOW - HOUR)
        found = observe(self.breaker, replace(seen, wanted={WEB: self.replicas}), now=self.now)
        self.breaker = found.breaker
        return found

    def come(self, *, is_right: bool) -> None:
        self.born += 1
        self.pods.append(born(f"new-{self.born:03}", right=is_right, at=self.now))
        self.ever_right = self.ever_right or is_right

    @rule(seconds=st.integers(1, 90) | st.integers(600, 3600))
    def time_goes_on(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(most=st.integers(1, 6), wrong_first=st.booleans())
    def one_pass(self, most: int, *, wrong_first: bool) -> None:
        """Evict the oldest pods, or those that have come as wrong as they were."""
        breaker = self.look().breaker
        known = [pod.metadata.uid for pod in self.pods]
        for _ in range(most):
            if not self.pods or not allowance(breaker, now=self.now).allows_one:
                break
            gone = self.pods.pop(-1 if wrong_first else 0)
            breaker = record_eviction(
                breaker, gone.metadata.uid, WEB, VPA, known=known, now=self.now
            )
            self.evicted_at.append(self.now)
        self.breaker = breaker
        self.now += SECOND

    @precondition(lambda self: len(self.pods) < self.replicas)
    @rule()
    def a_wrong_one_comes(self) -> None:
        self.come(is_right=False)

    @precondition(lambda self: self.breaker is not None and self.breaker.suspends)
    @rule()
    def a_right_one_comes_and_is_seen(self) -> None:
        self.look()
        self.now += SECOND
        self.come(is_right=True)
        assert not self.look().breaker.suspends

    @rule()
    def restart(self) -> None:
        self.breaker = None

    @invariant()
    def three_at_most_and_then_one_an_hour(self) -> None:
        if self.ever_right:
            return
        for number, at in enumerate(self.evicted_at[3:], start=3):
            assert at - self.evicted_at[number - 1] >= HOUR

    @invariant()
    def three_are_unanswered_at_most(self) -> None:
        """Whatever was right in between, and while it is Open as well."""
        if self.breaker is not None:
            assert len(self.breaker.unanswered) <= 3


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

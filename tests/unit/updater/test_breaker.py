"""The eviction breaker: permitted evictions, and the effect of replacement results (X63, X104)."""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec
import pytest

from builders import recommendation, vpa
from replacements import (
    API,
    CLOSED,
    HOUR,
    MINUTE,
    NOW,
    RIGHT,
    SECOND,
    TWO_MISSES,
    WEB,
    allowed,
    right,
    view,
    waiting,
    wrong,
)
from updater.decision import Reason, wait
from updater.eviction.breaker import (
    Breaker,
    BreakerTransition,
    Closed,
    Open,
    ReplacementNote,
    State,
    after_eviction,
    after_result,
    breaker_wait,
    observe,
    record_eviction,
)
from updater.eviction.replacement_result import ReplacementResult
from updater.snapshot.live_pod import LivePod

IS_RIGHT, UNPATCHED = ReplacementResult.RIGHT, ReplacementResult.UNPATCHED
OUTSIDE, UNKNOWN = ReplacementResult.OUTSIDE_RANGE, ReplacementResult.UNKNOWN
NOT_CREATED = ReplacementResult.NOT_CREATED
LATER = Open(NOW + HOUR)

# The states

RESULTS = [
    pytest.param(Closed(1), IS_RIGHT, Closed(), id="Closed, right: misses are reset"),
    pytest.param(Closed(), UNPATCHED, Closed(1), id="Closed, unpatched: a miss"),
    pytest.param(Closed(1), OUTSIDE, Closed(2), id="Closed, outside its range: another miss"),
    pytest.param(Closed(2), NOT_CREATED, LATER, id="Closed, not created, the third: Open"),
    pytest.param(Closed(2), UNKNOWN, Closed(2), id="Closed, unknown: a miss stays a miss"),
    pytest.param(Open(NOW), UNPATCHED, Open(NOW), id="Open, another miss: unchanged"),
    pytest.param(Open(NOW), IS_RIGHT, Closed(), id="Open, right: Closed"),
]


@pytest.mark.parametrize(("state", "result", "want"), RESULTS)
def test_after_result(state: State, result: ReplacementResult, want: State) -> None:
    assert after_result(state, result, now=NOW) == want


def test_an_hour_after_the_breaker_opened_a_probe_is_allowed() -> None:
    assert not allowed(Breaker(state=LATER), now=NOW + HOUR - SECOND)
    assert allowed(Breaker(state=LATER), now=NOW + HOUR) == 1


def test_after_a_probe_the_breaker_is_open_for_another_hour() -> None:
    assert after_eviction(Open(NOW - SECOND), now=NOW) == LATER
    assert after_eviction(Closed(2), now=NOW) == Closed(2)


# The number of permitted evictions


@dataclass(frozen=True, kw_only=True)
class Allowed:
    id: str
    breaker: Breaker
    want: int
    reason: Reason = Reason.REPLACEMENT_UNVERIFIED
    until: datetime | None = None


def lost(breaker: Breaker) -> Breaker:
    """Return the breaker with all unanswered evictions lost."""
    given_up = tuple(replace(eviction, lost=True) for eviction in breaker.unanswered)
    return replace(breaker, unanswered=given_up)


OPEN = Breaker(state=Open(NOW))
SUSPENDED = Reason.ACTUATION_SUSPENDED

ALLOWED = [
    Allowed(id="no evictions yet: three", breaker=CLOSED, want=3),
    Allowed(id="two are unanswered: one", breaker=waiting(CLOSED, 2), want=1),
    Allowed(id="three are unanswered: none", breaker=waiting(CLOSED, 3), want=0),
    Allowed(id="four are unanswered: none", breaker=waiting(CLOSED, 4), want=0),
    Allowed(id="misses count", breaker=waiting(TWO_MISSES), want=0),
    Allowed(
        id="a lost pod counts once",
        breaker=replace(lost(waiting(CLOSED, 2)), state=Closed(2)),
        want=1,
    ),
    Allowed(
        id="lost pods count after a right one, too",
        breaker=lost(waiting(CLOSED, 2)),
        want=1,
    ),
    Allowed(
        id="Open, a second before the probe",
        breaker=Breaker(state=Open(NOW + SECOND)),
        want=0,
        reason=SUSPENDED,
        until=NOW + SECOND,
    ),
    Allowed(id="Open, an hour later: one", breaker=OPEN, want=1, reason=SUSPENDED),
    Allowed(
        id="the next probe an hour after the last",
        breaker=waiting(OPEN),
        want=0,
        reason=SUSPENDED,
        until=NOW + HOUR,
    ),
    Allowed(
        id="a probe, two pods are lost: one",
        breaker=replace(OPEN, unanswered=lost(waiting(CLOSED, 2)).unanswered),
        want=1,
        reason=SUSPENDED,
    ),
    Allowed(
        id="a probe, three pods are lost: none, their controller retries",
        breaker=replace(OPEN, unanswered=lost(waiting(CLOSED, 3)).unanswered),
        want=0,
        reason=SUSPENDED,
    ),
]


@pytest.mark.parametrize("case", ALLOWED, ids=lambda case: case.id)
def test_allowance(case: Allowed) -> None:
    assert allowed(case.breaker, now=NOW) == case.want
    held = breaker_wait(case.breaker, now=NOW)
    if held is not None:
        assert (held, held.until) == (wait(case.reason), case.until)


# Outcomes of evictions


@dataclass(frozen=True, kw_only=True)
class Case:
    """One of three pods was evicted a minute ago."""

    id: str
    pods: tuple[LivePod, ...] = ()  # new ones
    breaker: Breaker = CLOSED
    evictions: int = 1
    ago: timedelta = MINUTE
    left: int = 2
    wanted: int | None = 3
    existing: int = 0
    among: int = 0
    terminating: tuple[str, ...] = ()
    still_there: bool = False
    given_up: bool = False  # by an earlier observation
    notes: tuple[ReplacementResult, ...] = ()
    state: State = CLOSED.state
    unanswered: int = 0
    lost: int = 0
    transition: BreakerTransition = BreakerTransition.NONE


OLD = tuple(wrong(f"old-{number}", at=NOW - 30 * HOUR) for number in range(9))

CASES = [
    Case(id="no replacement yet", unanswered=1),
    Case(id="a right replacement", pods=(right("new"),), notes=(IS_RIGHT,)),
    Case(id="an unpatched replacement", pods=(wrong("new"),), notes=(UNPATCHED,), state=Closed(1)),
    Case(
        id="each new pod answers one eviction",
        evictions=3,
        left=0,
        pods=(wrong("a"), wrong("b")),
        notes=(UNPATCHED,) * 2,
        state=Closed(2),
        unanswered=1,
    ),
    Case(
        id="a wrong pod without an eviction is no miss",
        pods=(wrong("a"), wrong("b")),
        notes=(UNPATCHED,),
        state=Closed(1),
    ),
    Case(
        id="a wrong pod of another workload answers no eviction",
        pods=(wrong("other", controller=API),),
        unanswered=1,
    ),
    Case(
        id="a right pod of another workload closes, and answers no eviction",
        breaker=TWO_MISSES,
        pods=(right("other", controller=API),),
        notes=(IS_RIGHT,),
        unanswered=1,
    ),
    Case(
        id="a right pod resets earlier misses",
        breaker=TWO_MISSES,
        pods=(right("new"),),
        notes=(IS_RIGHT,),
    ),
    Case(
        id="a right pod does not reset later misses",
        evictions=2,
        pods=(wrong("b", at=NOW), right("a", at=NOW - SECOND)),
        notes=(IS_RIGHT, UNPATCHED),
        state=Closed(1),
    ),
    Case(
        id="the third miss opens",
        breaker=TWO_MISSES,
        pods=(wrong("new"),),
        notes=(UNPATCHED,),
        state=LATER,
        transition=BreakerTransition.SUSPENDED,
    ),
    Case(
        id="another miss changes nothing",
        breaker=Breaker(state=Open(NOW - MINUTE)),
        pods=(wrong("new"),),
        notes=(UNPATCHED,),
        state=Open(NOW - MINUTE + HOUR),
    ),
    Case(
        id="a right probe closes",
        breaker=OPEN,
        pods=(right("new"),),
        notes=(IS_RIGHT,),
        transition=BreakerTransition.RESUMED,
    ),
    Case(
        id="any right pod closes",
        breaker=OPEN,
        evictions=0,
        pods=(right("other", controller=API),),
        notes=(IS_RIGHT,),
        transition=BreakerTransition.RESUMED,
    ),
    Case(id="not created for less than two minutes", ago=2 * MINUTE - SECOND, unanswered=1),
    Case(
        id="not created for two minutes",
        ago=2 * MINUTE,
        notes=(NOT_CREATED,),
        state=Closed(1),
        unanswered=1,
        lost=1,
    ),
    Case(
        id="a miss is counted once",
        ago=HOUR,
        given_up=True,
        breaker=Breaker(state=Closed(1)),
        state=Closed(1),
        unanswered=1,
        lost=1,
    ),
    Case(
        id="a late right replacement",
        given_up=True,
        breaker=Breaker(state=Closed(1)),
        pods=(right("new"),),
        notes=(IS_RIGHT,),
    ),
    Case(
        id="a late wrong replacement: the miss was counted before",
        given_up=True,
        breaker=Breaker(state=Closed(1)),
        pods=(wrong("new"),),
        state=Closed(1),
    ),
    Case(
        id="scaled down after the miss: the miss stays, and no pod is lost",
        given_up=True,
        breaker=Breaker(state=Closed(1)),
        wanted=2,
        state=Closed(1),
    ),
    Case(
        id="three not created: Open",
        ago=2 * MINUTE,
        evictions=3,
        left=0,
        notes=(NOT_CREATED,) * 3,
        state=LATER,
        unanswered=3,
        lost=3,
        transition=BreakerTransition.SUSPENDED,
    ),
    Case(id="scaled down", ago=2 * MINUTE, wanted=2, notes=(UNKNOWN,)),
    Case(
        id="scaled down by one of two",
        ago=2 * MINUTE,
        evictions=2,
        left=1,
        wanted=2,
        notes=(NOT_CREATED, UNKNOWN),
        state=Closed(1),
        unanswered=1,
        lost=1,
    ),
    Case(id="scaled to zero", ago=2 * MINUTE, wanted=0, notes=(UNKNOWN,)),
    Case(id="workload gone", ago=2 * MINUTE, wanted=None, notes=(UNKNOWN,)),
    Case(
        id="a kind without a desired number: fewer pods than before",
        ago=2 * MINUTE,
        wanted=None,
        among=3,
        notes=(NOT_CREATED,),
        state=Closed(1),
    ),
    Case(
        id="a kind without a desired number: as many pods as before",
        ago=2 * MINUTE,
        wanted=None,
        among=2,
        notes=(UNKNOWN,),
    ),
    Case(
        id="a kind without a desired number: two evicted, one created",
        ago=2 * MINUTE,
        evictions=2,
        left=1,
        wanted=None,
        among=3,
        pods=(right("new"),),
        notes=(IS_RIGHT, NOT_CREATED),
        state=Closed(1),
    ),
    Case(id="created, without a node", ago=HOUR, existing=3, unanswered=1),
    Case(
        id="one of two is without a node",
        ago=HOUR,
        evictions=2,
        left=1,
        existing=2,
        notes=(NOT_CREATED,),
        state=Closed(1),
        unanswered=2,
        lost=1,
    ),
    Case(
        id="the evicted pod is still terminating", ago=HOUR, terminating=("gone-0",), unanswered=1
    ),
    Case(id="the evicted pod was not deleted", ago=2 * MINUTE, still_there=True, notes=(UNKNOWN,)),
    Case(id="the eviction may not be in the cache yet", still_there=True, unanswered=1),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_observe(case: Case) -> None:
    old = OLD[: case.left]
    if case.still_there:
        gone = msgspec.structs.replace(OLD[8].metadata, uid="gone-0")
        old = (*old, msgspec.structs.replace(OLD[8], metadata=gone))
    before = waiting(
        replace(case.breaker, seen=frozenset(each.metadata.uid for each in old)),
        case.evictions,
        since=NOW - case.ago,
        known=old,
        among=case.among,
    )
    seen = view(
        *old,
        *case.pods,
        wanted=case.wanted,
        existing=case.existing,
    )
    found = observe(
        lost(before) if case.given_up else before, seen, terminating=case.terminating, now=NOW
    )
    assert tuple(note.result for note in found.notes) == case.notes
    after = found.breaker
    assert after.state == case.state
    assert len(after.unanswered) == case.unanswered
    assert sum(eviction.lost for eviction in after.unanswered) == case.lost
    assert found.transition is case.transition
    assert observe(after, seen, terminating=case.terminating, now=NOW).notes == ()


def test_the_two_minutes_start_when_the_evicted_pod_is_gone() -> None:
    breaker = waiting(CLOSED, known=OLD[:2])
    later = NOW + HOUR
    late = observe(breaker, view(*OLD[:2]), terminating=["gone-0"], now=later).breaker
    almost = observe(late, view(*OLD[:2]), now=NOW + HOUR + 2 * MINUTE - SECOND)
    assert almost.notes == ()
    over = observe(almost.breaker, view(*OLD[:2]), now=NOW + HOUR + 2 * MINUTE)
    assert over.notes == (ReplacementNote(NOT_CREATED),)


def test_the_oldest_eviction_is_answered_first() -> None:
    breaker = waiting(CLOSED, 2, known=OLD)
    found = observe(breaker, view(*OLD, wrong("new")), now=NOW + SECOND)
    assert found.notes == (ReplacementNote(UNPATCHED, "new"),)
    assert [eviction.uid for eviction in found.breaker.unanswered] == ["gone-1"]


def test_a_replacement_may_have_the_recommendation_of_its_eviction() -> None:
    before = vpa(recommendations=(recommendation(target=RIGHT, lower=RIGHT, upper=RIGHT),))
    double = {"cpu": "500m", "memory": "512Mi"}
    after = vpa(recommendations=(recommendation(target=double, lower=double, upper=double),))
    gone = right("gone")
    breaker = record_eviction(TWO_MISSES, gone, replace(view(gone), vpa=before), now=NOW)
    seen = replace(view(right("new")), vpa=after)
    assert observe(breaker, seen, now=NOW + SECOND).breaker == CLOSED


def test_known_pods_are_kept_only_while_new_ones_matter() -> None:
    breaker = waiting(CLOSED, known=OLD)
    assert breaker.workloads == {WEB}
    assert len(breaker.seen) == len(OLD)
    settled = observe(breaker, view(*OLD, right("new")), now=NOW + SECOND).breaker
    assert settled == CLOSED
    assert not settled.watches
    suspension = observe(OPEN, view(*OLD), now=NOW).breaker
    assert suspension.seen == {each.metadata.uid for each in OLD}


# Rollouts: the pods of a Deployment are those of all its ReplicaSets


def test_pods_that_a_rollout_does_not_create_are_misses() -> None:
    """The old ReplicaSet shrinks to its five pods, and the new one can create none."""
    breaker = waiting(CLOSED, 3, known=OLD[:8])
    shrunk = view(*OLD[:5], wanted=8)
    after = observe(breaker, shrunk, now=NOW + 2 * MINUTE)
    assert Counter(note.result for note in after.notes) == {NOT_CREATED: 3}
    assert not allowed(after.breaker, now=NOW + 2 * MINUTE)
    much_later = observe(after.breaker, shrunk, now=NOW + 5 * HOUR).breaker
    assert not allowed(much_later, now=NOW + 5 * HOUR)


def test_a_right_pod_of_the_new_replica_set_answers_an_eviction_of_the_old_one() -> None:
    breaker = waiting(CLOSED, 3, known=OLD[:8])
    rolled = observe(breaker, view(*OLD[:5], right("new"), wanted=8), now=NOW + SECOND).breaker
    assert len(rolled.unanswered) == 2
    assert rolled.workloads == {WEB}


def test_pods_that_were_missing_at_the_start_are_dropped_with_the_first_right_one() -> None:
    since = NOW - HOUR
    seen = view(*OLD[:2], wanted=5, in_force_since=since)
    found = observe(None, seen, now=NOW).breaker
    assert len(found.unanswered) == 3
    assert all(eviction.vpa is seen.vpa for eviction in found.unanswered)
    came = view(*OLD[:2], right("new"), wanted=5, in_force_since=since)
    assert observe(found, came, now=NOW + SECOND).breaker == CLOSED

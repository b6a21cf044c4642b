"""What follows from the outcomes of evictions, rule by rule."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec
import pytest

from builders import recommendation, vpa
from common.api.core import Pod
from replacements import (
    API,
    HOUR,
    MINUTE,
    NEW_VPA,
    NOW,
    RIGHT,
    SECOND,
    VERIFIED,
    WEB,
    right,
    sight,
    waiting,
    wrong,
)
from updater.decision import Reason
from updater.outcomes import Allowance, Note, Outcomes, Turn, allowance, evicted, observe
from updater.sighting import Sighting

# How many may go


@dataclass(frozen=True, kw_only=True)
class Allowed:
    id: str
    outcomes: Outcomes
    want: Allowance
    under_way: int = 0


def unverified(count: int | None) -> Allowance:
    return Allowance(count, Reason.REPLACEMENT_UNVERIFIED)


def suspended(count: int, until: datetime | None = None) -> Allowance:
    return Allowance(count, Reason.ACTUATION_SUSPENDED, until)


SUSPENDED = Outcomes(looked=True, misses=3, probe_at=NOW)

ALLOWED = [
    Allowed(id="nothing tried yet: three", outcomes=NEW_VPA, want=unverified(3)),
    Allowed(id="two are not known yet: one", outcomes=waiting(NEW_VPA, 2), want=unverified(1)),
    Allowed(id="three are not known yet: none", outcomes=waiting(NEW_VPA, 3), want=unverified(0)),
    Allowed(id="calls under way count", outcomes=NEW_VPA, under_way=2, want=unverified(1)),
    Allowed(id="more calls than that", outcomes=NEW_VPA, under_way=4, want=unverified(0)),
    Allowed(
        id="misses count until the first right one",
        outcomes=waiting(replace(NEW_VPA, misses=2)),
        want=unverified(0),
    ),
    Allowed(id="once verified: any number", outcomes=waiting(VERIFIED, 9), want=Allowance()),
    Allowed(
        id="suspended, a second too early",
        outcomes=replace(SUSPENDED, probe_at=NOW + SECOND),
        want=suspended(0, NOW + SECOND),
    ),
    Allowed(id="suspended, and a probe is due", outcomes=SUSPENDED, want=suspended(1)),
    Allowed(id="one probe at a time", outcomes=SUSPENDED, under_way=1, want=suspended(0)),
    Allowed(
        id="the next probe an hour after the last",
        outcomes=waiting(SUSPENDED),
        want=suspended(0, NOW + HOUR),
    ),
]


@pytest.mark.parametrize("case", ALLOWED, ids=lambda case: case.id)
def test_allowance(case: Allowed) -> None:
    found = allowance(case.outcomes, now=NOW, under_way=case.under_way)
    assert found == case.want
    assert found.allows_one is (case.want.count is None or case.want.count > 0)


# What came of evictions


@dataclass(frozen=True, kw_only=True)
class Case:
    """One pod of three was evicted a minute ago; two are left."""

    id: str
    pods: tuple[Pod, ...] = ()  # new ones
    outcomes: Outcomes = NEW_VPA
    evictions: int = 1
    ago: timedelta = MINUTE
    left: int = 2
    configured: int | None = 3
    existing: int = 0
    among: int = 0
    terminating: tuple[str, ...] = ()
    still_there: bool = False
    notes: tuple[Sighting, ...] = ()
    misses: int = 0
    verified: bool = False
    unverified: int = 0
    turn: Turn = Turn.NONE
    probe_at: datetime | None = None


OLD = tuple(wrong(f"old-{number}", at=NOW - 30 * HOUR) for number in range(9))

CASES = [
    Case(id="nothing came yet", unverified=1),
    Case(
        id="a right one came",
        pods=(right("new"),),
        notes=(Sighting.RIGHT,),
        verified=True,
    ),
    Case(id="an unpatched one came", pods=(wrong("new"),), notes=(Sighting.UNPATCHED,), misses=1),
    Case(
        id="each new pod answers one",
        evictions=3,
        left=0,
        pods=(wrong("a"), wrong("b")),
        notes=(Sighting.UNPATCHED,) * 2,
        misses=2,
        unverified=1,
    ),
    Case(
        id="a wrong pod that nobody of us asked for is no miss",
        pods=(wrong("a"), wrong("b")),
        notes=(Sighting.UNPATCHED,),
        misses=1,
    ),
    Case(
        id="a wrong pod of another controller answers nothing",
        pods=(wrong("other", controller=API),),
        unverified=1,
    ),
    Case(
        id="a right pod of another controller verifies, and answers nothing",
        pods=(right("other", controller=API),),
        notes=(Sighting.RIGHT,),
        verified=True,
        unverified=1,
    ),
    Case(
        id="right makes up for misses before",
        outcomes=replace(NEW_VPA, misses=2),
        pods=(right("new"),),
        notes=(Sighting.RIGHT,),
        verified=True,
    ),
    Case(
        id="not for those after",
        evictions=2,
        pods=(wrong("b", at=NOW), right("a", at=NOW - SECOND)),
        notes=(Sighting.RIGHT, Sighting.UNPATCHED),
        misses=1,
        verified=True,
    ),
    Case(
        id="the third miss suspends",
        outcomes=replace(VERIFIED, misses=2),
        pods=(wrong("new"),),
        notes=(Sighting.UNPATCHED,),
        misses=3,
        turn=Turn.SUSPENDED,
        probe_at=NOW + HOUR,
    ),
    Case(
        id="another miss changes nothing",
        outcomes=replace(SUSPENDED, probe_at=NOW - MINUTE),
        pods=(wrong("new"),),
        notes=(Sighting.UNPATCHED,),
        misses=4,
        probe_at=NOW - MINUTE + HOUR,
    ),
    Case(
        id="a right probe resumes",
        outcomes=SUSPENDED,
        pods=(right("new"),),
        notes=(Sighting.RIGHT,),
        verified=True,
        turn=Turn.RESUMED,
    ),
    Case(
        id="any right pod resumes",
        outcomes=SUSPENDED,
        evictions=0,
        pods=(right("other", controller=API),),
        notes=(Sighting.RIGHT,),
        verified=True,
        turn=Turn.RESUMED,
    ),
    Case(id="not created for less than two minutes", ago=2 * MINUTE - SECOND, unverified=1),
    Case(
        id="not created for two minutes",
        ago=2 * MINUTE,
        notes=(Sighting.NOT_CREATED,),
        misses=1,
    ),
    Case(
        id="three not created suspend",
        ago=2 * MINUTE,
        evictions=3,
        left=0,
        notes=(Sighting.NOT_CREATED,) * 3,
        misses=3,
        turn=Turn.SUSPENDED,
        probe_at=NOW + HOUR,
    ),
    Case(
        id="scaled down meanwhile",
        ago=2 * MINUTE,
        configured=2,
        notes=(Sighting.UNKNOWN,),
    ),
    Case(
        id="scaled down by one of two",
        ago=2 * MINUTE,
        evictions=2,
        left=1,
        configured=2,
        notes=(Sighting.NOT_CREATED, Sighting.UNKNOWN),
        misses=1,
    ),
    Case(id="rolled out meanwhile", ago=2 * MINUTE, configured=0, notes=(Sighting.UNKNOWN,)),
    Case(
        id="controller gone",
        ago=2 * MINUTE,
        configured=None,
        notes=(Sighting.UNKNOWN,),
    ),
    Case(
        id="of a kind that doesn't tell, and there are fewer than before",
        ago=2 * MINUTE,
        configured=None,
        among=3,
        notes=(Sighting.NOT_CREATED,),
        misses=1,
    ),
    Case(
        id="of such a kind, and others came meanwhile",
        ago=2 * MINUTE,
        configured=None,
        among=2,
        notes=(Sighting.UNKNOWN,),
    ),
    Case(
        id="of such a kind, two went and one came",
        ago=2 * MINUTE,
        evictions=2,
        left=1,
        configured=None,
        among=3,
        pods=(right("new"),),
        notes=(Sighting.RIGHT, Sighting.NOT_CREATED),
        misses=1,
        verified=True,
    ),
    Case(id="created, and waiting for a node", ago=HOUR, existing=3, unverified=1),
    Case(
        id="one of two waits for a node",
        ago=HOUR,
        evictions=2,
        left=1,
        existing=2,
        notes=(Sighting.NOT_CREATED,),
        misses=1,
        unverified=1,
    ),
    Case(id="the evicted pod is still going", ago=HOUR, terminating=("gone-0",), unverified=1),
    Case(
        id="the evicted pod never went",
        ago=2 * MINUTE,
        still_there=True,
        notes=(Sighting.UNKNOWN,),
    ),
    Case(id="it may just not show yet", still_there=True, unverified=1),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_observe(case: Case) -> None:
    old = OLD[: case.left]
    if case.still_there:
        gone = msgspec.structs.replace(OLD[8].metadata, uid="gone-0")
        old = (*old, msgspec.structs.replace(OLD[8], metadata=gone))
    before = waiting(
        replace(case.outcomes, seen=frozenset(each.metadata.uid for each in old)),
        case.evictions,
        since=NOW - case.ago,
        known=old,
        among=case.among,
    )
    seen = sight(
        *old,
        *case.pods,
        configured=case.configured,
        existing=case.existing,
        terminating=case.terminating,
    )
    found = observe(before, seen, now=NOW)
    assert tuple(note.sighting for note in found.notes) == case.notes
    after = found.outcomes
    assert (after.misses, after.verified) == (case.misses, case.verified)
    assert len(after.unverified) == case.unverified
    assert found.turn is case.turn
    if case.outcomes.suspended and case.evictions and after.suspended:
        assert after.probe_at == NOW - case.ago + HOUR
    else:
        assert after.probe_at == case.probe_at
    assert observe(after, seen, now=NOW).notes == ()


def test_two_minutes_begin_when_the_evicted_pod_is_gone() -> None:
    outcomes = waiting(NEW_VPA, known=OLD[:2])
    going = sight(*OLD[:2], terminating=["gone-0"])
    late = observe(outcomes, going, now=NOW + HOUR).outcomes
    almost = observe(late, sight(*OLD[:2]), now=NOW + HOUR + 2 * MINUTE - SECOND)
    assert almost.notes == ()
    over = observe(almost.outcomes, sight(*OLD[:2]), now=NOW + HOUR + 2 * MINUTE)
    assert over.notes == (Note(Sighting.NOT_CREATED),)


def test_the_oldest_eviction_is_answered_first() -> None:
    outcomes = waiting(NEW_VPA, 2, known=OLD)
    found = observe(outcomes, sight(*OLD, wrong("new")), now=NOW + SECOND)
    assert found.notes == (Note(Sighting.UNPATCHED, "new"),)
    assert [eviction.uid for eviction in found.outcomes.unverified] == ["gone-1"]


def test_a_replacement_is_judged_by_what_was_recommended_at_its_eviction_too() -> None:
    before = vpa(recommendations=(recommendation(target=RIGHT, lower=RIGHT, upper=RIGHT),))
    double = {"cpu": "500m", "memory": "512Mi"}
    after = vpa(recommendations=(recommendation(target=double, lower=double, upper=double),))
    outcomes = evicted(NEW_VPA, "gone", WEB, before, known=(), now=NOW)
    seen = replace(sight(right("new")), vpa=after)
    assert observe(outcomes, seen, now=NOW + SECOND).outcomes.verified


def test_pods_are_remembered_only_while_new_ones_matter() -> None:
    outcomes = waiting(VERIFIED, known=OLD)
    assert outcomes.controllers == {WEB}
    assert len(outcomes.seen) == len(OLD)
    settled = observe(outcomes, sight(*OLD, right("new")), now=NOW + SECOND).outcomes
    assert settled == VERIFIED
    assert not settled.waits
    suspension = observe(replace(SUSPENDED, seen=frozenset()), sight(*OLD), now=NOW).outcomes
    assert suspension.seen == {each.metadata.uid for each in OLD}

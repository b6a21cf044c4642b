"""The status of a resize and the next decision: the tables of updater.md 10."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from builders import pod
from common.api.autoscaling import UpdateMode
from common.api.core import Pod, PodCondition, PodStatus
from common.recommendation.preflight import Check, Refusal
from common.resources import ResourceQuantities, parse_quantities
from common.target.owners import Controller
from updater.decision import Action, Decision, Reason, evict, leave, resize, wait
from updater.eviction.disruption_budget import DisruptionBudget, GroupStanding, ReplicaGroup
from updater.resize.infeasible_resize import Infeasible, Targets, lower_somewhere
from updater.resize.resize_decision import ResizeDecision, decide_resize, instead_of_eviction
from updater.resize.resize_plan import ResizePlan
from updater.resize.resize_status import ResizeStatus, resize_status, resizing_since
from updater.resize.resize_timeouts import Timeouts, unfinished

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"


def condition(
    type: str, reason: str = "", message: str = "", *, status: str = "True", age: float = 0
) -> PodCondition:
    return PodCondition(
        type=type,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=NOW - timedelta(seconds=age),
    )


def pod_with(*conditions: PodCondition, phase: str = "Running") -> Pod:
    """Return a pod whose container has requests of 100m and 100Mi."""
    ordinary = pod()
    return Pod(
        metadata=ordinary.metadata,
        spec=ordinary.spec,
        status=PodStatus(phase=phase, conditions=conditions),
    )


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        ((), ResizeStatus.NONE),
        ((condition("Ready"),), ResizeStatus.NONE),
        ((condition(PENDING, "Deferred", "no room"),), ResizeStatus.DEFERRED),
        ((condition(PENDING, "Infeasible", "never"),), ResizeStatus.INFEASIBLE),
        ((condition(PENDING, "Other"),), ResizeStatus.UNKNOWN),
        ((condition(PENDING),), ResizeStatus.UNKNOWN),
        ((condition(IN_PROGRESS),), ResizeStatus.IN_PROGRESS),
        ((condition(IN_PROGRESS, "Error", "usage"),), ResizeStatus.ERROR),
        ((condition(IN_PROGRESS, "Other"),), ResizeStatus.UNKNOWN),
        ((condition(IN_PROGRESS, message="text"),), ResizeStatus.UNKNOWN),
        ((condition(IN_PROGRESS), condition(PENDING, "Deferred")), ResizeStatus.DEFERRED),
        ((condition(PENDING, "Deferred", status="False"),), ResizeStatus.NONE),
    ],
)
def test_resize_status(conditions: tuple[PodCondition, ...], want: ResizeStatus) -> None:
    assert resize_status(pod_with(*conditions)) is want


def test_a_false_condition_does_not_hide_a_true_one() -> None:
    """10.1: in the reference only the first of the two conditions counts."""
    hidden = pod_with(condition(PENDING, "Deferred", status="False"), condition(IN_PROGRESS))
    assert resize_status(hidden) is ResizeStatus.IN_PROGRESS


SINCE = {
    "the condition's transition": (60, None, None, 60),
    "a later patch by the updater": (600, 60, None, 60),
    "a later transition": (60, 600, None, 60),
    "the transition takes precedence over the first observation": (60, None, 30, 60),
}


@pytest.mark.parametrize(("transition", "sent", "seen", "want"), SINCE.values(), ids=SINCE)
def test_resizing_since(
    transition: float, sent: float | None, seen: float | None, want: float
) -> None:
    since = resizing_since(
        pod_with(condition(PENDING, "Deferred", age=transition)),
        sent_at=None if sent is None else NOW - timedelta(seconds=sent),
        first_seen=None if seen is None else NOW - timedelta(seconds=seen),
    )
    assert since == NOW - timedelta(seconds=want)


def test_without_a_transition_time_the_first_observation_counts() -> None:
    timeless = PodCondition(type=PENDING, status="True", reason="Deferred")
    seen = NOW - timedelta(seconds=30)
    assert resizing_since(pod_with(timeless), sent_at=None, first_seen=seen) == seen


MINUTES = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("status", "age", "want"),
    [
        (ResizeStatus.NONE, timedelta(), None),
        (ResizeStatus.INFEASIBLE, timedelta(), None),
        (ResizeStatus.DEFERRED, 5 * MINUTES, wait(Reason.RESIZE_DEFERRED)),
        (ResizeStatus.DEFERRED, 5 * MINUTES + timedelta(seconds=1), None),
        (ResizeStatus.ERROR, 5 * MINUTES, wait(Reason.RESIZE_ERROR)),  # D19
        (ResizeStatus.ERROR, 5 * MINUTES + timedelta(seconds=1), None),
        (ResizeStatus.UNKNOWN, 5 * MINUTES, wait(Reason.RESIZE_UNKNOWN)),  # D19
        (ResizeStatus.UNKNOWN, 5 * MINUTES + timedelta(seconds=1), None),
        (ResizeStatus.IN_PROGRESS, 60 * MINUTES, wait(Reason.RESIZE_IN_PROGRESS)),
        (ResizeStatus.IN_PROGRESS, 60 * MINUTES + timedelta(seconds=1), None),
    ],
)
def test_time_outs_of_unfinished_resizes(
    status: ResizeStatus, age: timedelta, want: Decision | None
) -> None:
    assert unfinished(status, since=NOW - age, timeouts=Timeouts(), now=NOW) == want


def targets(**requests: str) -> Targets:
    return {"app": parse_quantities(requests)}


@pytest.mark.parametrize(
    ("current", "stored", "want"),
    [
        (targets(cpu="200m", memory="512Mi"), targets(cpu="200m", memory="512Mi"), False),
        (targets(cpu="300m", memory="1Gi"), targets(cpu="200m", memory="512Mi"), False),
        (targets(cpu="100m", memory="1Gi"), targets(cpu="200m", memory="512Mi"), True),
        (targets(cpu="200m", memory="256Mi"), targets(cpu="200m", memory="512Mi"), True),
        ({"b": parse_quantities({"cpu": "50m"})}, targets(cpu="100m"), False),
        (targets(memory="1Mi"), targets(cpu="100m"), False),
        ({}, targets(cpu="100m"), False),
    ],
)
def test_lower_somewhere(current: Targets, stored: Targets, *, want: bool) -> None:
    assert lower_somewhere(current, stored) is want


# The matrix: mode x state x budget.

WEB = Controller("default", "ReplicaSet", "web")
IN_PLACE, OR_RECREATE = UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE
ROOM = DisruptionBudget(configured=3, running=3, tolerance=1)
NO_ROOM = DisruptionBudget(configured=3, running=2, tolerance=1)
WANTED = {"app": parse_quantities({"cpu": "250m", "memory": "256Mi"})}
LOWER = {"app": parse_quantities({"cpu": "50m", "memory": "256Mi"})}
GO = resize(Reason.OUTSIDE_RANGE)
DEFERRED = condition(PENDING, "Deferred")
INFEASIBLE = condition(PENDING, "Infeasible")
ERROR = condition(IN_PROGRESS, "Error")
WORKING = condition(IN_PROGRESS)
UNKNOWN = condition(PENDING, "Later")
AS_ASKED: dict[str, ResourceQuantities] = {
    "app": parse_quantities({"cpu": "100m", "memory": "100Mi"})
}


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    want: Decision
    mode: UpdateMode = IN_PLACE
    state: PodCondition | None = None
    overdue: bool = False
    budget: DisruptionBudget = ROOM
    standing: GroupStanding = GroupStanding.OPEN
    phase: str = "Running"
    targets: Targets | None = None
    stored: Infeasible | None = None
    remembers: Infeasible | None = None
    restarts: bool = False
    skip: bool = False
    refused: Check | None = None
    changes: bool = True
    held: Reason | None = None


def refused(values: Targets) -> Infeasible:
    return Infeasible(targets=values, reported=False)


def reported(values: Targets) -> Infeasible:
    return Infeasible(targets=values, reported=True)


BOTH = [
    Case(id="room", want=GO),
    Case(id="no room", budget=NO_ROOM, want=wait(Reason.BUDGET_EXHAUSTED)),
    Case(
        id="no room, skip, restarts",
        budget=NO_ROOM,
        skip=True,
        restarts=True,
        want=wait(Reason.BUDGET_EXHAUSTED),
    ),
    Case(id="no room, skip, no restart", budget=NO_ROOM, skip=True, want=GO),
    Case(
        id="below the minimum",
        standing=GroupStanding.BELOW_MIN_REPLICAS,
        want=wait(Reason.BELOW_MIN_REPLICAS),
    ),
    Case(id="below the minimum, skip", standing=GroupStanding.IN_PLACE_ONLY, skip=True, want=GO),
    Case(
        id="controller unknown",
        standing=GroupStanding.CONTROLLER_UNKNOWN,
        want=wait(Reason.CONTROLLER_UNKNOWN),
    ),
    Case(id="pending pod", phase="Pending", want=wait(Reason.POD_PENDING)),
    Case(id="the spec has the target", changes=False, want=leave(Reason.NOTHING_TO_DO)),
    Case(
        id="the spec has the target, no room",
        changes=False,
        budget=NO_ROOM,
        want=leave(Reason.NOTHING_TO_DO),
    ),
    Case(
        id="refused by a quota before",
        held=Reason.QUOTA_EXCEEDED,
        want=wait(Reason.QUOTA_EXCEEDED),
    ),
]
ONLY_IN_PLACE = [
    Case(id="deferred", state=DEFERRED, want=wait(Reason.RESIZE_DEFERRED)),
    Case(
        id="deferred longer than the time-out",
        state=DEFERRED,
        overdue=True,
        want=wait(Reason.RESIZE_DEFERRED),
    ),
    Case(
        id="in progress longer than the time-out",
        state=WORKING,
        overdue=True,
        want=wait(Reason.RESIZE_IN_PROGRESS),
    ),
    Case(
        id="error longer than the time-out",
        state=ERROR,
        overdue=True,
        want=wait(Reason.RESIZE_ERROR),
    ),
    Case(
        id="unknown longer than the time-out",
        state=UNKNOWN,
        overdue=True,
        want=wait(Reason.RESIZE_UNKNOWN),
    ),
    Case(
        id="infeasible, nothing lower",
        state=INFEASIBLE,
        want=leave(Reason.RESIZE_INFEASIBLE),
        remembers=reported(AS_ASKED),
    ),
    Case(id="infeasible, lower than the spec", state=INFEASIBLE, targets=LOWER, want=GO),
    Case(
        id="infeasible, lower than remembered",
        state=INFEASIBLE,
        targets=LOWER,
        stored=reported(AS_ASKED),
        want=GO,
    ),
    Case(
        id="infeasible, equal to remembered",
        state=INFEASIBLE,
        stored=reported(WANTED),
        want=leave(Reason.INFEASIBLE_CACHED),
        remembers=reported(WANTED),
    ),
    Case(
        id="refused before, equal",
        stored=refused(WANTED),
        want=leave(Reason.INFEASIBLE_CACHED),
        remembers=refused(WANTED),
    ),
    Case(id="refused before, lower", stored=refused(WANTED), targets=LOWER, want=GO),
    Case(
        id="refused before, lower, no room",
        stored=refused(WANTED),
        targets=LOWER,
        budget=NO_ROOM,
        want=wait(Reason.BUDGET_EXHAUSTED),
    ),
    Case(id="reported before, no longer reported", stored=reported(WANTED), want=GO),
    Case(
        id="would change the QoS class",
        refused=Check.QOS_CLASS,
        want=leave(Reason.QOS_WOULD_CHANGE),
    ),
    Case(
        id="a LimitRange would refuse it",
        refused=Check.LIMIT_RANGE,
        want=leave(Reason.REPLACEMENT_WOULD_BE_REFUSED),
    ),
    Case(
        id="a quota would refuse it",
        refused=Check.QUOTA,
        want=leave(Reason.REPLACEMENT_WOULD_BE_REFUSED),
    ),
    Case(
        id="refused permanently before",
        held=Reason.RESIZE_REFUSED,
        want=wait(Reason.RESIZE_REFUSED),
    ),
]
WITH_FALLBACK = [
    Case(id="deferred", state=DEFERRED, want=wait(Reason.RESIZE_DEFERRED)),
    Case(
        id="deferred too long",
        state=DEFERRED,
        overdue=True,
        want=evict(Reason.RESIZE_DEFERRED_TOO_LONG),
    ),
    Case(
        id="deferred too long, no room",
        state=DEFERRED,
        overdue=True,
        budget=NO_ROOM,
        want=wait(Reason.BUDGET_EXHAUSTED),
    ),
    Case(
        id="deferred too long, no room, skip",
        state=DEFERRED,
        overdue=True,
        budget=NO_ROOM,
        skip=True,
        want=wait(Reason.BUDGET_EXHAUSTED),
    ),
    Case(id="in progress", state=WORKING, want=wait(Reason.RESIZE_IN_PROGRESS)),
    Case(
        id="in progress too long",
        state=WORKING,
        overdue=True,
        want=evict(Reason.RESIZE_IN_PROGRESS_TOO_LONG),
    ),
    Case(id="error", state=ERROR, want=wait(Reason.RESIZE_ERROR)),
    Case(id="error too long", state=ERROR, overdue=True, want=evict(Reason.RESIZE_ERROR_TOO_LONG)),
    Case(
        id="unknown too long",
        state=UNKNOWN,
        overdue=True,
        want=evict(Reason.RESIZE_UNKNOWN_TOO_LONG),
    ),
    Case(id="infeasible", state=INFEASIBLE, want=evict(Reason.RESIZE_INFEASIBLE)),
    Case(
        id="infeasible, no room",
        state=INFEASIBLE,
        budget=NO_ROOM,
        want=wait(Reason.BUDGET_EXHAUSTED),
    ),
    Case(id="remembers nothing as infeasible", stored=refused(WANTED), want=GO),
    Case(
        id="would change the QoS class",
        refused=Check.QOS_CLASS,
        want=evict(Reason.QOS_WOULD_CHANGE),
    ),
    Case(
        id="a LimitRange would refuse it",
        refused=Check.LIMIT_RANGE,
        want=evict(Reason.RESIZE_REFUSED),
    ),
    Case(id="a quota would refuse it", refused=Check.QUOTA, want=evict(Reason.RESIZE_REFUSED)),
    Case(
        id="refused permanently before",
        held=Reason.RESIZE_REFUSED,
        want=evict(Reason.RESIZE_REFUSED),
    ),
]


def decide(case: Case, mode: UpdateMode) -> ResizeDecision:
    given = pod_with(*filter(None, (case.state,)), phase=case.phase)
    group = ReplicaGroup(controller=WEB, standing=case.standing, pending=0, budget=case.budget)
    age = timedelta(days=1) if case.overdue else timedelta()
    return decide_resize(
        Reason.OUTSIDE_RANGE,
        given,
        mode=mode,
        group=group,
        plan=ResizePlan(
            operations=(),
            changes=frozenset({("app", "cpu")} if case.changes else ()),
            restarts=case.restarts,
            targets=WANTED if case.targets is None else case.targets,
        ),
        unfinished=unfinished(resize_status(given), since=NOW - age, timeouts=Timeouts(), now=NOW),
        held=None if case.held is None else wait(case.held),
        infeasible=case.stored,
        skip_budget=case.skip,
        refused=None if case.refused is None else Refusal(case.refused, "numbers"),
    )


@pytest.mark.parametrize("mode", [IN_PLACE, OR_RECREATE])
@pytest.mark.parametrize("case", BOTH, ids=lambda case: case.id)
def test_decide_resize_in_both_modes(case: Case, mode: UpdateMode) -> None:
    assert decide(case, mode).decision == case.want


@pytest.mark.parametrize("case", ONLY_IN_PLACE, ids=lambda case: case.id)
def test_decide_resize_in_place_only(case: Case) -> None:
    decided = decide(case, IN_PLACE)
    assert decided.decision == case.want
    assert decided.infeasible == case.remembers


@pytest.mark.parametrize("case", WITH_FALLBACK, ids=lambda case: case.id)
def test_decide_resize_with_fallback(case: Case) -> None:
    assert decide(case, OR_RECREATE).decision == case.want


@pytest.mark.parametrize("case", [*BOTH, *ONLY_IN_PLACE, *WITH_FALLBACK], ids=lambda case: case.id)
def test_mode_in_place_never_evicts(case: Case) -> None:
    assert decide(case, IN_PLACE).decision.action != "evict"


@pytest.mark.parametrize("case", ONLY_IN_PLACE, ids=lambda case: case.id)
def test_in_mode_in_place_a_wait_has_no_end(case: Case) -> None:
    assert decide(case, IN_PLACE).decision.until is None


def test_with_fallback_a_wait_ends_at_the_time_out() -> None:
    waiting = Case(id="", state=DEFERRED, want=wait(Reason.RESIZE_DEFERRED))
    assert decide(waiting, OR_RECREATE).decision.until == NOW + 5 * MINUTES


def test_a_pod_without_controller_is_not_resized() -> None:
    decided = decide_resize(
        Reason.OUTSIDE_RANGE,
        pod_with(),
        mode=IN_PLACE,
        group=None,
        plan=ResizePlan(operations=(), changes=frozenset(), restarts=False, targets={}),
        unfinished=None,
        held=None,
        infeasible=None,
        skip_budget=False,
    )
    assert decided.decision == wait(Reason.NO_CONTROLLER)


@pytest.mark.parametrize(
    ("eviction", "found"),
    [
        (Reason.RESIZE_INFEASIBLE, leave(Reason.INFEASIBLE_CACHED)),
        (Reason.RESIZE_DEFERRED_TOO_LONG, wait(Reason.RESIZE_DEFERRED)),
        (Reason.RESIZE_IN_PROGRESS_TOO_LONG, wait(Reason.RESIZE_IN_PROGRESS)),
        (Reason.RESIZE_ERROR_TOO_LONG, wait(Reason.RESIZE_ERROR)),
        (Reason.RESIZE_UNKNOWN_TOO_LONG, wait(Reason.RESIZE_UNKNOWN)),
        (Reason.QOS_WOULD_CHANGE, wait(Reason.QOS_WOULD_CHANGE)),
        (Reason.RESIZE_REFUSED, wait(Reason.RESIZE_REFUSED)),
        (Reason.RESIZE_FAILED_REPEATEDLY, wait(Reason.RESIZE_FAILED_REPEATEDLY)),
    ],
)
def test_a_pod_that_is_not_evicted_waits_for_the_same_reason(
    eviction: Reason, found: Decision
) -> None:
    instead = instead_of_eviction(evict(eviction, detail="numbers"))
    assert instead == found
    assert instead.detail == ("" if found.action is Action.LEAVE else "numbers")

"""Disruption budgets and eviction decisions; numbers from updater.md 5 and 6.1."""

from dataclasses import dataclass

import pytest

from builders import pod
from common.api.autoscaling import UpdateMode
from common.api.core import Pod
from common.target.owners import Controller
from updater.decision import Decision, Reason, evict, wait
from updater.eviction.disruption_budget import (
    DisruptionBudget,
    DisruptionPolicy,
    GroupStanding,
    ReplicaGroup,
    configured_replicas,
    replica_group,
)
from updater.eviction.eviction_decision import decide_eviction

WEB = Controller("default", "ReplicaSet", "web", "apps/v1")


def permitted_disruptions(budget: DisruptionBudget) -> int:
    """Return the number of disruptions until the budget is spent; at most all running pods."""
    for count in range(budget.running):
        if not budget.allows_one:
            return count
        budget = budget.spend()
    return budget.running


@pytest.mark.parametrize(
    ("configured", "running", "fraction", "tolerance", "most"),
    [
        (3, 3, 0.5, 1, 1),
        (4, 4, 0.5, 2, 2),
        (4, 3, 0.5, 2, 1),
        (5, 5, 0.8, 4, 4),
        (5, 5, 0.1, 0, 1),
        (3, 3, 0.1, 0, 1),
        (3, 2, 0.1, 0, 0),
        (3, 2, 0.5, 1, 0),
        (3, 3, 1.0, 3, 3),
        (1, 1, 0.5, 0, 1),
    ],
)
def test_permitted_disruptions_in_one_pass(
    configured: int, running: int, fraction: float, tolerance: int, most: int
) -> None:
    budget = DisruptionBudget.of_group(
        configured=configured, running=running, tolerance_fraction=fraction
    )
    assert budget.tolerance == tolerance
    assert permitted_disruptions(budget) == most


@pytest.mark.parametrize(
    ("kind", "replicas", "live", "want"),
    [
        ("ReplicaSet", 3, 2, 3),
        ("StatefulSet", 3, 2, 3),
        ("ReplicationController", 3, 2, 3),
        ("DaemonSet", 3, 2, 3),
        ("ReplicaSet", 0, 2, None),
        ("ReplicaSet", None, 2, None),
        ("DaemonSet", 0, 2, None),
        ("Job", None, 2, 2),
        ("CloneSet", None, 6, 6),
    ],
)
def test_configured_replicas(kind: str, replicas: int | None, live: int, want: int | None) -> None:
    assert configured_replicas(kind, replicas=replicas, live=live) == want


def group_of(
    pods: list[Pod],
    *,
    replicas: int | None = 4,
    minimum: int = 2,
    mode: UpdateMode = UpdateMode.RECREATE,
    skip: bool = False,
    boosted: bool = False,
    out: tuple[str, ...] = (),
) -> ReplicaGroup:
    return replica_group(
        WEB,
        pods,
        replicas=replicas,
        out=out,
        boosted=boosted,
        mode=mode,
        policy=DisruptionPolicy(min_replicas=minimum, in_place_skips_budget=skip),
    )


def pods_of(count: int, *, pending: int = 0) -> list[Pod]:
    running = [pod(f"web-{index}") for index in range(count - pending)]
    return running + [pod(f"web-p{index}", phase="Pending") for index in range(pending)]


IN_PLACE, OR_RECREATE = UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE


@pytest.mark.parametrize(
    ("group", "want"),
    [
        pytest.param(group_of(pods_of(2)), GroupStanding.OPEN, id="at the minimum"),
        pytest.param(
            group_of(pods_of(1)), GroupStanding.BELOW_MIN_REPLICAS, id="below the minimum"
        ),
        pytest.param(
            group_of(pods_of(2, pending=1)), GroupStanding.OPEN, id="a pending pod counts as live"
        ),
        pytest.param(group_of(pods_of(1), boosted=True), GroupStanding.OPEN, id="below, boosted"),
        pytest.param(
            group_of(pods_of(1), mode=IN_PLACE, skip=True),
            GroupStanding.IN_PLACE_ONLY,
            id="below, skip",
        ),
        pytest.param(
            group_of(pods_of(1), mode=OR_RECREATE, skip=True),
            GroupStanding.IN_PLACE_ONLY,
            id="below, skip, or recreate",
        ),
        pytest.param(
            group_of(pods_of(1), skip=True),
            GroupStanding.BELOW_MIN_REPLICAS,
            id="skip, not in place",
        ),
        pytest.param(
            group_of(pods_of(1), mode=IN_PLACE),
            GroupStanding.BELOW_MIN_REPLICAS,
            id="in place, no skip",
        ),
        pytest.param(
            group_of(pods_of(3), replicas=None),
            GroupStanding.CONTROLLER_UNKNOWN,
            id="no controller",
        ),
        pytest.param(
            group_of(pods_of(3), replicas=0),
            GroupStanding.CONTROLLER_UNKNOWN,
            id="scaled to zero",
        ),
    ],
)
def test_standing(group: ReplicaGroup, want: GroupStanding) -> None:
    assert group.standing is want


def test_pods_that_a_resize_restarts_are_not_counted_as_running() -> None:
    """D32: four of four run, the tolerance is two and two restart, so no other pod is permitted."""
    pods = pods_of(4)
    group = group_of(pods, out=("uid-web-0", "uid-web-1"))
    assert group.budget.running == 2
    assert not group.allows(pods[2])


def test_disrupting_an_unavailable_pod_is_free() -> None:
    pods = pods_of(4)
    group = group_of(pods, out=("uid-web-0", "uid-web-1"))
    assert group.allows(pods[0])
    assert group.spend(pods[0]) == group


def test_a_lone_unavailable_pod_may_be_disrupted() -> None:
    pods = pods_of(1)
    group = group_of(pods, replicas=1, minimum=1, out=("uid-web-0",))
    assert group.allows(pods[0])


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    want: Decision
    group: ReplicaGroup | None
    phase: str = "Running"
    unfinished: Decision | None = None
    requirements: bool = True
    admission: bool = True


FULL = group_of(pods_of(4))
SPENT = FULL.spend(pods_of(4)[0]).spend(pods_of(4)[1])
ONLY_IN_PLACE = group_of(pods_of(1), mode=OR_RECREATE, skip=True)
YES = evict(Reason.OUTSIDE_RANGE)
CASES = [
    Case(id="room in the budget", group=FULL, want=YES),
    Case(id="budget exhausted", group=SPENT, want=wait(Reason.BUDGET_EXHAUSTED)),
    Case(id="pending costs no budget", group=SPENT, phase="Pending", want=YES),
    Case(id="no controller", group=None, want=wait(Reason.NO_CONTROLLER)),
    Case(
        id="below the minimum",
        group=group_of(pods_of(1)),
        want=wait(Reason.BELOW_MIN_REPLICAS),
    ),
    Case(
        id="below the minimum, in place only",
        group=ONLY_IN_PLACE,
        want=wait(Reason.BELOW_MIN_REPLICAS),
    ),
    Case(id="pending, in place only", group=ONLY_IN_PLACE, phase="Pending", want=YES),
    Case(
        id="controller not found",
        group=group_of(pods_of(4), replicas=None),
        phase="Pending",
        want=wait(Reason.CONTROLLER_UNKNOWN),
    ),
    Case(
        id="a resize has time left",
        group=FULL,
        unfinished=wait(Reason.RESIZE_DEFERRED),
        want=wait(Reason.RESIZE_DEFERRED),
    ),
    Case(
        id="requirements not met",
        group=FULL,
        requirements=False,
        want=wait(Reason.REQUIREMENTS_NOT_MET),
    ),
    Case(
        id="admission not ready",
        group=FULL,
        admission=False,
        want=wait(Reason.ADMISSION_NOT_READY),
    ),
    Case(
        id="admission not ready, pending",
        group=FULL,
        phase="Pending",
        admission=False,
        want=wait(Reason.ADMISSION_NOT_READY),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_decide_eviction(case: Case) -> None:
    decision = decide_eviction(
        Reason.OUTSIDE_RANGE,
        pod(phase=case.phase),
        group=case.group,
        unfinished=case.unfinished,
        requirements_met=case.requirements,
        admission_ready=case.admission,
    )
    assert decision == case.want


@pytest.mark.parametrize(
    ("existing", "want"),
    [
        pytest.param(0, 2, id="unknown: half of the four with a node"),
        pytest.param(4, 2, id="four: half of them"),
        pytest.param(6, 1, id="six: two are unavailable, and three have to stay"),
        pytest.param(8, 0, id="eight: half of them are unavailable"),
    ],
)
def test_pods_of_a_job_without_a_node_count(existing: int, want: int) -> None:
    group = replica_group(
        Controller("default", "Job", "batch", "batch/v1"),
        pods_of(4),
        replicas=None,
        existing=existing,
        boosted=False,
        mode=UpdateMode.RECREATE,
        policy=DisruptionPolicy(),
    )
    assert permitted_disruptions(group.budget) == want


def test_the_desired_number_of_a_replica_set_is_that_of_its_spec() -> None:
    group = replica_group(
        WEB,
        pods_of(4),
        replicas=4,
        existing=6,
        boosted=False,
        mode=UpdateMode.RECREATE,
        policy=DisruptionPolicy(),
    )
    assert group.budget.configured == 4

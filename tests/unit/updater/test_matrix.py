"""Action and reason of a pass for one pod, by mode, state and budget, in tables like the spec's.

The tables are ``matrix.md``, and ``refusals.md`` for answers of the API server. Each cell is a
pass over its own VPA. ``web-0`` is the tested pod, far below its range; the other pods of its group
have their recommendation. ``-`` means that the pass makes no decision about the pod.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from builders import recommendation, vpa
from common.api.autoscaling import EvictionRequirement, UpdateMode, UpdatePolicy
from common.api.core import (
    Container,
    ContainerResizePolicy,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    PodCondition,
    PodStatus,
    ResourceRequirements,
)
from common.api.meta import ObjectMeta
from common.api.scheduling import SchedulablePodSpec
from common.errors import (
    BadRequestError,
    Cause,
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
)
from common.features import FeatureGates
from common.resources import parse_quantities
from fixed_clock import FixedClock
from updater.decision import Reason
from updater.eviction.disruption_budget import DisruptionPolicy
from updater.pass_context import Rules
from updater.resize.infeasible_resize import Infeasible, Part, Targets
from updater.snapshot.cluster_snapshot import AutoscaledPods, ClusterSnapshot
from updater.snapshot.live_node import LiveNode, NodeCapacity, NodeStatus
from updater.snapshot.live_pod import LivePod, LivePodMeta
from updater.snapshot.rollout import Rollout
from updater.state import NO_MEMORY, PodMemory, ResizeRefusal, SentResize, UpdaterState
from updater_harness import NOW, WEB, FakeActuator, run

LESS = {"cpu": "200m", "memory": "200Mi"}
OLD = {"cpu": "100m", "memory": "128Mi"}
TARGET = {"cpu": "250m", "memory": "256Mi"}
MORE = {"cpu": "500m", "memory": "512Mi"}


# 10.1 and 9: the states of a resize


@dataclass(frozen=True, kw_only=True)
class State:
    condition: PodCondition | None = None
    asked: Mapping[str, str] = field(default_factory=lambda: TARGET)  # in the spec
    has: Mapping[str, str] = field(default_factory=lambda: OLD)  # by the kubelet's report
    memory: PodMemory = NO_MEMORY
    killed_ago: timedelta | None = None  # an OOM kill
    node: Mapping[str, str] | None = None  # allocatable of the pod's node; None: not known
    lower: Mapping[str, str] = field(default_factory=lambda: TARGET)  # bound of the range


def pending(reason: str, *, minutes: float = 0) -> PodCondition:
    return _condition("PodResizePending", reason, minutes)


def progressing(reason: str = "", *, minutes: float) -> PodCondition:
    return _condition("PodResizeInProgress", reason, minutes)


def _condition(type: str, reason: str, minutes: float) -> PodCondition:
    since = NOW - timedelta(minutes=minutes)
    return PodCondition(type=type, status="True", reason=reason, last_transition_time=since)


def amounts(written: Mapping[str, str]) -> Targets:
    return {"app": parse_quantities(written)}


def replacement_memory(*, minutes: float) -> PodMemory:
    """Return the memory of a resize ``minutes`` ago that replaced one deferred for an hour."""
    sent = SentResize(
        at=NOW - timedelta(minutes=minutes),
        generation=1,
        resource_version="",
        restarts=False,
        pending_since=NOW - timedelta(hours=1),
    )
    return PodMemory(sent=sent)


def infeasible_memory(
    failed: Mapping[str, str],
    *,
    reported: bool,
    node: NodeCapacity | None = None,
    part: Part = Part.UNTRIED,
) -> PodMemory:
    infeasible = Infeasible(targets=amounts(failed), reported=reported, node=node, part=part)
    return PodMemory(infeasible=infeasible)


def refusal_memory(
    reason: Reason, asked: Mapping[str, str] = TARGET, node: NodeCapacity | None = None
) -> PodMemory:
    until = NOW + timedelta(seconds=1)
    refusal = ResizeRefusal(reason=reason, tries=1, until=until, targets=amounts(asked), node=node)
    return PodMemory(refusal=refusal)


def capacity(allocatable: Mapping[str, str], name: str = "node") -> NodeCapacity:
    return NodeCapacity(node=name, allocatable=parse_quantities(allocatable))


FULL = {"cpu": "200m", "memory": "1Gi"}  # too little CPU for TARGET, and enough memory
ROOMY = {"cpu": "4", "memory": "1Gi"}
LITTLE = {"cpu": "100m", "memory": "128Mi"}
ONE_LESS = {"cpu": "249m", "memory": "256Mi"}
ONE_MORE = {"cpu": "251m", "memory": "256Mi"}
PART = {"cpu": "200m", "memory": "256Mi"}  # the largest step on FULL
CPU, MORE_CPU = {"cpu": "250m"}, {"cpu": "500m"}


def killed_state(
    *,
    hours: float,
    cpu: str = "100m",
    memory: str = "512Mi",
    condition: PodCondition | None = None,
) -> State:
    has = {"cpu": cpu, "memory": memory}
    return State(condition=condition, asked=has, has=has, killed_ago=timedelta(hours=hours))


STATES = {
    "none": State(asked=OLD),
    "as wanted": State(),
    "Deferred 5 min": State(condition=pending("Deferred", minutes=5)),
    "Deferred longer": State(condition=pending("Deferred", minutes=5.1)),
    "InProgress 1 h": State(condition=progressing(minutes=60)),
    "InProgress longer": State(condition=progressing(minutes=60.1)),
    "Error 5 min": State(condition=progressing("Error", minutes=5)),
    "Error longer": State(condition=progressing("Error", minutes=5.1)),
    "Unknown 5 min": State(condition=pending("Newer", minutes=5)),
    "Unknown longer": State(condition=pending("Newer", minutes=5.1)),
    "Infeasible": State(condition=pending("Infeasible")),
    "Infeasible, less wanted": State(condition=pending("Infeasible"), asked=MORE),
    "Infeasible, stored": State(
        condition=pending("Infeasible"), memory=infeasible_memory(TARGET, reported=True)
    ),
    "Infeasible, stored, less wanted": State(
        condition=pending("Infeasible"), asked=MORE, memory=infeasible_memory(MORE, reported=True)
    ),
    "NodeCapacity stored": State(asked=OLD, memory=infeasible_memory(TARGET, reported=False)),
    "NodeCapacity stored, less wanted": State(
        asked=OLD, memory=infeasible_memory(MORE, reported=False)
    ),
    "NodeCapacity stored, more wanted": State(
        asked=OLD, memory=infeasible_memory(LESS, reported=False)
    ),
    "refused: quota": State(asked=OLD, memory=refusal_memory(Reason.QUOTA_EXCEEDED)),
    "refused: hiccup": State(asked=OLD, memory=refusal_memory(Reason.RESIZE_RETRY)),
    "refused: node": State(asked=OLD, memory=refusal_memory(Reason.RESIZE_INFEASIBLE)),
    "refused: node, less wanted": State(
        asked=OLD, memory=refusal_memory(Reason.RESIZE_INFEASIBLE, MORE)
    ),
    "refused: quota, less wanted": State(
        asked=OLD, memory=refusal_memory(Reason.QUOTA_EXCEEDED, MORE)
    ),
    "refused for good": State(asked=OLD, memory=refusal_memory(Reason.RESIZE_REFUSED)),
    # X100
    "Deferred 5 min, less wanted": State(condition=pending("Deferred", minutes=5), asked=MORE),
    "Deferred longer, less wanted": State(condition=pending("Deferred", minutes=5.1), asked=MORE),
    "Deferred longer, replaced before, less wanted": State(
        condition=pending("Deferred", minutes=5.1), asked=MORE, memory=replacement_memory(minutes=2)
    ),
    "Deferred longer, replaced too late, less wanted": State(
        condition=pending("Deferred", minutes=7), asked=MORE, memory=replacement_memory(minutes=0.9)
    ),
    "Deferred, a unit less wanted": State(condition=pending("Deferred"), asked=ONE_MORE),
    "Deferred, less wanted, refused": State(
        condition=pending("Deferred"), asked=MORE, memory=refusal_memory(Reason.RESIZE_REFUSED)
    ),
    "InProgress, less wanted": State(condition=progressing(minutes=1), asked=MORE),
    "Error, less wanted": State(condition=progressing("Error", minutes=1), asked=MORE),
    "Unknown, less wanted": State(condition=pending("Newer", minutes=1), asked=MORE),
    "settled, Deferred": State(condition=pending("Deferred"), asked=MORE, has=TARGET),
    "settled, Deferred to less": State(condition=pending("Deferred"), asked=LESS, has=TARGET),
    "settled, Infeasible": State(condition=pending("Infeasible"), asked=MORE, has=TARGET),
    "settled, Infeasible, stored": State(
        condition=pending("Infeasible"),
        asked=MORE,
        has=TARGET,
        memory=infeasible_memory(MORE, reported=True),
    ),
    "settled, withdrawn": State(condition=pending("Deferred"), has=TARGET),
    "settled, withdrawal refused": State(
        condition=pending("Deferred"),
        asked=MORE,
        has=TARGET,
        memory=refusal_memory(Reason.RESIZE_REFUSED),
    ),
    "settled but for a unit, Deferred": State(
        condition=pending("Deferred"), asked=MORE, has=ONE_LESS
    ),
    "settled, InProgress": State(condition=progressing(minutes=1), asked=MORE, has=TARGET),
    "close, Deferred": State(
        condition=pending("Deferred"), asked=MORE, has={**TARGET, "cpu": "240m"}, lower=OLD
    ),
    "close, Deferred to less": State(
        condition=pending("Deferred"), asked=LESS, has={**TARGET, "cpu": "240m"}, lower=OLD
    ),
    # X101
    "NodeCapacity stored, node as it was": State(
        asked=OLD,
        memory=infeasible_memory(TARGET, reported=False, node=capacity(LITTLE)),
        node=LITTLE,
    ),
    "NodeCapacity stored, node shrank": State(
        asked=OLD,
        memory=infeasible_memory(TARGET, reported=False, node=capacity(ROOMY)),
        node=LITTLE,
    ),
    "NodeCapacity stored, node grew": State(
        asked=OLD, memory=infeasible_memory(TARGET, reported=False, node=capacity(FULL)), node=ROOMY
    ),
    "NodeCapacity stored, another node": State(
        asked=OLD,
        memory=infeasible_memory(TARGET, reported=False, node=capacity(ROOMY, "old")),
        node=ROOMY,
    ),
    "NodeCapacity stored, node not known": State(
        asked=OLD, memory=infeasible_memory(TARGET, reported=False, node=capacity(ROOMY))
    ),
    "refused: node, node grew": State(
        asked=OLD, memory=refusal_memory(Reason.RESIZE_INFEASIBLE, node=capacity(FULL)), node=ROOMY
    ),
    "Infeasible, stored, node as it was": State(
        condition=pending("Infeasible"),
        memory=infeasible_memory(TARGET, reported=True, node=capacity(LITTLE)),
        node=LITTLE,
    ),
    "Infeasible, stored, node grew": State(
        condition=pending("Infeasible"),
        memory=infeasible_memory(TARGET, reported=True, node=capacity(FULL)),
        node=ROOMY,
    ),
    # X102
    "NodeCapacity stored, a part fits": State(
        asked=OLD, memory=infeasible_memory(TARGET, reported=False, node=capacity(FULL)), node=FULL
    ),
    "refused: node, a part fits": State(
        asked=OLD, memory=refusal_memory(Reason.RESIZE_INFEASIBLE, node=capacity(FULL)), node=FULL
    ),
    "Infeasible, stored, a part fits": State(
        condition=pending("Infeasible"),
        memory=infeasible_memory(TARGET, reported=True, node=capacity(FULL)),
        node=FULL,
    ),
    "the rest stored": State(
        asked=PART,
        has=PART,
        memory=infeasible_memory(CPU, reported=False, node=capacity(FULL), part=Part.SENT),
        node=FULL,
    ),
    "the rest stored, less wanted": State(
        asked=PART,
        has=PART,
        memory=infeasible_memory(MORE_CPU, reported=False, node=capacity(FULL), part=Part.SENT),
        node=FULL,
    ),
    "the rest stored, node grew": State(
        asked=PART,
        has=PART,
        memory=infeasible_memory(CPU, reported=False, node=capacity(FULL), part=Part.SENT),
        node=ROOMY,
    ),
    "a part refused": State(
        asked=OLD,
        memory=infeasible_memory(TARGET, reported=False, node=capacity(FULL), part=Part.REFUSED),
        node=FULL,
    ),
}

# 13, D36; rows with `any` exclude these
KILLED = {
    "OOM-killed, less memory wanted": killed_state(hours=1),
    "OOM-killed, less memory wanted, and Infeasible": killed_state(
        hours=1, condition=pending("Infeasible")
    ),
    "OOM-killed, nothing but less memory wanted": killed_state(hours=1, cpu="250m"),
    "OOM-killed a day ago, less memory wanted": killed_state(hours=24),
    "OOM-killed an hour ago, more memory wanted": killed_state(hours=1, memory="128Mi"),
}


LACKING = tuple(name for name in STATES if not name.startswith(("settled", "close")))


# 5 and 10.7: the budgets


@dataclass(frozen=True, kw_only=True)
class Budget:
    live: int = 3
    replicas: int | None = 3  # None: the controller is not found
    controlled: bool = True
    skip: bool = False  # --in-place-skip-disruption-budget
    restarts: bool = False  # resizePolicy RestartContainer for cpu
    phase: str = "Running"
    best_effort: bool = False  # no requests, so that a resize changes the QoS class
    requirements: bool = False  # evictionRequirements that don't hold
    admission: bool = True
    refuses: bool = False  # the API server refuses evictions
    rollout: Rollout | None = None  # in progress
    ready: bool = True


ROLLING = Rollout(replicas=3, max_unavailable=0)
RECREATING = Rollout(replicas=3, max_unavailable=0, recreates=True)
BUDGETS = {
    "open": Budget(),
    "open, RestartContainer": Budget(restarts=True),
    "exhausted": Budget(live=2),
    "exhausted, skip": Budget(live=2, skip=True),
    "exhausted, skip, RestartContainer": Budget(live=2, skip=True, restarts=True),
    "below minimum": Budget(live=1, replicas=1),
    "below minimum, skip": Budget(live=1, replicas=1, skip=True),
    "below minimum, skip, RestartContainer": Budget(live=1, replicas=1, skip=True, restarts=True),
    "Pending": Budget(phase="Pending"),
    "Pending, exhausted": Budget(phase="Pending", live=2),
    "Pending, below minimum": Budget(phase="Pending", live=1, replicas=1),
    "rollout": Budget(rollout=ROLLING),
    "rollout, RestartContainer": Budget(rollout=ROLLING, restarts=True),
    "rollout, not Ready": Budget(rollout=ROLLING, ready=False),
    "rollout, Pending": Budget(rollout=ROLLING, ready=False, phase="Pending"),
    "rollout, recreating": Budget(rollout=RECREATING),
    "rollout, recreating, Pending": Budget(rollout=RECREATING, ready=False, phase="Pending"),
    "QoS class would change": Budget(best_effort=True),
    "QoS class would change, exhausted": Budget(best_effort=True, live=2),
    "no controller": Budget(controlled=False),
    "controller not found": Budget(replicas=None),
    "requirements not met": Budget(requirements=True),
    "admission away": Budget(admission=False),
    "eviction refused": Budget(refuses=True),
}

# 2.1: the modes

MODES = {
    "Off": UpdateMode.OFF,
    "Initial": UpdateMode.INITIAL,
    "Recreate": UpdateMode.RECREATE,
    "Auto": UpdateMode.AUTO,
    "InPlaceOrRecreate": UpdateMode.IN_PLACE_OR_RECREATE,
    "InPlace": UpdateMode.IN_PLACE,
    "InPlace, gate off": UpdateMode.IN_PLACE,
}


@dataclass(frozen=True, kw_only=True)
class Case:
    section: str
    budget: str
    state: str
    mode: str
    want: str  # action and reason

    def __str__(self) -> str:
        return f"{self.section}-{self.mode}-{self.state}-{self.budget}"


def cases(text: str) -> Iterator[Case]:
    """Yield a case for each cell; the first two columns are the budget and the state."""
    section, modes = "", tuple[str, ...]()
    for line in text.splitlines():
        if line.startswith("## "):
            section, modes = line.removeprefix("## ").split()[0].rstrip(","), ()
        elif line.startswith("| "):
            budget, state, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            if not modes:
                modes = tuple(cells)
                continue
            for each in LACKING if state == "any" else (state,):
                for mode, want in zip(modes, cells, strict=True):
                    yield Case(section=section, budget=budget, state=each, mode=mode, want=want)


CASES = tuple(cases(Path(__file__).with_name("matrix.md").read_text(encoding="utf-8")))


def pod(name: str, state: State, budget: Budget) -> LivePod:
    policy = "RestartContainer" if budget.restarts else "NotRequired"
    asked = None if budget.best_effort else state.asked
    container = Container(
        name="app",
        resources=ResourceRequirements(requests=asked),
        resize_policy=(ContainerResizePolicy(resource_name="cpu", restart_policy=policy),),
    )
    has = asked if asked is None or state is GOOD else state.has
    status = ContainerStatus(
        name="app",
        resources=ResourceRequirements(requests=has),
        last_state=None if state.killed_ago is None else _oom_killed(NOW - state.killed_ago),
    )
    conditions = [PodCondition(type="Ready", status=str(budget.ready))]
    conditions += [] if state.condition is None else [state.condition]
    return LivePod(
        metadata=LivePodMeta(name=name, namespace="default", uid=f"uid-{name}", generation=1),
        spec=SchedulablePodSpec(containers=(container,), node_name="node"),
        status=PodStatus(
            phase=budget.phase,
            start_time=NOW,
            qos_class="BestEffort" if budget.best_effort else "Burstable",
            conditions=tuple(conditions),
            container_statuses=(status,),
        ),
    )


def _oom_killed(at: datetime) -> ContainerState:
    ended = ContainerStateTerminated(reason="OOMKilled", started_at=NOW, finished_at=at)
    return ContainerState(terminated=ended)


GOOD = State()  # has its recommendation


SHRINKS = EvictionRequirement(
    resources=("cpu", "memory"), change_requirement="TargetLowerThanRequests"
)


def node(allocatable: Mapping[str, str]) -> LiveNode:
    return LiveNode(metadata=ObjectMeta(name="node"), status=NodeStatus(allocatable=allocatable))


def cluster(state: State, budget: Budget, mode: UpdateMode) -> ClusterSnapshot:
    good = Budget()
    pods = [pod("web-0", state, budget)]
    pods += [pod(f"web-{number}", GOOD, good) for number in range(1, budget.live)]
    exactly = recommendation(target=TARGET, lower=state.lower, upper=TARGET)
    autoscaler = vpa(mode=mode.value, recommendations=(exactly,))
    if budget.requirements:
        policy = UpdatePolicy(update_mode=mode.value, eviction_requirements=(SHRINKS,))
        spec = msgspec.structs.replace(autoscaler.spec, update_policy=policy)
        autoscaler = msgspec.structs.replace(autoscaler, spec=spec)
    scaled = AutoscaledPods(
        vpa=autoscaler,
        mode=mode,
        pods=tuple(pods),
        controllers={each.metadata.uid: WEB for each in pods} if budget.controlled else {},
        replicas={WEB: budget.replicas},
        limit_ranges=(),
        rollouts={} if budget.rollout is None else {WEB: budget.rollout},
    )
    living = frozenset(each.metadata.uid for each in pods)
    nodes = {} if state.node is None else {"node": node(state.node)}
    return ClusterSnapshot(autoscaled=(scaled,), living=living, nodes=nodes)


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_matrix(case: Case) -> None:
    state, budget = (STATES | KILLED)[case.state], BUDGETS[case.budget]
    rules = Rules(
        disruption=DisruptionPolicy(in_place_skips_budget=budget.skip),
        features=FeatureGates(in_place=not case.mode.endswith("gate off")),
    )
    refused = {"web-0": TooManyRequestsError("a budget")} if budget.refuses else {}
    actuator = FakeActuator(eviction_errors=refused)
    after = await run(
        cluster(state, budget, MODES[case.mode]),
        actuator,
        state=UpdaterState({"uid-web-0": state.memory}),
        rules=rules,
        admission_ready=budget.admission,
    )
    decision = after.of("uid-web-0").decision
    decisions = "-" if decision is None else f"{decision.action.value} {decision.reason.value}"
    assert decisions == case.want
    verb = case.want.split()[0]
    assert actuator.resized == (["web-0"] if verb == "resize" else [])
    assert [name for name in actuator.evicted if name not in refused] == (
        ["web-0"] if verb == "evict" else []
    )


CAPACITY, PLATFORM = Cause(reason="NodeCapacity"), Cause(reason="UnsupportedPlatform")
ANSWERS: dict[str, KubeError] = {
    "403 NodeCapacity": ForbiddenError("no", reason="Forbidden", causes=(CAPACITY,)),
    "403 another cause": ForbiddenError("no", reason="Forbidden", causes=(PLATFORM,)),
    "403 exceeded quota": ForbiddenError("exceeded quota: shop", reason="Forbidden"),
    "403 RBAC": ForbiddenError("may not", reason="Forbidden"),
    "422": InvalidError("no", reason="Invalid"),
    "400": BadRequestError("admission webhook denied the request"),
    "404 without the subresource": NotFoundError("no such path", reason="NotFound"),
    "404 that names the pod": NotFoundError("no", reason="NotFound", kind="pods", name="web-0"),
    "401": UnauthorizedError("who?"),
    "409": ConflictError("stale"),
    "429": TooManyRequestsError("slow down"),
    "500": ServerError("trouble", status=500),
    "504": ServerError("time-out", status=504),
    "no answer": UnreachableError("away"),
}


def rows(text: str) -> Iterator[tuple[str, UpdateMode, str, str, int]]:
    """Yield answer, mode, decisions of the first and third pass, and resizes of all three."""
    for line in text.splitlines():
        answer, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        if answer in ANSWERS:
            for mode, at in ((UpdateMode.IN_PLACE_OR_RECREATE, 0), (UpdateMode.IN_PLACE, 3)):
                first, third, resizes = cells[at : at + 3]
                yield answer, mode, first, third, int(resizes)


REFUSALS = tuple(rows(Path(__file__).with_name("refusals.md").read_text(encoding="utf-8")))


@pytest.mark.parametrize(("answer", "mode", "first", "third", "resizes"), REFUSALS)
async def test_refusals(
    answer: str, mode: UpdateMode, first: str, third: str, resizes: int
) -> None:
    actuator, state, decisions = (
        FakeActuator(resize_errors={"web-0": ANSWERS[answer]}),
        UpdaterState(),
        [],
    )
    rules = Rules(features=FeatureGates(in_place=True), checks_outcomes=False)
    given = cluster(STATES["none"], BUDGETS["open"], mode)
    for number in range(3):
        clock = FixedClock(NOW + number * Rules().interval)
        state = await run(given, actuator, state=state, rules=rules, clock=clock)
        decision = state.of("uid-web-0").decision
        assert decision is not None
        decisions.append(f"{decision.action.value} {decision.reason.value}")
    assert (decisions[0], decisions[2]) == (first, third)
    assert actuator.resized == ["web-0"] * resizes
    assert actuator.evicted == (["web-0"] if third.startswith("evict") else [])


def test_every_answer_is_in_the_table() -> None:
    assert {row[0] for row in REFUSALS} == set(ANSWERS)
    assert len(REFUSALS) == 2 * len(ANSWERS)


def test_every_state_and_budget_is_in_the_table_and_no_cell_twice() -> None:
    keys = [(case.mode, case.state, case.budget) for case in CASES if case.section != "2.1"]
    assert len(keys) == len(set(keys))
    assert {case.state for case in CASES} == set(STATES) | set(KILLED)
    assert {case.budget for case in CASES} == set(BUDGETS)
    assert {case.mode for case in CASES} == set(MODES)


def test_mode_in_place_has_no_cell_with_an_eviction() -> None:
    assert not [case for case in CASES if case.mode == "InPlace" and "evict" in case.want]

"""Passes that look for room before evictions: who waits, who goes first, what is reported."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import NoReturn

import pytest
from msgspec import structs

from builders import container, pod, recommendation, vpa
from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.api.core import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    LimitRangeItem,
    LimitRangeSpec,
    Pod,
    PodCondition,
)
from common.api.scheduling import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from common.errors import KubeError, NotFoundError, ServerError, TooManyRequestsError
from common.quantity import QuantityError
from common.scheduling.room import Room, room_on
from common.target.owners import Controller
from fixed_clock import FixedClock
from live_specs import schedulable
from node_drafts import node, on_nodes
from random_cluster import RandomCluster, random_cluster
from updater.capacity.capacity_requests import (
    CapacityMode,
    CapacityRequest,
    CapacityRequests,
    RequestStage,
)
from updater.decision import Action, Decision, Reason
from updater.pass_context import Rules
from updater.plan.pod_outcome import EvictionSkipped, PodEvent
from updater.snapshot.cluster_snapshot import ClusterSnapshot
from updater.snapshot.live_node import LiveNode
from updater.snapshot.live_pod import LivePod, LivePodMeta
from updater.snapshot.node_rooms import room_taken_by
from updater.state import UpdaterState
from updater_harness import (
    HALF,
    NAMES,
    NOW,
    OPEN,
    WEB,
    FakeActuator,
    Present,
    RecordingActuator,
    preview,
    run,
    snapshot,
)

# The pods request 10m and 10Mi, their replacements 250m and 256Mi.
NEED = Room(250, 256 * 2**20, 1)
WAIT, PROVISION, OFF = CapacityMode.WAIT, CapacityMode.PROVISION, CapacityMode.OFF
ON_A = dict.fromkeys(NAMES, "a")
RECREATE, IN_PLACE_OR_RECREATE = UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE


def fleet(
    *nodes: LiveNode,
    mode: UpdateMode = RECREATE,
    names: Sequence[str] = NAMES,
    others: Sequence[LivePod] = (),
) -> ClusterSnapshot:
    """Return pods on node a, all far below their range."""
    return on_nodes(snapshot(mode, names=names), nodes, places=ON_A, others=others)


def changed(given: ClusterSnapshot, **fields: object) -> ClusterSnapshot:
    """Return the snapshot with changed pods."""
    (scaled,) = given.autoscaled
    pods = tuple(structs.replace(pod, **fields) for pod in scaled.pods)
    names = {"default": {pod.metadata.name: pod for pod in pods}}
    return replace(given, autoscaled=(replace(scaled, pods=pods),), pods=names)


def constrained(given: ClusterSnapshot, *rules: Mapping[str, object]) -> ClusterSnapshot:
    """Return the snapshot with scheduling rules in the specs of its pods on node a."""
    (scaled,) = given.autoscaled
    pods = tuple(
        structs.replace(pod, spec=structs.replace(pod.spec, node_name="a", **each))
        for pod, each in zip(scaled.pods, rules, strict=True)
    )
    names = {"default": {pod.metadata.name: pod for pod in pods}}
    return replace(given, autoscaled=(replace(scaled, pods=pods),), pods=names)


def neighbour(name: str, cpu: str, on: str) -> LivePod:
    ordinary = pod(name, containers=(container(requests={"cpu": cpu, "memory": "256Mi"}),))
    return LivePod(
        metadata=LivePodMeta(name=name, namespace="default", uid=f"uid-{name}"),
        spec=structs.replace(schedulable(ordinary.spec), node_name=on),
        status=ordinary.status,
    )


def reasons(plan: Mapping[str, Decision]) -> list[str]:
    return sorted(f"{each.action} {each.reason}" for each in plan.values())


EVICTED, HELD = "evict outside_range", "wait no_capacity"

# The room of node a for the five pods, with 50m in use; what happens to them in mode wait.
ROOM = [
    ("room for all beside the pods", [node("a")], 5, 0),
    ("room for the growth of three", [node("a", cpu="770m")], 3, 2),
    ("one millicore less", [node("a", cpu="769m")], 2, 3),
    ("room on another node for two", [node("a", cpu="50m"), node("b", cpu="500m")], 2, 3),
    ("no node has enough memory", [node("a", memory="100Mi")], 0, 5),
    ("another node isn't Ready", [node("a", cpu="50m"), node("b", ready=False)], 0, 5),
    ("another node is cordoned", [node("a", cpu="50m"), node("b", cordoned=True)], 0, 5),
    ("no node is known", [], 5, 0),
]


@pytest.mark.parametrize(
    ("nodes", "evicted", "held"), [pytest.param(*case, id=name) for name, *case in ROOM]
)
async def test_pods_without_room_wait(nodes: Sequence[LiveNode], evicted: int, held: int) -> None:
    plan = await preview(fleet(*nodes), capacity=WAIT)
    assert reasons(plan) == [EVICTED] * evicted + [HELD] * held


@pytest.mark.parametrize("mode", [WAIT, PROVISION])
async def test_pods_wait_while_the_nodes_are_not_listed_yet(mode: CapacityMode) -> None:
    plan = await preview(fleet(), capacity=mode, awaits_nodes=True)
    assert reasons(plan) == [HELD] * 5
    assert {each.detail for each in plan.values()} == {"the updater has not listed the nodes yet"}


async def test_without_the_check_pods_are_evicted_without_room() -> None:
    plan = await preview(fleet(node("a", cpu="50m")), capacity=OFF)
    assert reasons(plan) == [EVICTED] * 5


def as_daemons(given: ClusterSnapshot) -> ClusterSnapshot:
    """Return the snapshot with the affinity that the DaemonSet controller gives its pods."""
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=("a",))
    terms = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field,)),))
    affinity = Affinity(
        node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=terms)
    )
    return constrained(given, *[{"affinity": affinity}] * 5)


async def test_pods_of_daemon_sets_need_room_on_their_own_node() -> None:
    given = as_daemons(fleet(node("a", cpu="300m"), node("b", cpu="9")))
    assert reasons(await preview(given, capacity=WAIT)) == [EVICTED] + [HELD] * 4


async def test_no_capacity_is_requested_for_daemon_sets_which_another_node_would_not_help() -> None:
    given = as_daemons(fleet(node("a", cpu="20m")))
    assert reasons(await preview(given, capacity=PROVISION)) == [HELD] * 5
    state = await run(given, FakeActuator(), rules=OPEN, capacity=PROVISION)
    assert state.demands == {}


async def test_the_numbers_are_those_of_the_node_that_lacks_least() -> None:
    given = fleet(
        node("a", cpu="50m"), node("b", cpu="200m"), node("c", cpu="100m"), names=NAMES[:2]
    )
    plan = await preview(given, capacity=WAIT)
    assert {each.detail for each in plan.values()} == {
        (
            "the replacement needs cpu 250m and memory 256Mi; of 3 eligible nodes, b has most "
            "room: cpu 200m and memory 8Gi free"
        )
    }


async def test_a_pod_without_room_uses_no_budget() -> None:
    """The first two fit nowhere, and the budget of two is left for others."""
    given = fleet(node("a", cpu="50m"), node("b", cpu="9", disk="ssd"))
    selectors = [{"node_selector": {"disk": disk}} for disk in ("hdd", "hdd", *["ssd"] * 3)]
    given = constrained(given, *selectors)
    plan = await preview(given, rules=HALF, capacity=WAIT)
    assert [plan[f"uid-{name}"].reason.value for name in NAMES] == [
        *("no_capacity", "no_capacity", "outside_range", "outside_range", "budget_exhausted")
    ]


# OOM kills

SINCE = [
    ("just now", timedelta(0), "300Mi", True),
    ("an hour ago", timedelta(hours=1), "300Mi", True),
    ("more than an hour ago", timedelta(hours=1, seconds=1), "300Mi", False),
    ("now, and the target isn't higher", timedelta(0), "10Mi", False),
]


@pytest.mark.parametrize(
    ("ago", "memory", "evicted"), [pytest.param(*case, id=name) for name, *case in SINCE]
)
@pytest.mark.parametrize("mode", [WAIT, PROVISION])
async def test_a_pod_that_is_out_of_memory_is_evicted_without_room(
    ago: timedelta, memory: str, *, evicted: bool, mode: CapacityMode
) -> None:
    killed = ContainerStateTerminated(
        reason="OOMKilled", started_at=NOW - timedelta(hours=5), finished_at=NOW - ago
    )
    status = ContainerStatus(name="app", last_state=ContainerState(terminated=killed))
    given = fleet(node("a", cpu="20m"), names=NAMES[:2])
    (scaled,) = given.autoscaled
    advice = recommendation(
        target={"cpu": "250m", "memory": memory}, lower={"cpu": "200m"}, upper={"cpu": "300m"}
    )
    before = structs.replace(scaled.pods[0].status, container_statuses=(status,))
    given = changed(given, status=before)
    scaled = replace(given.autoscaled[0], vpa=vpa(mode="Recreate", recommendations=(advice,)))
    plan = await preview(replace(given, autoscaled=(scaled,)), capacity=mode)
    decision = plan["uid-web-0"]
    learnt = decision.reason is not Reason.OOM_NOT_LEARNT_YET
    assert (decision.action is Action.EVICT) is evicted
    assert learnt or memory == "10Mi"


# Deferred resizes


def deferred(since: timedelta) -> PodCondition:
    return PodCondition(
        type="PodResizePending", status="True", reason="Deferred", last_transition_time=NOW - since
    )


@pytest.mark.parametrize(
    ("since", "cpu", "reason"),
    [
        pytest.param(timedelta(minutes=4), "20m", "resize_deferred", id="before the time-out"),
        pytest.param(timedelta(minutes=6), "20m", "no_capacity", id="after it, without room"),
        pytest.param(timedelta(minutes=6), "9", "resize_deferred_too_long", id="after it, with"),
    ],
)
async def test_a_deferred_resize_leads_to_an_eviction_if_there_is_room(
    since: timedelta, cpu: str, reason: str
) -> None:
    given = fleet(node("a", cpu="20m"), node("b", cpu=cpu), mode=IN_PLACE_OR_RECREATE)
    (scaled,) = given.autoscaled
    status = structs.replace(scaled.pods[0].status, conditions=(deferred(since),))
    wanted = container(requests={"cpu": "250m", "memory": "256Mi"})
    actual = container(requests={"cpu": "10m", "memory": "10Mi"}).resources
    reported = (ContainerStatus(name="app", resources=actual, allocated_resources=None),)
    given = changed(
        given,
        status=structs.replace(status, container_statuses=reported),
        spec=structs.replace(scaled.pods[0].spec, containers=(wanted,)),
    )
    plan = await preview(given, capacity=WAIT)
    assert {each.reason.value for each in plan.values()} == {reason}


# Requests for capacity

WORKLOAD = WEB
LATER = NOW + timedelta(minutes=7)


def requests(stage: RequestStage, message: str = "") -> CapacityRequests:
    request = CapacityRequest(stage=stage, until=LATER, name="vpa-web-1", message=message)
    return CapacityRequests(by_workload={WORKLOAD: request})


TOO_MUCH = (
    "the replacement needs cpu 250m and memory 256Mi; of 1 eligible node, a has most room: cpu "
    "10m and memory 8182Mi free"
)
STAGES = [
    ("no request yet", CapacityRequests(), "capacity_requested", NOW + timedelta(minutes=10), ""),
    (
        "requested",
        requests(RequestStage.REQUESTED),
        "capacity_requested",
        LATER,
        "; it is requested by vpa-web-1",
    ),
    (
        "timed out",
        requests(RequestStage.TIMED_OUT),
        "capacity_refused",
        LATER,
        "; none came in time after the request by vpa-web-1",
    ),
    (
        "refused",
        requests(RequestStage.REFUSED, "quota of nodes reached"),
        "capacity_refused",
        LATER,
        "; the request by vpa-web-1 was refused: quota of nodes reached",
    ),
    (
        "not available for the workload",
        requests(RequestStage.UNAVAILABLE, "it is forbidden"),
        "no_capacity",
        None,
        "; more can't be requested: it is forbidden",
    ),
    (
        "postponed",
        CapacityRequests(postponed={WEB: "10 requests for other workloads are under way"}),
        "no_capacity",
        None,
        "; 10 requests for other workloads are under way",
    ),
    (
        "a request for another workload",
        CapacityRequests(
            by_workload={replace(WEB, name="db"): requests(RequestStage.REFUSED).by_workload[WEB]}
        ),
        "capacity_requested",
        NOW + timedelta(minutes=10),
        "",
    ),
]


@pytest.mark.parametrize(
    ("given", "reason", "until", "said"), [pytest.param(*case, id=name) for name, *case in STAGES]
)
async def test_pods_wait_for_requested_capacity(
    given: CapacityRequests, reason: str, until: object, said: str
) -> None:
    pods = fleet(node("a", cpu="20m"), names=NAMES[:2])
    decision = (await preview(pods, capacity=PROVISION, requests=given))["uid-web-0"]
    assert (decision.action, decision.reason.value, decision.until) == (Action.WAIT, reason, until)
    assert decision.detail == f"{TOO_MUCH}{said}"


FALLBACK = [
    ("wait: it is tried again later", WAIT, RequestStage.UNAVAILABLE, HELD, 2),
    ("off: an autoscaler acts on Pending pods", OFF, RequestStage.UNAVAILABLE, EVICTED, 0),
    ("a refusal is no cause", OFF, RequestStage.REFUSED, "wait capacity_refused", 2),
]


@pytest.mark.parametrize(
    ("fallback", "stage", "reason", "demanded"),
    [pytest.param(*case, id=name) for name, *case in FALLBACK],
)
async def test_workloads_for_which_none_is_available_are_handled_as_without_requests(
    fallback: CapacityMode, stage: RequestStage, reason: str, demanded: int
) -> None:
    given, found = fleet(node("a", cpu="20m"), names=NAMES[:2]), requests(stage)
    plan = await preview(given, capacity=PROVISION, requests=found, fallback=fallback)
    assert reasons(plan) == [reason] * 2
    state = await run(given, FakeActuator(), capacity=PROVISION, requests=found, fallback=fallback)
    assert [each.count for (each,) in state.demands.values()] == [demanded] * bool(demanded)


@pytest.mark.parametrize(
    ("rules", "cpu", "count"),
    [
        pytest.param(OPEN, "20m", 5, id="all that lack room"),
        pytest.param(OPEN, "770m", 2, id="those that lack room beside the others"),
        pytest.param(HALF, "20m", 2, id="no more than the budget allows"),
        pytest.param(HALF, "290m", 1, id="no more than the budget allows beside an eviction"),
        pytest.param(replace(OPEN, checks_outcomes=True), "20m", 3, id="three for the breaker"),
    ],
)
async def test_a_demand_counts_what_would_be_evicted_if_there_was_room(
    rules: Rules, cpu: str, count: int
) -> None:
    given = fleet(node("a", cpu=cpu))
    state = await run(given, FakeActuator(), rules=rules, capacity=PROVISION)
    ((demand,),) = state.demands.values()
    assert (demand.workload, demand.need, demand.count) == (WEB, NEED, count)
    assert (demand.vpa_name, demand.pod[:4]) == ("web", "web-")
    assert demand.spec.containers[0].resources is not None
    assert state.waits_for_room


async def test_without_a_pod_that_waits_there_is_no_demand() -> None:
    state = await run(fleet(node("a")), RecordingActuator(), capacity=PROVISION)
    assert (state.demands, state.waits_for_room) == ({}, False)


async def test_demands_of_vpas_that_a_pass_did_not_reach_stay() -> None:
    given = fleet(node("a", cpu="20m"))
    state = await run(given, FakeActuator(), capacity=PROVISION)
    present = Present(fresh=False)
    stale = await run(given, FakeActuator(), state=state, capacity=PROVISION, present=present)
    assert stale.demands == state.demands


REFUSALS = [
    ("a PodDisruptionBudget", TooManyRequestsError("no disruption is allowed"), {WEB}),
    ("a failure, as with two PodDisruptionBudgets", ServerError("more than one"), {WEB}),
    ("the pod is gone", NotFoundError("not found"), set()),
]


@pytest.mark.parametrize(
    ("error", "refused"), [pytest.param(*case, id=name) for name, *case in REFUSALS]
)
async def test_workloads_with_refused_evictions_are_remembered_for_a_pass(
    error: KubeError, refused: set[Controller]
) -> None:
    given = fleet(node("a"), names=NAMES[:2])
    protected = FakeActuator(eviction_errors=dict.fromkeys(NAMES, error))
    state = await run(given, protected, capacity=PROVISION)
    assert state.refused_evictions == refused
    state = await run(given, FakeActuator(), state=state, capacity=PROVISION)
    assert not state.refused_evictions


async def test_a_refusal_before_any_room_is_looked_for_is_not_one_with_room() -> None:
    given = fleet(node("a"), names=NAMES[:2])
    (scaled,) = given.autoscaled
    narrow = LimitRangeSpec(limits=(LimitRangeItem(type="Container", max={"cpu": "20m"}),))
    given = replace(given, autoscaled=(replace(scaled, limit_ranges=(narrow,)),))
    state = await run(given, FakeActuator(), capacity=PROVISION)
    decisions = [state.of(f"uid-{name}").decision for name in NAMES[:2]]
    assert decisions == [Decision(Action.WAIT, Reason.REPLACEMENT_WOULD_BE_REFUSED)] * 2
    assert not state.refused_evictions


# Reports


@dataclass(slots=True)
class Reporting(RecordingActuator):
    """An actuator that keeps the Events."""

    events: list[PodEvent] = field(default_factory=list)

    def report(self, pod: Pod, vpa: VerticalPodAutoscaler, event: PodEvent) -> None:
        self.events.append(event)


async def test_a_wait_is_reported_once() -> None:
    given, actuator = fleet(node("a", cpu="20m"), names=NAMES[:2]), Reporting()
    state = UpdaterState()
    for _ in range(3):
        state = await run(given, actuator, state=state, capacity=WAIT)
    assert [type(event) for event in actuator.events] == [EvictionSkipped] * 2
    assert actuator.calls == []


async def test_the_remembered_numbers_are_those_of_the_last_pass() -> None:
    actuator = RecordingActuator()
    state = UpdaterState()
    for cpu in ("20m", "21m"):
        given = fleet(node("a", cpu=cpu), names=NAMES[:2])
        state = await run(given, actuator, state=state, capacity=WAIT)
    decision = state.of("uid-web-0").decision
    assert decision is not None
    assert "cpu 11m and memory" in decision.detail


# Several passes


def after_evictions(given: ClusterSnapshot, *, gone: int, new: int) -> ClusterSnapshot:
    """Return the snapshot without the first pods, and with new ones on node b."""
    (scaled,) = given.autoscaled
    kept = scaled.pods[gone:]
    made = tuple(
        structs.replace(
            neighbour(f"web-new-{number}", "250m", "b"),
            metadata=LivePodMeta(
                name=f"web-new-{number}", namespace="default", uid=f"uid-web-new-{number}"
            ),
        )
        for number in range(new)
    )
    pods = (*kept, *made)
    scaled = replace(scaled, pods=pods, controllers={each.metadata.uid: WEB for each in pods})
    return replace(
        given,
        autoscaled=(scaled,),
        living=frozenset(each.metadata.uid for each in pods),
        pods={"default": {each.metadata.name: each for each in pods}},
    )


FOLLOWING = [
    ("the evicted pods are still there", 0, 0, timedelta(seconds=30), 0),
    ("they are gone, without replacements", 2, 0, timedelta(seconds=30), 0),
    ("one replacement is on a node", 2, 1, timedelta(seconds=30), 0),
    ("both replacements are on a node", 2, 2, timedelta(seconds=30), 0),
    ("no replacement within ten minutes", 2, 0, timedelta(minutes=10), 2),
    ("just before ten minutes", 2, 0, timedelta(minutes=9, seconds=59), 0),
]


@pytest.mark.parametrize(
    ("gone", "new", "later", "evicted"), [pytest.param(*case, id=name) for name, *case in FOLLOWING]
)
async def test_room_is_kept_until_replacements_are_on_a_node(
    gone: int, new: int, later: timedelta, evicted: int
) -> None:
    """Node b has room for two, and none of the pods of node a grows in its place."""
    given = fleet(node("a", cpu="50m"), node("b", cpu="500m"))
    first, second = RecordingActuator(), RecordingActuator()
    state = await run(given, first, capacity=WAIT)
    assert len([call for call in first.calls if call[0] == "evict"]) == 2
    given = after_evictions(given, gone=gone, new=new)
    await run(given, second, state=state, capacity=WAIT, clock=FixedClock(NOW + later))
    assert len([call for call in second.calls if call[0] == "evict"]) == evicted


async def test_more_room_ends_the_wait() -> None:
    full, free = fleet(node("a", cpu="50m")), fleet(node("a", cpu="50m"), node("b", cpu="9"))
    actuator = RecordingActuator()
    state = await run(full, actuator, capacity=WAIT)
    assert state.waits_for_room
    state = await run(free, actuator, state=state, capacity=WAIT)
    assert len([call for call in actuator.calls if call[0] == "evict"]) == 5
    assert not state.waits_for_room


# What is measured


class Unread(dict[str, Mapping[str, LivePod]]):
    """Pods of a snapshot that nothing may read."""

    def values(self) -> NoReturn:
        raise AssertionError


async def test_room_is_not_measured_without_an_eviction() -> None:
    given = fleet(node("a"))
    (scaled,) = given.autoscaled
    closed = replace(scaled, replicas={WEB: None})
    unread = replace(given, autoscaled=(closed,), pods=Unread(given.pods))
    plan = await preview(unread, capacity=WAIT)
    assert {each.reason for each in plan.values()} == {Reason.CONTROLLER_UNKNOWN}


async def test_vpas_share_the_room() -> None:
    given = fleet(node("a", cpu="50m"), node("b", cpu="500m"))
    (scaled,) = given.autoscaled
    name = structs.replace(scaled.vpa.metadata, name="other", uid="uid-other")
    other = replace(scaled, vpa=structs.replace(scaled.vpa, metadata=name))
    both = (
        replace(scaled, pods=scaled.pods[:2], replicas={WEB: 2}),
        replace(other, pods=scaled.pods[2:], replicas={WEB: 3}),
    )
    given = replace(given, autoscaled=both)
    assert reasons(await preview(given, capacity=WAIT)) == [EVICTED] * 2 + [HELD] * 3


# Random clusters


def with_rooms(given: RandomCluster, seed: int) -> RandomCluster:
    """Return the cluster with its pods spread over nodes of random sizes."""
    stream = Random(f"rooms {seed}")
    names = [f"node-{number}" for number in range(stream.randint(1, 3))]
    nodes = [
        node(name, cpu=stream.choice(("200m", "500m", "1", "4")), memory="4Gi", pods="12")
        for name in names
    ]
    pods = [each.metadata.name for scaled in given.snapshot.autoscaled for each in scaled.pods]
    places = {name: stream.choice(names) for name in pods}
    return replace(given, snapshot=on_nodes(given.snapshot, nodes, places=places))


def overfilled(given: ClusterSnapshot, state: UpdaterState) -> list[str]:
    """Return nodes on which replacements have less room than they need.

    A pod that is evicted frees its place for its own replacement alone.
    """
    found = []
    for name, live in given.nodes.items():
        reserved = {
            uid: each.room.need
            for uid, each in state.reservations.items()
            if each.room.node == name
        }
        cpu = sum(each.cpu for each in reserved.values())
        memory = sum(each.memory for each in reserved.values())
        capacity = room_on(live.status.allocatable)
        for pods in given.pods.values():
            for each in pods.values():
                if each.node_name == name and each.metadata.uid not in reserved:
                    try:
                        taken = room_taken_by(each)
                    except QuantityError:
                        continue
                    cpu, memory = cpu + taken.cpu, memory + taken.memory
        if reserved and (cpu > capacity.cpu or memory > capacity.memory):
            found.append(name)
    return found


@pytest.mark.parametrize("seed", range(150))
@pytest.mark.parametrize("mode", [WAIT, PROVISION])
async def test_no_eviction_without_room(seed: int, mode: CapacityMode) -> None:
    """Each pod is evicted as planned, and only with room for its replacement or after a kill."""
    given = with_rooms(random_cluster(seed, now=NOW), seed)
    plan = await preview(
        given.snapshot,
        given.state,
        rules=given.rules,
        admission_ready=given.admission_ready,
        capacity=mode,
    )
    actuator = RecordingActuator()
    state = await run(
        given.snapshot,
        actuator,
        state=given.state,
        rules=given.rules,
        admission_ready=given.admission_ready,
        capacity=mode,
    )
    evicted = {str(call[1]) for call in actuator.calls if call[0] == "evict"}
    assert evicted == {uid for uid, each in plan.items() if each.action is Action.EVICT}
    killed = {
        pod.metadata.uid
        for scaled in given.snapshot.autoscaled
        for pod in scaled.pods
        if any(each.last_state is not None for each in pod.status.container_statuses or ())
    }
    assert evicted - killed <= state.reservations.keys()
    assert overfilled(given.snapshot, state) == []
    if mode is PROVISION:
        waiting = {each.reason for each in plan.values() if each.is_about_room}
        assert bool(state.demands) is bool(waiting)
        assert waiting <= {Reason.CAPACITY_REQUESTED}


async def test_the_random_clusters_have_pods_with_and_without_room() -> None:
    seen = set()
    for seed in range(50):
        given = with_rooms(random_cluster(seed, now=NOW), seed)
        plan = await preview(given.snapshot, given.state, rules=given.rules, capacity=WAIT)
        seen |= {each.reason for each in plan.values()}
    assert {Reason.NO_CAPACITY, Reason.OUTSIDE_RANGE, Reason.OOMED_QUICKLY} <= seen

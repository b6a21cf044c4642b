"""Resizes in steps over several passes: room on the node (X138), and memory limits (X139, X140)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from builders import recommendation, vpa
from common.api.autoscaling import EvictionRequirement, UpdateMode, UpdatePolicy
from common.api.core import (
    Container,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    LimitRangeItem,
    LimitRangeSpec,
    Pod,
    PodCondition,
    PodStatus,
    ResourceRequirements,
)
from common.api.meta import ObjectMeta
from common.api.scheduling import SchedulablePodSpec
from common.features import FeatureGates
from common.patches import Operation
from common.quantity import Quantity
from common.recommendation.expected_pod import resized_spec
from common.resources import parse_quantities
from fixed_clock import FixedClock
from live_specs import schedulable
from updater.decision import Decision, Reason, evict, leave, resize, wait
from updater.eviction.disruption_budget import DisruptionPolicy
from updater.pass_context import Rules
from updater.resize.memory_decrease import WINDOW, MemoryFloor, MemoryUse
from updater.resize.resize_rooms import ResizeRooms
from updater.snapshot.cluster_snapshot import AutoscaledPods, ClusterSnapshot
from updater.snapshot.live_node import LiveNode, NodeStatus
from updater.snapshot.live_pod import LivePod, LivePodMeta
from updater.state import UpdaterState
from updater_harness import NOW, WEB, RecordingActuator, preview, run

Amounts = Mapping[str, str]

IN_PLACE, OR_RECREATE = UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE
RULES = Rules(
    features=FeatureGates(in_place=True),
    checks_outcomes=False,
    disruption=DisruptionPolicy(min_replicas=1, tolerance_fraction=1.0),
)
STARTED = NOW - timedelta(hours=1)
DEFERRED = PodCondition(
    type="PodResizePending", status="True", reason="Deferred", last_transition_time=NOW
)

FAILED = PodCondition(
    type="PodResizeInProgress", status="True", reason="Error", last_transition_time=NOW
)


def live_pod(
    name: str,
    *,
    asks: Amounts,
    has: Amounts | None = None,
    limits: tuple[Amounts, Amounts] | None = None,
    condition: PodCondition | None = None,
    killed_at: datetime | None = None,
    generation: int = 1,
) -> LivePod:
    """Return a pod; ``limits`` are those of spec and status."""
    spec_limits, status_limits = limits or (None, None)
    has = asks if has is None else has
    ended = None
    if killed_at is not None:
        killed = ContainerStateTerminated(
            reason="OOMKilled", started_at=STARTED, finished_at=killed_at
        )
        ended = ContainerState(terminated=killed)
    return LivePod(
        metadata=LivePodMeta(
            name=name, namespace="default", uid=f"uid-{name}", generation=generation
        ),
        spec=SchedulablePodSpec(
            containers=(
                Container(
                    name="app", resources=ResourceRequirements(requests=asks, limits=spec_limits)
                ),
            ),
            node_name="node",
        ),
        status=PodStatus(
            phase="Running",
            start_time=STARTED,
            qos_class="Burstable",
            conditions=None if condition is None else (condition,),
            container_statuses=(
                ContainerStatus(
                    name="app",
                    resources=ResourceRequirements(requests=has, limits=status_limits),
                    allocated_resources=has,
                    last_state=ended,
                ),
            ),
        ),
    )


@dataclass(slots=True)
class OneNode:
    """Pods of a VPA on one node, beside a pod without a VPA, and an updater.

    The kubelet grants a resize if the pod fits beside the others, and defers it otherwise. It
    reports an error while a new memory limit is below the usage that follows the first resize.
    """

    mode: UpdateMode
    target: Amounts
    pods: dict[str, LivePod]
    node: Amounts
    other: Amounts = field(default_factory=lambda: {"cpu": "0"})
    upper: Amounts | None = None  # bound of the range; None: the target
    log_target: Amounts = field(default_factory=dict)  # of a second container, always in its range
    evicts: bool = True
    most_memory: str = ""  # maximum of the namespace's LimitRange
    default_memory: str = ""  # limit of the namespace's LimitRange
    rules: Rules = RULES
    use: dict[str, int] = field(default_factory=dict)  # bytes, by pod
    grows: dict[str, int] = field(default_factory=dict)  # usage after the first resize
    passes: int = 0
    state: UpdaterState = field(default_factory=UpdaterState)
    sent: list[tuple[str, ...]] = field(default_factory=list)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)  # of the last pass

    @property
    def now(self) -> datetime:
        return NOW + self.passes * RULES.interval

    def snapshot(self) -> ClusterSnapshot:
        bounds = recommendation(
            target=self.target, lower=self.target, upper=self.upper or self.target
        )
        if self.upper is not None:
            bounds = msgspec.structs.replace(bounds, lower_bound={"cpu": "1m", "memory": "1Mi"})
        beside = recommendation("log", target=self.log_target, upper={"cpu": "1", "memory": "1Gi"})
        autoscaler = vpa(mode=self.mode.value, recommendations=(bounds, beside))
        if not self.evicts:
            lower = EvictionRequirement(
                resources=("cpu",), change_requirement="TargetLowerThanRequests"
            )
            policy = UpdatePolicy(update_mode=self.mode.value, eviction_requirements=(lower,))
            spec = msgspec.structs.replace(autoscaler.spec, update_policy=policy)
            autoscaler = msgspec.structs.replace(autoscaler, spec=spec)
        pods = tuple(self.pods.values())
        limits = LimitRangeItem(
            type="Container",
            max={"memory": self.most_memory} if self.most_memory else None,
            default={"memory": self.default_memory} if self.default_memory else None,
        )
        scaled = AutoscaledPods(
            vpa=autoscaler,
            mode=self.mode,
            pods=pods,
            controllers={each.metadata.uid: WEB for each in pods},
            replicas={WEB: len(pods)},
            limit_ranges=(LimitRangeSpec(limits=(limits,)),),
        )
        status = NodeStatus(allocatable=self.node)
        others = live_pod("other", asks=self.other)
        return ClusterSnapshot(
            autoscaled=(scaled,),
            living=frozenset(each.metadata.uid for each in pods),
            nodes={"node": LiveNode(metadata=ObjectMeta(name="node"), status=status)},
            pods={"default": {**self.pods, "other": others}},
        )

    async def run(self, times: int = 1) -> Decision:
        """Run passes, after each of which the kubelet acts; return the first pod's decision."""
        for _ in range(times):
            actuator, self.registry = RecordingActuator(), CollectorRegistry()
            used = {
                f"uid-{name}": {
                    "app": MemoryUse(most=count, oldest=self.now - WINDOW, newest=self.now)
                }
                for name, count in self.use.items()
            }
            self.state = await run(
                self.snapshot(),
                actuator,
                state=self.state,
                rules=self.rules,
                clock=FixedClock(self.now),
                memory_use=used,
                registry=self.registry,
            )
            for call in actuator.calls:
                if call[0] == "resize":
                    self._resize(str(call[1]), cast("Sequence[Operation]", call[3]))
                elif call[0] == "evict":
                    self.sent.append(("evict", str(call[1]).removeprefix("uid-")))
            self._settle()
            self.passes += 1
        first = next(iter(self.pods.values()))
        decision = self.state.of(first.metadata.uid).decision
        assert decision is not None
        return decision

    def _resize(self, uid: str, operations: Sequence[Operation]) -> None:
        name = uid.removeprefix("uid-")
        pod = self.pods[name]
        spec = schedulable(resized_spec(pod.spec, operations, ()))
        assert pod.spec != spec
        resources = spec.containers[0].resources
        assert resources is not None
        wanted = resources.limits or resources.requests
        self.sent.append((name, *(f"{key} {value}" for key, value in (wanted or {}).items())))
        meta = msgspec.structs.replace(pod.metadata, generation=pod.metadata.generation + 1)
        memory = self.state.pods[uid]
        assert memory.sent is not None
        after = replace(memory, sent=replace(memory.sent, generation=meta.generation))
        self.state = replace(self.state, pods={**self.state.pods, uid: after})
        self.pods[name] = msgspec.structs.replace(pod, metadata=meta, spec=spec)

    def _settle(self) -> None:
        if self.sent:
            self.use |= self.grows
        for name, pod in self.pods.items():
            statuses = pod.status.container_statuses
            asks = [each.resources or ResourceRequirements() for each in pod.spec.containers]
            limit = (asks[0].limits or {}).get("memory")
            if self.grows and limit and Quantity.parse(str(limit)).value < self.use[name]:
                (status,) = statuses or ()
                assert status.resources is not None
                granted = msgspec.structs.replace(status.resources, requests=asks[0].requests)
                statuses = (
                    msgspec.structs.replace(
                        status, resources=granted, allocated_resources=asks[0].requests
                    ),
                )
                conditions = (FAILED,)
            elif self._fits(name, [each.requests or {} for each in asks]):
                statuses = tuple(
                    msgspec.structs.replace(
                        status, resources=each, allocated_resources=each.requests
                    )
                    for status, each in zip(statuses or (), asks, strict=True)
                )
                conditions = None
            else:
                since = next(iter(pod.status.conditions or ()), None)
                at = self.now if since is None else since.last_transition_time
                conditions = (msgspec.structs.replace(DEFERRED, last_transition_time=at),)
            after = msgspec.structs.replace(
                pod.status, container_statuses=statuses, conditions=conditions
            )
            self.pods[name] = msgspec.structs.replace(pod, status=after)

    def _fits(self, name: str, asks: Sequence[Mapping[str, object]]) -> bool:
        """Return whether the node has room for what the pod asks for."""
        granted = [
            status.allocated_resources or {}
            for other, pod in self.pods.items()
            if other != name
            for status in pod.status.container_statuses or ()
        ]
        every = [*granted, self.other, *asks]
        return all(
            sum(Quantity.parse(str(each.get(resource, 0))).milli for each in every)
            <= Quantity.parse(amount).milli
            for resource, amount in self.node.items()
        )


def pods(*names: str, cpu: str = "100m") -> dict[str, LivePod]:
    return {name: live_pod(name, asks={"cpu": cpu}) for name in names}


# X138


@pytest.mark.parametrize("mode", [IN_PLACE, OR_RECREATE])
async def test_a_deferred_resize_becomes_a_step_and_the_rest_follows_when_a_neighbour_shrinks(
    mode: UpdateMode,
) -> None:
    cluster = OneNode(mode, {"cpu": "600m"}, pods("web-0"), {"cpu": "1"}, {"cpu": "600m"})
    assert await cluster.run() == resize(Reason.OUTSIDE_RANGE)
    stepped = await cluster.run()
    assert stepped == resize(Reason.RESIZE_PARTIAL)
    assert stepped.detail == (
        "container app: cpu 400m of 600m now, 200m more when the node has room"
    )
    waiting = await cluster.run(2)
    assert waiting == wait(Reason.RESIZE_DEFERRED)
    assert waiting.detail == stepped.detail
    cluster.other = {"cpu": "500m"}
    assert await cluster.run() == resize(Reason.RESIZE_PARTIAL)
    cluster.other = {"cpu": "400m"}
    assert await cluster.run() == resize(Reason.OUTSIDE_RANGE)
    assert cluster.sent == [
        ("web-0", "cpu 600m"),
        ("web-0", "cpu 400m"),
        ("web-0", "cpu 500m"),
        ("web-0", "cpu 600m"),
    ]


async def test_memory_grows_by_the_room_and_the_rest_follows() -> None:
    web = {"web-0": live_pod("web-0", asks={"cpu": "100m", "memory": "512Mi"})}
    target, node = {"cpu": "100m", "memory": "2Gi"}, {"cpu": "1", "memory": "3Gi"}
    cluster = OneNode(IN_PLACE, target, web, node, {"cpu": "0", "memory": "2Gi"})
    assert await cluster.run() == resize(Reason.OUTSIDE_RANGE)
    stepped = await cluster.run()
    assert stepped.detail == (
        "container app: memory 1Gi of 2Gi now, 1Gi more when the node has room"
    )
    assert await cluster.run(3) == wait(Reason.RESIZE_DEFERRED)
    cluster.other = {"cpu": "0", "memory": "1Gi"}
    await cluster.run()
    assert cluster.sent == [
        ("web-0", "cpu 100m", "memory 2Gi"),
        ("web-0", "cpu 100m", "memory 1Gi"),
        ("web-0", "cpu 100m", "memory 2Gi"),
    ]


async def test_each_resource_grows_by_its_own_room() -> None:
    web = {"web-0": live_pod("web-0", asks={"cpu": "100m", "memory": "512Mi"})}
    target, node = {"cpu": "600m", "memory": "2Gi"}, {"cpu": "1", "memory": "3Gi"}
    cluster = OneNode(IN_PLACE, target, web, node, {"cpu": "600m", "memory": "2Gi"})
    await cluster.run(3)
    cluster.other = {"cpu": "400m", "memory": "2Gi"}
    assert await cluster.run() == resize(Reason.RESIZE_PARTIAL)
    assert await cluster.run(3) == wait(Reason.RESIZE_DEFERRED)
    cluster.other = {"cpu": "400m", "memory": "1Gi"}
    assert await cluster.run() == resize(Reason.OUTSIDE_RANGE)
    assert cluster.sent == [
        ("web-0", "cpu 600m", "memory 2Gi"),
        ("web-0", "cpu 400m", "memory 1Gi"),
        ("web-0", "cpu 600m", "memory 1Gi"),
        ("web-0", "cpu 600m", "memory 2Gi"),
    ]


async def test_cpu_grows_by_the_room_while_memory_goes_down_in_steps() -> None:
    cluster = lowering(cpu="600m")
    cluster.node, cluster.other = {"cpu": "1", "memory": "8Gi"}, {"cpu": "600m"}
    await cluster.run(3)
    assert cluster.sent == [("web-0", "memory 768Mi"), ("web-0", "memory 768Mi")]
    await cluster.run(30)
    cluster.other = {"cpu": "400m"}
    await cluster.run()
    asks = cluster.pods["web-0"].spec.containers[0].resources
    assert asks == ResourceRequirements(
        requests={"cpu": "600m", "memory": "256Mi"}, limits={"memory": "256Mi"}
    )


async def test_the_rest_follows_when_the_node_grows() -> None:
    cluster = OneNode(IN_PLACE, {"cpu": "600m"}, pods("web-0"), {"cpu": "1"}, {"cpu": "600m"})
    await cluster.run(3)
    cluster.node = {"cpu": "1200m"}
    assert await cluster.run() == resize(Reason.OUTSIDE_RANGE)
    assert cluster.sent[-1] == ("web-0", "cpu 600m")


async def test_a_lower_recommendation_that_fits_is_sent_whole() -> None:
    cluster = OneNode(IN_PLACE, {"cpu": "900m"}, pods("web-0"), {"cpu": "1"}, {"cpu": "500m"})
    await cluster.run(3)
    assert cluster.sent[-1] == ("web-0", "cpu 500m")
    cluster.target = {"cpu": "450m"}
    assert await cluster.run() == resize(Reason.OUTSIDE_RANGE)
    assert cluster.sent[-1] == ("web-0", "cpu 450m")


@pytest.mark.parametrize(
    ("room", "steps"),
    [("549m", 0), ("550m", 1)],
    ids=["less than a tenth is missing", "exactly a tenth"],
)
async def test_no_step_for_less_than_a_tenth_of_what_is_missing(room: str, steps: int) -> None:
    cluster = OneNode(
        IN_PLACE, {"cpu": "1"}, pods("web-0", cpu="500m"), {"cpu": room}, {"cpu": "0"}
    )
    await cluster.run(3)
    assert len(cluster.sent) == 1 + steps, "the whole resize, which is deferred, and the step"


async def test_the_end_of_the_time_out_leads_to_an_eviction_also_after_a_step() -> None:
    cluster = OneNode(OR_RECREATE, {"cpu": "600m"}, pods("web-0"), {"cpu": "1"}, {"cpu": "600m"})
    await cluster.run(2)
    assert await cluster.run(3) == wait(Reason.RESIZE_DEFERRED)
    assert await cluster.run(2) == evict(Reason.RESIZE_DEFERRED_TOO_LONG)


async def test_steps_continue_while_the_eviction_is_held() -> None:
    cluster = OneNode(
        OR_RECREATE,
        {"cpu": "600m"},
        pods("web-0"),
        {"cpu": "1"},
        {"cpu": "600m"},
        evicts=False,
    )
    assert await cluster.run(8) == wait(Reason.REQUIREMENTS_NOT_MET)
    cluster.other = {"cpu": "500m"}
    assert await cluster.run() == resize(Reason.RESIZE_PARTIAL)
    assert cluster.sent[-1] == ("web-0", "cpu 500m")


async def test_two_pods_of_a_pass_share_the_room() -> None:
    """Each of them lacks 500m, and the node has 200m for both."""
    cluster = OneNode(
        IN_PLACE, {"cpu": "600m"}, pods("web-0", "web-1"), {"cpu": "1"}, {"cpu": "600m"}
    )
    await cluster.run(2)
    assert cluster.sent[2:] == [("web-0", "cpu 300m")]
    await cluster.run(3)
    assert len(cluster.sent) == 3


async def test_a_pod_in_its_range_gets_the_rest_although_it_is_young() -> None:
    """With the step it is above the lower bound, and its last resize was a minute ago."""
    cluster = OneNode(IN_PLACE, {"cpu": "600m"}, pods("web-0"), {"cpu": "1"}, {"cpu": "600m"})
    await cluster.run(3)
    cluster.upper = {"cpu": "900m"}
    assert await cluster.run() == wait(Reason.RESIZE_DEFERRED)
    cluster.other = {"cpu": "0"}
    assert await cluster.run() == resize(Reason.DRIFTED)
    assert await cluster.run() == leave(Reason.TOO_YOUNG)


async def test_a_pod_in_its_range_is_not_evicted_for_the_rest() -> None:
    cluster = OneNode(OR_RECREATE, {"cpu": "600m"}, pods("web-0"), {"cpu": "1"}, {"cpu": "600m"})
    await cluster.run(2)
    cluster.upper = {"cpu": "900m"}
    waiting = await cluster.run(20)
    assert waiting == wait(Reason.RESIZE_DEFERRED)
    assert waiting.detail == (
        "container app: cpu 400m of 600m now, 200m more when the node has room"
    )
    assert not [call for call in cluster.sent if call[0] == "evict"]
    labels = {"vpa_size_log2": "0", "vpa_name": "web", "vpa_namespace": "default"}
    skipped = "vpa_updater_in_place_infeasible_skip_pods_total"
    assert not cluster.registry.get_sample_value(skipped, labels)


@pytest.mark.parametrize("upper", [None, {"cpu": "1", "memory": "2Gi"}], ids=["out", "in"])
async def test_while_the_rest_waits_small_changes_of_memory_wait_too(upper: Amounts | None) -> None:
    web = {"web-0": live_pod("web-0", asks={"cpu": "100m", "memory": "1Gi"})}
    node = {"cpu": "1", "memory": "8Gi"}
    target = {"cpu": "600m", "memory": "1Gi"}
    cluster = OneNode(IN_PLACE, target, web, node, {"cpu": "600m"})
    await cluster.run(4)
    cluster.upper = upper
    before = len(cluster.sent)
    for more in range(10):
        cluster.target = {**target, "memory": f"{1025 + more}Mi"}
        assert await cluster.run() == wait(Reason.RESIZE_DEFERRED)
    assert len(cluster.sent) == before
    cluster.target = {**target, "memory": "1200Mi"}
    assert await cluster.run() == resize(Reason.RESIZE_PARTIAL)
    cluster.other = {"cpu": "400m"}
    await cluster.run()
    assert cluster.sent[before:] == [
        ("web-0", "cpu 400m", "memory 1200Mi"),
        ("web-0", "cpu 600m", "memory 1200Mi"),
    ]


async def test_the_numbers_of_the_rest_are_of_containers_that_change() -> None:
    """The other container is in its range, so the resize leaves it alone."""
    pod = live_pod("web-0", asks={"cpu": "100m"})
    asks = ResourceRequirements(requests={"cpu": "10m"})
    spec = msgspec.structs.replace(
        pod.spec, containers=(*pod.spec.containers, Container(name="log", resources=asks))
    )
    log = ContainerStatus(name="log", resources=asks, allocated_resources=asks.requests)
    (app,) = pod.status.container_statuses or ()
    status = msgspec.structs.replace(pod.status, container_statuses=(app, log))
    pod = msgspec.structs.replace(pod, spec=spec, status=status)
    node = {"cpu": "1"}
    cluster = OneNode(IN_PLACE, {"cpu": "600m"}, {"web-0": pod}, node, {"cpu": "590m"})
    cluster.log_target = {"cpu": "20m"}
    waiting = await cluster.run(4)
    assert waiting == wait(Reason.RESIZE_DEFERRED)
    assert waiting.detail == (
        "container app: cpu 400m of 600m now, 200m more when the node has room"
    )


async def test_the_plan_has_the_step_and_its_numbers() -> None:
    cluster = OneNode(IN_PLACE, {"cpu": "600m"}, pods("web-0"), {"cpu": "1"}, {"cpu": "600m"})
    await cluster.run()
    plan = await preview(cluster.snapshot(), cluster.state, rules=RULES, now=cluster.now)
    assert plan["uid-web-0"] == resize(Reason.RESIZE_PARTIAL)
    assert "400m of 600m now" in plan["uid-web-0"].detail


@settings(deadline=None, max_examples=30)
@given(
    others=st.lists(st.integers(0, 900), min_size=3, max_size=12),
    starts=st.lists(st.integers(10, 300), min_size=1, max_size=3),
    target=st.integers(20, 1500),
)
async def test_random_rooms_lead_to_the_target_with_one_pending_resize_for_each_pod(
    others: Sequence[int], starts: Sequence[int], target: int
) -> None:
    """No pod gets more than the target, nor less than it has, nor does the node run over."""
    wanted = {"cpu": f"{target}m"}
    web = {
        f"web-{number}": live_pod(f"web-{number}", asks={"cpu": f"{start}m"})
        for number, start in enumerate(starts)
    }
    cluster = OneNode(IN_PLACE, wanted, web, {"cpu": "2"})
    before = {name: _cpu_of(pod) for name, pod in web.items()}
    for other in others:
        cluster.other = {"cpu": f"{other}m"}
        await cluster.run()
        after = {name: _cpu_of(pod) for name, pod in cluster.pods.items()}
        for name, amount in after.items():
            assert min(before[name], target) <= amount <= max(before[name], target)
        before = after
    cluster.node, cluster.other = {"cpu": "9"}, {"cpu": "0"}
    await cluster.run(4)
    # A difference of a millicore is rounding (D31).
    assert all(abs(_cpu_of(pod) - target) <= 1 for pod in cluster.pods.values())


def _cpu_of(pod: Pod) -> int:
    (status,) = pod.status.container_statuses or ()
    return parse_quantities(status.allocated_resources)["cpu"].milli


# The room for resizes


def test_a_pending_resize_of_a_neighbour_takes_no_room() -> None:
    cluster = OneNode(IN_PLACE, {"cpu": "600m"}, pods("web-0", "web-1"), {"cpu": "1"})
    cluster.pods["web-1"] = live_pod(
        "web-1", asks={"cpu": "5"}, has={"cpu": "300m"}, condition=DEFERRED
    )
    rooms = measured(cluster)
    room = rooms.of(cluster.pods["web-0"])
    assert room is not None
    assert room.cpu == 700


def test_a_neighbours_resize_in_progress_takes_room() -> None:
    cluster = OneNode(IN_PLACE, {"cpu": "600m"}, pods("web-0", "web-1"), {"cpu": "1"})
    progress = PodCondition(type="PodResizeInProgress", status="True")
    cluster.pods["web-1"] = live_pod(
        "web-1", asks={"cpu": "500m"}, has={"cpu": "300m"}, condition=progress
    )
    room = measured(cluster).of(cluster.pods["web-0"])
    assert room is not None
    assert room.cpu == 500


def test_the_room_of_pods_that_share_their_spec_depends_on_pending_resizes() -> None:
    """The first of them is measured with its whole spec, the second with what it has."""
    cluster = OneNode(IN_PLACE, {"cpu": "600m"}, pods("web-0", "web-1"), {"cpu": "1"})
    asking = live_pod("web-1", asks={"cpu": "300m"}, has={"cpu": "100m"})
    waiting = msgspec.structs.replace(
        asking,
        metadata=msgspec.structs.replace(asking.metadata, name="web-2", uid="uid-web-2"),
        status=msgspec.structs.replace(asking.status, conditions=(DEFERRED,)),
    )
    cluster.pods |= {"web-1": asking, "web-2": waiting}
    room = measured(cluster).of(cluster.pods["web-0"])
    assert room is not None
    assert room.cpu == 1000 - 300 - 100


def test_without_its_node_the_room_of_a_pod_is_unknown() -> None:
    cluster = OneNode(IN_PLACE, {"cpu": "600m"}, pods("web-0"), {"cpu": "1"})
    rooms = ResizeRooms(replace(cluster.snapshot(), nodes={}))
    assert not list(rooms.index())
    assert rooms.of(cluster.pods["web-0"]) is None


def measured(cluster: OneNode) -> ResizeRooms:
    rooms = ResizeRooms(cluster.snapshot())
    assert not list(rooms.index())
    return rooms


# X139

GIB = {"cpu": "100m", "memory": "1Gi"}
MIB = 1 << 20


def lowering(mode: UpdateMode = IN_PLACE, *, cpu: str = "100m", used: int | None = 50) -> OneNode:
    """Return a pod with a memory limit of 1Gi, of which 256Mi are recommended."""
    pod = live_pod("web-0", asks=GIB, limits=({"memory": "1Gi"}, {"memory": "1Gi"}))
    return OneNode(
        mode,
        {"cpu": cpu, "memory": "256Mi"},
        {"web-0": pod},
        {"cpu": "4", "memory": "8Gi"},
        use={} if used is None else {"web-0": used * MIB},
    )


FAILED_STEPS = [
    ("the last step, of a request that equals its limit", "1Gi", "768Mi", "1Gi"),
    ("the first of some steps", "1Gi", "256Mi", "1Gi"),
    ("a request below its limit stays", "512Mi", "384Mi", "384Mi"),
]


@pytest.mark.parametrize("mode", [IN_PLACE, OR_RECREATE])
@pytest.mark.parametrize(
    ("request_before", "target", "request_after"),
    [pytest.param(*case, id=name) for name, *case in FAILED_STEPS],
)
async def test_a_decrease_in_error_is_taken_back_when_usage_grows(
    mode: UpdateMode, request_before: str, target: str, request_after: str
) -> None:
    cluster = lowering(mode)
    asks = {"cpu": "100m", "memory": request_before}
    limits = {"memory": "1Gi"}
    cluster.pods["web-0"] = live_pod("web-0", asks=asks, limits=(limits, limits))
    cluster.target, cluster.grows = {"cpu": "100m", "memory": target}, {"web-0": 900 * MIB}
    assert await cluster.run() == resize(Reason.OUTSIDE_RANGE)
    assert await cluster.run() == resize(Reason.RESIZE_WITHDRAWN)
    await cluster.run(10)
    assert cluster.sent == [("web-0", "memory 768Mi"), ("web-0", "memory 1Gi")]
    resources = cluster.pods["web-0"].spec.containers[0].resources
    assert resources is not None
    assert (resources.requests or {})["memory"] == request_after


@pytest.mark.parametrize("mode", [IN_PLACE, OR_RECREATE])
async def test_a_decrease_in_error_is_taken_back_before_another_change(mode: UpdateMode) -> None:
    cluster = lowering(mode)
    cluster.grows = {"web-0": 900 * MIB}
    await cluster.run()
    cluster.target = {"cpu": "300m", "memory": "256Mi"}
    assert await cluster.run() == resize(Reason.RESIZE_WITHDRAWN)
    await cluster.run(10)
    assert cluster.sent == [("web-0", "memory 768Mi"), *[("web-0", "memory 1Gi")] * 2]
    resources = cluster.pods["web-0"].spec.containers[0].resources
    assert resources is not None
    assert resources.requests == {"cpu": "300m", "memory": "1Gi"}


async def test_a_decrease_in_error_stays_while_usage_allows_it() -> None:
    """The kubelet retries by itself; 10 percent above 698 MiB are less than 768 MiB."""
    sent = []
    for used in (698, 699):
        cluster = lowering()
        cluster.grows = {"web-0": 900 * MIB}
        await cluster.run()
        assert cluster.pods["web-0"].status.conditions == (FAILED,)
        cluster.grows, cluster.use = {}, {"web-0": used * MIB}
        await cluster.run()
        sent.append(cluster.sent)
    assert sent == [
        [("web-0", "memory 768Mi")],
        [("web-0", "memory 768Mi"), ("web-0", "memory 1Gi")],
    ]


async def test_a_large_decrease_goes_in_steps_with_pauses() -> None:
    cluster = lowering()
    assert await cluster.run() == resize(Reason.OUTSIDE_RANGE)
    assert await cluster.run(4) == wait(Reason.MEMORY_DECREASE_PAUSED)
    assert len(cluster.sent) == 1
    await cluster.run(20)
    assert cluster.sent == [
        ("web-0", "memory 768Mi"),
        ("web-0", "memory 576Mi"),
        ("web-0", "memory 432Mi"),
        ("web-0", "memory 324Mi"),
        ("web-0", "memory 256Mi"),
    ]
    assert cluster.state.watched == {}


@pytest.mark.parametrize("mode", [IN_PLACE, OR_RECREATE])
async def test_without_usage_the_pod_waits_and_is_watched(mode: UpdateMode) -> None:
    cluster = lowering(mode, used=None)
    assert await cluster.run(10) == wait(Reason.MEMORY_USAGE_UNKNOWN)
    assert cluster.sent == []
    assert cluster.state.watched == {"uid-web-0": ("default", "web-0")}
    cluster.use = {"web-0": 50 * MIB}
    assert await cluster.run() == resize(Reason.OUTSIDE_RANGE)


async def test_a_pod_stays_watched_while_the_cache_does_not_show_its_resize() -> None:
    cluster = lowering()
    await cluster.run()
    memory = cluster.state.of("uid-web-0")
    assert memory.sent is not None
    behind = replace(memory, sent=replace(memory.sent, generation=99))
    cluster.state = replace(cluster.state, pods={"uid-web-0": behind})
    assert await cluster.run() == wait(Reason.RESIZE_SENT)
    assert cluster.state.watched == {"uid-web-0": ("default", "web-0")}


@pytest.mark.parametrize("mode", [IN_PLACE, OR_RECREATE])
async def test_used_memory_is_kept(mode: UpdateMode) -> None:
    cluster = lowering(mode, used=700)
    held = await cluster.run(10)
    assert held == wait(Reason.MEMORY_IN_USE)
    assert "used 700Mi" in held.detail
    assert cluster.sent == []


async def test_the_cpu_is_resized_although_the_memory_is_held() -> None:
    cluster = lowering(cpu="200m", used=None)
    assert await cluster.run() == resize(Reason.OUTSIDE_RANGE)
    requests = cluster.pods["web-0"].spec.containers[0].resources
    assert requests == ResourceRequirements(
        requests={"cpu": "200m", "memory": "1Gi"}, limits={"memory": "1Gi"}
    )
    assert await cluster.run() == wait(Reason.MEMORY_USAGE_UNKNOWN)


async def test_held_memory_leads_to_no_eviction_if_the_other_changes_would_be_refused() -> None:
    """The present limit is above the LimitRange's maximum, so the CPU alone can't change."""
    cluster = lowering(OR_RECREATE, cpu="200m", used=None)
    cluster.most_memory = "900Mi"
    assert await cluster.run(5) == wait(Reason.MEMORY_USAGE_UNKNOWN)
    assert cluster.sent == []


@pytest.mark.parametrize(
    ("used", "found", "sent"),
    [
        (None, wait(Reason.MEMORY_USAGE_UNKNOWN), 0),
        (700, wait(Reason.MEMORY_IN_USE), 0),
        (50, resize(Reason.OUTSIDE_RANGE), 1),
    ],
    ids=["usage unknown", "in use", "fits"],
)
async def test_a_limit_is_added_at_once_if_the_usage_fits(
    used: int | None, found: Decision, sent: int
) -> None:
    cluster = lowering(used=used)
    cluster.pods["web-0"] = live_pod("web-0", asks={"cpu": "100m"})
    cluster.default_memory = "512Mi"
    assert await cluster.run() == found
    await cluster.run(5)
    assert cluster.sent == sent * [("web-0", "memory 256Mi")]


REFUSED_STEP = {
    "usage fits below the whole decrease": (
        50,
        [("web-0", "memory 256Mi")],
        leave(Reason.TOO_YOUNG),
    ),
    "usage is above it": (400, [], wait(Reason.MEMORY_IN_USE)),
    "usage is unknown": (None, [], wait(Reason.MEMORY_USAGE_UNKNOWN)),
}


@pytest.mark.parametrize("mode", [IN_PLACE, OR_RECREATE])
@pytest.mark.parametrize(("used", "sent", "found"), REFUSED_STEP.values(), ids=REFUSED_STEP)
async def test_a_step_that_a_limit_range_refuses_becomes_the_whole_decrease(
    mode: UpdateMode, used: int | None, sent: Sequence[tuple[str, ...]], found: Decision
) -> None:
    """The present limit and the first step of 768Mi are above the maximum."""
    cluster = lowering(mode, cpu="200m", used=used)
    cluster.most_memory = "700Mi"
    assert await cluster.run(20) == found
    assert cluster.sent == sent


async def test_a_pod_in_its_range_gets_the_other_steps_although_it_is_young() -> None:
    cluster = lowering()
    await cluster.run()
    cluster.upper = {"cpu": "1", "memory": "2Gi"}
    await cluster.run(26)
    assert cluster.sent[-1] == ("web-0", "memory 256Mi")


async def moving_cpu(cluster: OneNode, passes: int) -> int:
    """Run passes with a CPU target that differs a little in each; return the number of resizes."""
    before = len(cluster.sent)
    for number in range(passes):
        cluster.target = {**cluster.target, "cpu": f"{103 + number % 2 * 3}m"}
        await cluster.run()
    return len(cluster.sent) - before


WIDE = {"cpu": "1", "memory": "2Gi"}


async def test_memory_that_is_held_after_a_step_does_not_make_each_pass_resize_the_cpu() -> None:
    cluster = lowering()
    await cluster.run()
    cluster.upper, cluster.use = WIDE, {"web-0": 700 * MIB}
    assert await moving_cpu(cluster, 12) == 0
    assert cluster.state.of("uid-web-0").decision == wait(Reason.MEMORY_IN_USE)


async def test_held_memory_out_of_its_range_does_not_make_each_pass_resize_the_cpu() -> None:
    cluster = lowering(used=700)
    cluster.upper = {"cpu": "1", "memory": "256Mi"}
    assert await moving_cpu(cluster, 12) == 0
    assert cluster.state.of("uid-web-0").decision == wait(Reason.MEMORY_IN_USE)
    cluster.passes += 12 * 60
    cluster.target = {**cluster.target, "cpu": "200m"}
    assert await cluster.run() == resize(Reason.DRIFTED), "after the lifetime threshold"


async def test_a_decrease_that_is_no_longer_wanted_is_finished() -> None:
    cluster = lowering()
    await cluster.run()
    cluster.target = {"cpu": "100m", "memory": "900Mi"}
    await cluster.run(2)
    assert cluster.sent[-1] == ("web-0", "memory 900Mi")
    cluster.upper, cluster.target = WIDE, {"cpu": "200m", "memory": "900Mi"}
    assert await cluster.run(10) == leave(Reason.TOO_YOUNG)
    cluster.target = {"cpu": "200m", "memory": "256Mi"}
    assert await cluster.run(10) == leave(Reason.TOO_YOUNG), "it is a new change"


async def test_mode_recreate_evicts_without_usage() -> None:
    cluster = lowering(UpdateMode.RECREATE, used=None)
    assert await cluster.run() == evict(Reason.OUTSIDE_RANGE)


# X139, with a pending resize


def pending_memory(mode: UpdateMode, asks: Amounts, *, used: int | None) -> OneNode:
    """Return a pod with 100m and 1Gi, and a deferred resize; 256Mi are recommended.

    The node has no room for more CPU, and half a GiB of memory.
    """
    limit = {"memory": asks["memory"]}
    pod = live_pod(
        "web-0", asks=asks, has=GIB, limits=(limit, {"memory": "1Gi"}), condition=DEFERRED
    )
    return OneNode(
        mode,
        {"cpu": asks["cpu"], "memory": "256Mi"},
        {"web-0": pod},
        {"cpu": "1", "memory": "1536Mi"},
        other={"cpu": "900m"},
        use={} if used is None else {"web-0": used * MIB},
    )


@pytest.mark.parametrize("mode", [IN_PLACE, OR_RECREATE])
@pytest.mark.parametrize(
    ("used", "held"),
    [(None, Reason.MEMORY_USAGE_UNKNOWN), (950, Reason.MEMORY_IN_USE)],
    ids=["usage unknown", "in use"],
)
async def test_a_pending_increase_is_withdrawn_although_the_memory_is_held(
    mode: UpdateMode, used: int | None, held: Reason
) -> None:
    cluster = pending_memory(mode, {"cpu": "100m", "memory": "2Gi"}, used=used)
    assert await cluster.run() == resize(Reason.RESIZE_WITHDRAWN)
    assert await cluster.run(20) == wait(held)
    assert cluster.sent == [("web-0", "memory 1Gi")]


@pytest.mark.parametrize("limit", ["768Mi", "256Mi"], ids=["of a step", "to the target"])
async def test_a_pending_decrease_is_taken_back_when_the_usage_grows(limit: str) -> None:
    cluster = pending_memory(IN_PLACE, {"cpu": "600m", "memory": limit}, used=950)
    assert await cluster.run() == resize(Reason.OUTSIDE_RANGE)
    assert await cluster.run(10) == wait(Reason.RESIZE_DEFERRED)
    assert cluster.sent == [("web-0", "memory 1Gi")]
    cluster.other = {"cpu": "400m"}
    await cluster.run(3)
    asks = cluster.pods["web-0"].spec.containers[0].resources
    assert asks == ResourceRequirements(
        requests={"cpu": "600m", "memory": "1Gi"}, limits={"memory": "1Gi"}
    )


async def test_a_pending_decrease_stays_while_the_usage_is_small() -> None:
    """The pause after it and the next step wait for the kubelet; the node is too full for steps."""
    cluster = lowering(cpu="600m")
    cluster.node, cluster.other = {"cpu": "1", "memory": "8Gi"}, {"cpu": "950m"}
    assert await cluster.run() == resize(Reason.OUTSIDE_RANGE)
    assert await cluster.run(10) == wait(Reason.RESIZE_DEFERRED)
    assert cluster.sent == [("web-0", "memory 768Mi")]
    cluster.other = {"cpu": "400m"}
    await cluster.run(30)
    assert cluster.sent[-1] == ("web-0", "memory 256Mi")


# X140


def kill(cluster: OneNode, at: datetime) -> None:
    pod = cluster.pods["web-0"]
    killed = ContainerStateTerminated(reason="OOMKilled", started_at=STARTED, finished_at=at)
    (status,) = pod.status.container_statuses or ()
    status = msgspec.structs.replace(status, last_state=ContainerState(terminated=killed))
    after = msgspec.structs.replace(pod.status, container_statuses=(status,))
    cluster.pods["web-0"] = msgspec.structs.replace(pod, status=after)


def ooms(registry: CollectorRegistry) -> float:
    labels = {"vpa_size_log2": "0", "vpa_name": "web", "vpa_namespace": "default"}
    return registry.get_sample_value("vpa_updater_oom_after_decrease_total", labels) or 0.0


async def test_an_oom_kill_after_a_decrease_sets_a_floor_for_all_pods_of_the_vpa() -> None:
    cluster = lowering()
    await cluster.run()
    kill(cluster, cluster.now)
    registry = CollectorRegistry()
    after = await run(
        cluster.snapshot(),
        RecordingActuator(),
        state=cluster.state,
        rules=RULES,
        clock=FixedClock(cluster.now),
        registry=registry,
    )
    assert ooms(registry) == 1
    floor = MemoryFloor(amount=Quantity.parse("1Gi"), until=cluster.now + timedelta(days=1))
    (floors,) = after.memory_floors.values()
    assert floors == {"app": floor}
    again = CollectorRegistry()
    await run(
        cluster.snapshot(),
        RecordingActuator(),
        state=after,
        rules=RULES,
        clock=FixedClock(cluster.now),
        registry=again,
    )
    assert ooms(again) == 0, "a kill counts once"
    cluster.state = after
    cluster.pods["web-1"] = live_pod(
        "web-1", asks=GIB, limits=({"memory": "1Gi"}, {"memory": "1Gi"})
    )
    cluster.use = {"web-0": MIB, "web-1": MIB}
    await cluster.run(10)
    assert len(cluster.sent) == 1, "no pod of the VPA is lowered"
    assert cluster.state.of("uid-web-1").decision == wait(Reason.OOM_AFTER_DECREASE)
    cluster.passes += 24 * 60
    await cluster.run()
    assert ("web-1", "memory 768Mi") in cluster.sent


async def test_an_oom_kill_before_the_decrease_is_granted_is_not_blamed_on_it() -> None:
    cluster = lowering(cpu="600m")
    cluster.node, cluster.other = {"cpu": "1", "memory": "8Gi"}, {"cpu": "950m"}
    await cluster.run(2)
    assert cluster.sent == [("web-0", "memory 768Mi")]
    kill(cluster, cluster.now)
    cluster.passes += 1
    await cluster.run()
    assert cluster.state.memory_floors == {}
    assert ooms(cluster.registry) == 0


async def test_the_floors_of_a_deleted_vpa_are_forgotten() -> None:
    floor = MemoryFloor(amount=Quantity.parse("1Gi"), until=NOW)
    state = UpdaterState(memory_floors={"one": {"app": floor}, "two": {"app": floor}})
    assert state.about({"two"}).memory_floors == {"two": {"app": floor}}

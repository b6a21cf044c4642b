"""A pass over one VPA, with recording actuators, for tests of the updater."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TypeAlias

import msgspec
from prometheus_client import CollectorRegistry

from builders import container, pod, recommendation, vpa
from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.api.core import Pod
from common.errors import KubeError
from common.features import FeatureGates
from common.patches import Operation
from common.recommendation.resource_changes import ResourceChange, summary
from common.runtime.clock import Clock
from common.runtime.object_errors import ObjectErrors
from common.target.owners import Controller
from fixed_clock import FixedClock
from live_specs import schedulable
from updater.action_history import ActionHistory
from updater.actuation import PodActuator, TemplatePods
from updater.capacity.capacity_requests import NO_REQUESTS, CapacityMode, CapacityRequests
from updater.capacity.pass_rooms import PassRooms
from updater.decision import Decision, Reason
from updater.eviction.breaker import BreakerTransition
from updater.eviction.disruption_budget import DisruptionPolicy
from updater.execute import Executor, RateLimits
from updater.metrics import UpdaterMetrics
from updater.pass_context import PassContext, Rules
from updater.plan.pod_outcome import EvictionSkipped, PodEvent, ResizeUnblocked
from updater.preview import preview_pass
from updater.resize.resize_rooms import ResizeRooms
from updater.snapshot.cluster_snapshot import AutoscaledPods, ClusterSnapshot, key_of
from updater.snapshot.live_pod import LivePod, LivePodMeta
from updater.state import ResizeBlocked, UpdaterState
from updater.update_pass import UpdatePass
from updater.usage_watch import Usage
from updater.vpa_preflight import QuotaUse

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WEB = Controller("default", "ReplicaSet", "web", "apps/v1")


@dataclass(slots=True)
class FakeActuator(PodActuator):
    """An actuator that records calls, and refuses those that a test selects."""

    resize_errors: Mapping[str, KubeError] = field(default_factory=dict)
    eviction_errors: Mapping[str, KubeError] = field(default_factory=dict)
    resized: list[str] = field(default_factory=list)
    steps: dict[str, str] = field(default_factory=dict)  # details of the last resizes
    evicted: list[str] = field(default_factory=list)
    marked: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    blocked: list[tuple[str, Reason, str]] = field(default_factory=list)
    obstacles: dict[str, str] = field(default_factory=dict)  # details of blocked actions
    unblocked: list[tuple[str, Reason, str]] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    transitions: list[tuple[BreakerTransition, str]] = field(default_factory=list)
    loses: "Present | None" = None  # its caches become stale at the first refused eviction

    async def evict(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        reason: Reason,
        changes: Sequence[ResourceChange],
    ) -> None:
        self.evicted.append(pod.metadata.name)
        if pod.metadata.name in self.eviction_errors:
            if self.loses is not None:
                self.loses.fresh = False
            raise self.eviction_errors[pod.metadata.name]

    async def resize(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        operations: Sequence[Operation],
        reason: Reason,
        *,
        detail: str = "",
    ) -> Pod:
        self.resized.append(pod.metadata.name)
        self.steps[pod.metadata.name] = detail
        if pod.metadata.name in self.resize_errors:
            raise self.resize_errors[pod.metadata.name]
        meta = msgspec.structs.replace(pod.metadata, generation=2)
        return msgspec.structs.replace(pod, metadata=meta)

    async def annotate(self, pod: Pod, operations: Sequence[Operation]) -> None:
        self.marked.append(pod.metadata.name)

    def report(self, pod: Pod, vpa: VerticalPodAutoscaler, event: PodEvent) -> None:
        name = pod.metadata.name
        match event:
            case ResizeBlocked(reason, changes, detail, skipped):
                self.blocked.append((name, reason, summary(changes)))
                self.obstacles[name] = detail
                if skipped:
                    self.skipped.append(name)
            case ResizeUnblocked(reason, changes):
                self.unblocked.append((name, reason, summary(changes)))
            case EvictionSkipped(decision):
                self.refused[name] = decision.detail

    def report_transition(
        self, vpa: VerticalPodAutoscaler, transition: BreakerTransition, cause: str
    ) -> None:
        self.transitions.append((transition, cause))


Call: TypeAlias = tuple[object, ...]
"""A call of an actuator: the name of the method, the pod's UID, and the other arguments."""


@dataclass(slots=True)
class RecordingActuator(PodActuator):
    """An actuator that records calls and reports success."""

    calls: list[Call] = field(default_factory=list)

    async def evict(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        reason: Reason,
        changes: Sequence[ResourceChange],
    ) -> None:
        """Record an eviction."""
        self.calls.append(("evict", pod.metadata.uid, key_of(vpa), reason, changes))

    async def resize(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        operations: Sequence[Operation],
        reason: Reason,
        *,
        detail: str = "",
    ) -> Pod:
        """Record a resize; return the unchanged pod."""
        self.calls.append(("resize", pod.metadata.uid, key_of(vpa), operations, reason))
        return pod

    async def annotate(self, pod: Pod, operations: Sequence[Operation]) -> None:
        """Record a change of annotations."""
        self.calls.append(("annotate", pod.metadata.uid, operations))

    def report(self, pod: Pod, vpa: VerticalPodAutoscaler, event: PodEvent) -> None:
        """Record the Event, and emit none."""
        # Two decisions are equal whatever their details are.
        self.calls.append(("report", pod.metadata.uid, key_of(vpa), repr(event)))

    def report_transition(
        self, vpa: VerticalPodAutoscaler, transition: BreakerTransition, cause: str
    ) -> None:
        """Record the report."""
        self.calls.append(("report_transition", key_of(vpa), transition, cause))


@dataclass(slots=True)
class Present:
    """A cluster that changes only as a test requests."""

    fresh: bool = True
    gone_pods: Collection[str] = ()
    vpa_changed: bool = False

    async def check(self) -> bool:
        return self.fresh

    def has_pod(self, pod: Pod) -> bool:
        return pod.metadata.name not in self.gone_pods

    def has_vpa(self, vpa: VerticalPodAutoscaler) -> bool:
        return not self.vpa_changed


def live_pod(name: str, *, marked: bool = False) -> LivePod:
    ordinary = pod(name, containers=(container(requests={"cpu": "10m", "memory": "10Mi"}),))
    meta = LivePodMeta(
        name=name,
        namespace="default",
        uid=f"uid-{name}",
        generation=1,
        annotations={"vpaInPlaceUpdated": "true"} if marked else None,
    )
    return LivePod(metadata=meta, spec=schedulable(ordinary.spec), status=ordinary.status)


NAMES = [f"web-{index}" for index in range(5)]


def snapshot(
    mode: UpdateMode,
    *,
    names: Sequence[str] = NAMES,
    marked: bool = False,
    recommended: bool = True,
) -> ClusterSnapshot:
    """Return a complete group whose pods are all equally far below their range, if there is one."""
    pods = tuple(live_pod(name, marked=marked) for name in names)
    far_above = recommendation(lower={"cpu": "200m"}, upper={"cpu": "300m"})
    scaled = AutoscaledPods(
        vpa=vpa(mode=mode.value, recommendations=(far_above,) if recommended else None),
        mode=mode,
        pods=pods,
        controllers={each.metadata.uid: WEB for each in pods},
        replicas={WEB: len(pods)},
        limit_ranges=(),
    )
    living = frozenset(each.metadata.uid for each in pods)
    return ClusterSnapshot(autoscaled=(scaled,), living=living)


OPEN = Rules(
    disruption=DisruptionPolicy(tolerance_fraction=1.0),
    features=FeatureGates(in_place=True),
    checks_outcomes=False,  # tested separately
)
HALF = replace(OPEN, disruption=DisruptionPolicy(tolerance_fraction=0.5))


async def run(
    given: ClusterSnapshot,
    actuator: PodActuator,
    *,
    state: UpdaterState | None = None,
    rules: Rules = OPEN,
    admission_ready: bool = True,
    limits: RateLimits | None = None,
    present: Present | None = None,
    deadline: float | None = None,
    seconds: float = 60,
    registry: CollectorRegistry | None = None,
    clock: Clock | None = None,
    stop: asyncio.Event | None = None,
    replacements: TemplatePods | None = None,
    history: ActionHistory | None = None,
    capacity: CapacityMode = CapacityMode.OFF,
    requests: CapacityRequests = NO_REQUESTS,
    fallback: CapacityMode = CapacityMode.WAIT,
    memory_use: Usage | None = None,
) -> UpdaterState:
    """Run one pass; return the new state."""
    metrics = UpdaterMetrics(registry or CollectorRegistry())
    clock = clock or FixedClock(NOW)
    executor = Executor(
        live=present or Present(),
        actuator=actuator,
        replacements=replacements,
        limits=limits or RateLimits(),
        metrics=metrics,
        history=history or ActionHistory(),
        clock=clock,
        deadline=asyncio.get_running_loop().time() + seconds if deadline is None else deadline,
        stop=stop or asyncio.Event(),
    )
    before, now = state or UpdaterState(), clock.now()
    context = PassContext(
        snapshot=given,
        before=before,
        quotas=QuotaUse(given.quotas),
        rooms=PassRooms.of(given, before.reservations, now=now),
        resize_rooms=ResizeRooms(given),
        rules=rules,
        now=now,
        admission_ready=admission_ready,
        errors=metrics.object_errors,
        templates=replacements,
        capacity_mode=capacity,
        capacity_requests=requests,
        capacity_fallback=fallback,
        memory_use=memory_use or {},
    )
    current = UpdatePass(context=context, executor=executor, actuator=actuator, metrics=metrics)
    return await current.run()


def context_of(
    given: ClusterSnapshot,
    state: UpdaterState | None = None,
    *,
    rules: Rules = OPEN,
    admission_ready: bool = True,
    now: datetime = NOW,
    capacity: CapacityMode = CapacityMode.OFF,
    awaits_nodes: bool = False,
    requests: CapacityRequests = NO_REQUESTS,
    fallback: CapacityMode = CapacityMode.WAIT,
    memory_use: Usage | None = None,
) -> PassContext:
    """Return the context of a pass over the snapshot."""
    before = state or UpdaterState()
    return PassContext(
        snapshot=given,
        before=before,
        quotas=QuotaUse(given.quotas),
        rooms=PassRooms.of(given, before.reservations, now=now),
        resize_rooms=ResizeRooms(given),
        rules=rules,
        now=now,
        admission_ready=admission_ready,
        errors=ObjectErrors("updater", CollectorRegistry()),
        capacity_mode=capacity,
        awaits_nodes=awaits_nodes,
        capacity_requests=requests,
        capacity_fallback=fallback,
        memory_use=memory_use or {},
    )


async def preview(
    given: ClusterSnapshot,
    state: UpdaterState | None = None,
    *,
    rules: Rules = OPEN,
    admission_ready: bool = True,
    now: datetime = NOW,
    capacity: CapacityMode = CapacityMode.OFF,
    awaits_nodes: bool = False,
    requests: CapacityRequests = NO_REQUESTS,
    fallback: CapacityMode = CapacityMode.WAIT,
    memory_use: Usage | None = None,
) -> dict[str, Decision]:
    """Return the decisions of a pass by pod UID."""
    context = context_of(
        given,
        state,
        rules=rules,
        admission_ready=admission_ready,
        now=now,
        capacity=capacity,
        awaits_nodes=awaits_nodes,
        requests=requests,
        fallback=fallback,
        memory_use=memory_use,
    )
    return await preview_pass(context)

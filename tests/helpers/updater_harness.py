"""A pass over one VPA, with actuator that remember; for tests of the updater."""

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
from common.recommendation.changes import ResourceChange, summary
from common.runtime.clock import Clock
from common.runtime.object_errors import ObjectErrors
from common.target.owners import Controller
from updater.decision import Decision, Reason
from updater.eviction.breaker import BreakerTransition
from updater.eviction.disruption import DisruptionPolicy
from updater.execute import Executor, RateLimits, Replacements
from updater.metrics import UpdaterMetrics
from updater.pass_context import PassContext, Rules
from updater.preview import preview_pass
from updater.snapshot.cluster_snapshot import AutoscaledPods, ClusterSnapshot, key_of
from updater.snapshot.live_pod import LivePod, LivePodMeta
from updater.state import UpdaterState
from updater.update_pass import ReportingActuator, UpdatePass

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WEB = Controller("default", "ReplicaSet", "web", "apps/v1")


class StoppedClock:
    def now(self) -> datetime:
        return NOW


@dataclass(slots=True)
class FakeActuator:
    """Acts on nothing, remembers everything, refuses what it is told to refuse."""

    resize_errors: Mapping[str, KubeError] = field(default_factory=dict)
    eviction_errors: Mapping[str, KubeError] = field(default_factory=dict)
    resized: list[str] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)
    marked: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    blocked: list[tuple[str, Reason, str]] = field(default_factory=list)
    obstacles: dict[str, str] = field(default_factory=dict)  # the details of what blocks
    unblocked: list[tuple[str, Reason, str]] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    transitions: list[tuple[BreakerTransition, str]] = field(default_factory=list)
    loses: "Present | None" = None  # sight of the cluster, with the first refused eviction

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
    ) -> Pod:
        self.resized.append(pod.metadata.name)
        if pod.metadata.name in self.resize_errors:
            raise self.resize_errors[pod.metadata.name]
        meta = msgspec.structs.replace(pod.metadata, generation=2)
        return msgspec.structs.replace(pod, metadata=meta)

    async def annotate(self, pod: Pod, operations: Sequence[Operation]) -> None:
        self.marked.append(pod.metadata.name)

    def report_blocked(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        reason: Reason,
        changes: Sequence[ResourceChange],
        *,
        detail: str,
        skipped: bool,
    ) -> None:
        self.blocked.append((pod.metadata.name, reason, summary(changes)))
        self.obstacles[pod.metadata.name] = detail
        if skipped:
            self.skipped.append(pod.metadata.name)

    def report_unblocked(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        reason: Reason,
        changes: Sequence[ResourceChange],
    ) -> None:
        self.unblocked.append((pod.metadata.name, reason, summary(changes)))

    def report_skipped_eviction(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        decision: Decision,
        changes: Sequence[ResourceChange],
    ) -> None:
        self.refused[pod.metadata.name] = decision.detail

    def report_transition(
        self, vpa: VerticalPodAutoscaler, transition: BreakerTransition, cause: str
    ) -> None:
        self.transitions.append((transition, cause))


Call: TypeAlias = tuple[object, ...]
"""What actuator were asked to do: the name of the method, the pod's UID, and the rest."""


@dataclass(slots=True)
class RecordingActuator:
    """Does nothing, says that it worked, and remembers what it was asked to do."""

    calls: list[Call] = field(default_factory=list)

    async def evict(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        reason: Reason,
        changes: Sequence[ResourceChange],
    ) -> None:
        """Note an eviction."""
        self.calls.append(("evict", pod.metadata.uid, key_of(vpa), reason, changes))

    async def resize(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        operations: Sequence[Operation],
        reason: Reason,
    ) -> Pod:
        """Note a resize; the pod stays as it is."""
        self.calls.append(("resize", pod.metadata.uid, key_of(vpa), operations, reason))
        return pod

    async def annotate(self, pod: Pod, operations: Sequence[Operation]) -> None:
        """Note a change of annotations."""
        self.calls.append(("annotate", pod.metadata.uid, operations))

    def report_blocked(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        reason: Reason,
        changes: Sequence[ResourceChange],
        *,
        detail: str,
        skipped: bool,
    ) -> None:
        """Note what would be reported, and report nothing."""
        call = ("report_blocked", pod.metadata.uid, key_of(vpa), reason, changes, detail, skipped)
        self.calls.append(call)

    def report_unblocked(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        reason: Reason,
        changes: Sequence[ResourceChange],
    ) -> None:
        """Note what would be reported, and report nothing."""
        self.calls.append(("report_unblocked", pod.metadata.uid, key_of(vpa), reason, changes))

    def report_skipped_eviction(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        decision: Decision,
        changes: Sequence[ResourceChange],
    ) -> None:
        """Note what would be reported, and report nothing."""
        call = ("report_skipped_eviction", pod.metadata.uid, key_of(vpa), decision.detail, changes)
        self.calls.append(call)

    def report_transition(
        self, vpa: VerticalPodAutoscaler, transition: BreakerTransition, cause: str
    ) -> None:
        """Note what would be reported, and report nothing."""
        self.calls.append(("report_transition", key_of(vpa), transition, cause))


@dataclass(slots=True)
class Present:
    """A cluster in which nothing happens meanwhile, but for what it is told."""

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
    return LivePod(metadata=meta, spec=ordinary.spec, status=ordinary.status)


NAMES = [f"web-{index}" for index in range(5)]


def snapshot(
    mode: UpdateMode,
    *,
    names: Sequence[str] = NAMES,
    marked: bool = False,
    recommended: bool = True,
) -> ClusterSnapshot:
    """A complete group, all of it equally far below its range, if there is one."""
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
    checks_outcomes=False,  # which has tests of its own
)
HALF = replace(OPEN, disruption=DisruptionPolicy(tolerance_fraction=0.5))


async def run(
    given: ClusterSnapshot,
    actuator: ReportingActuator,
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
    replacements: Replacements | None = None,
) -> UpdaterState:
    """Run one pass; what it remembers."""
    metrics = UpdaterMetrics(registry or CollectorRegistry())
    clock = clock or StoppedClock()
    executor = Executor(
        live=present or Present(),
        actuator=actuator,
        replacements=replacements,
        limits=limits or RateLimits(),
        metrics=metrics,
        clock=clock,
        deadline=asyncio.get_running_loop().time() + seconds if deadline is None else deadline,
        stop=stop or asyncio.Event(),
    )
    context = PassContext.of(
        given,
        state or UpdaterState(),
        rules=rules,
        now=clock.now(),
        admission_ready=admission_ready,
        errors=metrics.object_errors,
        templates=replacements,
    )
    current = UpdatePass(
        snapshot=given, context=context, executor=executor, reporter=actuator, metrics=metrics
    )
    return await current.run()


def context_of(
    given: ClusterSnapshot,
    state: UpdaterState | None = None,
    *,
    rules: Rules = OPEN,
    admission_ready: bool = True,
    now: datetime = NOW,
) -> PassContext:
    """Return what the plans of a snapshot depend on."""
    return PassContext.of(
        given,
        state or UpdaterState(),
        rules=rules,
        now=now,
        admission_ready=admission_ready,
        errors=ObjectErrors("updater", CollectorRegistry()),
    )


async def preview(
    given: ClusterSnapshot,
    state: UpdaterState | None = None,
    *,
    rules: Rules = OPEN,
    admission_ready: bool = True,
    now: datetime = NOW,
) -> dict[str, Decision]:
    """Return what a pass would decide, by pod UID."""
    context = context_of(given, state, rules=rules, admission_ready=admission_ready, now=now)
    return await preview_pass(given, context)

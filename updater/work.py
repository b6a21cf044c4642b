"""What a pass works with: the rules, the hands, and one VPA at a time."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.features import FeatureGates
from common.patches import Operation
from common.quantity import ZERO, Quantity
from common.recommendation.changes import ResourceChange
from common.recommendation.pod_level import PodLevelMode
from common.target.owners import Controller
from updater.abreast import Begin
from updater.breaker import Transition
from updater.decision import Decision, Reason
from updater.disruption import DisruptionPolicy, ReplicaGroup
from updater.eviction_tracking import EvictionTracker
from updater.metrics import VpaLabels
from updater.resize import Timeouts
from updater.snapshot import AutoscaledPods
from updater.update_order import Thresholds


class Hands(Protocol):
    """Carries out decisions, and tells of some; ``actuation.Actuator`` and the fakes of tests."""

    async def evict(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        reason: Reason,
        changes: Sequence[ResourceChange],
    ) -> None: ...

    async def resize(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        operations: Sequence[Operation],
        reason: Reason,
    ) -> Pod: ...

    async def annotate(self, pod: Pod, operations: Sequence[Operation]) -> None: ...

    def tell_blocked(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        reason: Reason,
        changes: Sequence[ResourceChange],
        *,
        detail: str,
        skipped: bool,
    ) -> None: ...

    def tell_unblocked(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        reason: Reason,
        changes: Sequence[ResourceChange],
    ) -> None: ...

    def tell_refused(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        decision: Decision,
        changes: Sequence[ResourceChange],
    ) -> None: ...

    def tell_turn(self, vpa: VerticalPodAutoscaler, turn: Transition, cause: str) -> None: ...


class Present(Protocol):
    """The cluster as it is by now, while a pass works on what it was at its beginning.

    ``snapshot.Caches`` and the fakes of tests. A turn of a rate limit may come a whole pass
    later, so who is about to act looks here once more.
    """

    async def check(self) -> bool: ...

    def has_pod(self, pod: Pod) -> bool: ...

    def has_vpa(self, vpa: VerticalPodAutoscaler) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the flags say, in the groups that decisions take."""

    interval: timedelta = timedelta(minutes=1)
    pace: timedelta = timedelta()  # to leave between steps where passes may follow at once
    thresholds: Thresholds = field(default_factory=Thresholds)
    timeouts: Timeouts = field(default_factory=Timeouts)
    disruption: DisruptionPolicy = field(default_factory=DisruptionPolicy)
    features: FeatureGates = field(default_factory=FeatureGates)
    checks_outcomes: bool = True  # of evictions
    boost_bound: Quantity = ZERO  # of the CPU of a start-up boost; none is zero
    pod_level: PodLevelMode = PodLevelMode.KEEP

    @property
    def most_boost(self) -> Quantity | None:
        """The bound of the start-up boosts of new pods; None: there are no boosts."""
        return self.boost_bound if self.features.cpu_startup_boost else None


@dataclass(slots=True)
class Work:
    """One VPA while its pods are worked on; the groups shrink as budgets are spent.

    Most VPAs have no pod that is worth anything, so groups are counted when one is asked for.
    """

    scaled: AutoscaledPods
    labels: VpaLabels
    counted: Callable[[], dict[Controller, ReplicaGroup]]
    evictions: EvictionTracker | None = None  # None: replacements aren't checked
    evicted: bool = False
    resized: bool = False
    _groups: dict[Controller, ReplicaGroup] | None = None

    def count_groups(self) -> dict[Controller, ReplicaGroup]:
        """The groups as they are by now; counted once."""
        if self._groups is None:
            self._groups = self.counted()
        return self._groups

    def controller(self, pod: Pod) -> Controller | None:
        return self.scaled.controllers.get(pod.metadata.uid)

    def workload(self, pod: Pod) -> Controller | None:
        """Return what the pod's budgets are counted over: what is below it decides together."""
        controller = self.controller(pod)
        return None if controller is None else self.scaled.workload(controller)

    def group(self, pod: Pod) -> ReplicaGroup | None:
        controller = self.controller(pod)
        return None if controller is None else self.count_groups().get(controller)

    def note_eviction(self, pod: Pod, *, now: datetime) -> None:
        """The API server took the pod's eviction, or may have taken it."""
        controller = self.controller(pod)
        if self.evictions is not None and controller is not None:
            self.evictions.note_eviction(pod, controller, now=now)

    def reserved(self, pod: Pod, call: Begin) -> Begin:
        """The same call, which takes the pod's part of its group's budget when it is begun.

        A Pending pod serves nobody, so it costs nothing.
        """

        def begin() -> Coroutine[Any, Any, None]:
            group = self.group(pod)
            if group is not None and pod.status.phase != "Pending":
                self._replace(group.spend(pod))
            return call()

        return begin

    def release(self, pod: Pod) -> None:
        """Give back what was reserved: the pod stays as it is."""
        group = self.group(pod)
        if group is not None and pod.status.phase != "Pending":
            self._replace(group.give_back(pod))

    def _replace(self, group: ReplicaGroup) -> None:
        """Put a group in the place of what it was; those of a workload share its floor."""
        groups, workload = self.count_groups(), self.scaled.workload
        groups[group.controller] = group
        if group.floor is None:
            return
        for controller, other in groups.items():
            if workload(controller) == workload(group.controller):
                groups[controller] = replace(other, floor=group.floor)

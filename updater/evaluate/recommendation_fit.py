"""A recommendation fitted to pods: once for all that are alike, and from pass to pass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import TypeAlias

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import ContainerStatus, LimitRangeSpec, Pod, PodSpec
from common.quantity import QuantityError
from common.recommendation.actual import actual_requests
from common.recommendation.pod_level import PodLevelMode, pod_level_bounds
from common.recommendation.processing import Processed, process
from common.recommendation.scaled_containers import scaled_specs
from common.resources import ResourceQuantities
from updater.decision import Decision, Reason, leave, wait
from updater.evaluate.update_order import Drift, forgive_rounding, looked_at, measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What is recommended for a pod, what it has of that, and how far the two are apart."""

    processed: Processed
    requests: Mapping[str, ResourceQuantities]  # present ones, rounding forgiven
    drift: Drift


def measure_pod(
    pod: Pod,
    vpa: VerticalPodAutoscaler,
    limit_ranges: Sequence[LimitRangeSpec],
    *,
    pod_level: PodLevelMode = PodLevelMode.KEEP,
) -> Measured | Decision:
    """Fit the recommendation to the pod and compare; or why there is nothing to compare.

    Of the pod only the spec, the annotations and the reported containers count.

    Source: updater.md 7.
    """
    try:
        bounds = pod_level_bounds(pod, pod_level, limit_ranges)
        processed = process(pod, vpa, limit_ranges, bounds=bounds)
        if processed is None:
            return leave(Reason.NO_RECOMMENDATION)
        if processed.unfit is not None:
            return wait(Reason(processed.unfit.reason), detail=processed.unfit.meaning)
        present = {name: actual_requests(pod, name) for name in processed.containers}
    except QuantityError:
        return leave(Reason.UNREADABLE)
    requests = forgive_rounding(present, processed.containers, slack=len(scaled_specs(pod)))
    drift = measure(requests, looked_at(pod, processed.containers))
    return Measured(processed=processed, requests=requests, drift=drift)


_Key: TypeAlias = tuple[int, int, int, int]  # identities of the parts
_Statuses: TypeAlias = tuple[ContainerStatus, ...] | None
Parts: TypeAlias = tuple[PodSpec, _Statuses, _Statuses, Mapping[str, str] | None]
"""All of a pod that counts for ``measure_pod``; replicas share them, see ``LivePod``."""


def _parts(pod: Pod) -> Parts:
    status = pod.status
    return (
        pod.spec,
        status.container_statuses,
        status.init_container_statuses,
        pod.metadata.annotations,
    )


@dataclass(slots=True)
class KnownDrifts:
    """How far pods are from one recommendation, for as long as that is the same one.

    By the identity of the parts, which an entry keeps alive: no other object can have it.
    """

    vpa: VerticalPodAutoscaler
    limit_ranges: tuple[LimitRangeSpec, ...]
    known: dict[_Key, tuple[Parts, Drift | Decision]] = field(default_factory=dict)

    def hold_for(
        self, vpa: VerticalPodAutoscaler, limit_ranges: tuple[LimitRangeSpec, ...]
    ) -> bool:
        """Return whether the VPA and the LimitRanges still say the same."""
        return self.limit_ranges == limit_ranges and (
            self.vpa is vpa
            or (
                self.vpa.status.recommendation == vpa.status.recommendation
                and self.vpa.spec.resource_policy == vpa.spec.resource_policy
            )
        )


class RecommendationFit:
    """One VPA's recommendation, fitted to its pods, in one pass.

    Drifts are known from the last pass, as far as they hold. The rest, which only candidates
    need, is kept for the last kind of pod: those that are alike come one after the other.
    """

    def __init__(
        self,
        vpa: VerticalPodAutoscaler,
        limit_ranges: tuple[LimitRangeSpec, ...] = (),
        *,
        before: KnownDrifts | None = None,
        pod_level: PodLevelMode = PodLevelMode.KEEP,
    ) -> None:
        self.vpa = vpa
        self.pod_level = pod_level
        self.drifts = KnownDrifts(vpa, limit_ranges)  # of the pods of this pass
        holds = before is not None and before.hold_for(vpa, limit_ranges)
        self._before = before.known if before is not None and holds else {}
        self._last: tuple[Parts, Measured | Decision] | None = None

    def drift(self, pod: Pod) -> Drift | Decision:
        """Return how far the pod is from its recommendation; or why there is nothing to compare."""
        parts = _parts(pod)
        key = (id(parts[0]), id(parts[1]), id(parts[2]), id(parts[3]))
        known = self.drifts.known
        found = known.get(key)
        if found is None:
            found = self._before.get(key)
            if found is None:
                measured = self.measured(pod)
                found = parts, measured if isinstance(measured, Decision) else measured.drift
            known[key] = found
        return found[1]

    def measured(self, pod: Pod) -> Measured | Decision:
        """As ``measure_pod``."""
        parts, last = _parts(pod), self._last
        if last is None or not all(map(is_, last[0], parts)):
            last = parts, self._measure(pod)
            self._last = last
        return last[1]

    def _measure(self, pod: Pod) -> Measured | Decision:
        ranges = self.drifts.limit_ranges
        return measure_pod(pod, self.vpa, ranges, pod_level=self.pod_level)

"""A VPA's recommendation fitted to its pods; equal pods share the result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod
from common.identity_cache import IdentityCache
from common.quantity import QuantityError
from common.recommendation.actual_resources import actual_requests
from common.recommendation.pod_level import PodLevelMode, pod_level_bounds
from common.recommendation.processing import Processed, process
from common.recommendation.scaled_containers import scaled_specs
from common.resources import ResourceQuantities
from updater.decision import Decision, Reason, leave, wait
from updater.evaluate.drift import Drift, eligible_containers, forgive_rounding, measure

_CACHED = 1024  # kinds of pods of one VPA


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The processed recommendation of a pod, its requests, and their difference."""

    processed: Processed
    requests: Mapping[str, ResourceQuantities]  # those of the pod, rounding forgiven
    drift: Drift


def measure_pod(
    pod: Pod,
    vpa: VerticalPodAutoscaler,
    limit_ranges: Sequence[LimitRangeSpec],
    *,
    pod_level: PodLevelMode = PodLevelMode.KEEP,
) -> Measured | Decision:
    """Fit the recommendation to the pod and compare; return a decision if that is impossible.

    The result depends only on the pod's spec, annotations and container statuses.

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
    drift = measure(requests, eligible_containers(pod, processed.containers))
    return Measured(processed=processed, requests=requests, drift=drift)


class RecommendationFit:
    """One VPA's recommendation, fitted to its pods in one pass, once for pods that are alike."""

    def __init__(
        self,
        vpa: VerticalPodAutoscaler,
        limit_ranges: Sequence[LimitRangeSpec] = (),
        *,
        pod_level: PodLevelMode = PodLevelMode.KEEP,
    ) -> None:
        self.vpa = vpa
        self.limit_ranges = limit_ranges
        self._pod_level = pod_level
        self._known = IdentityCache[Measured | Decision](_CACHED)

    def measured(self, pod: Pod) -> Measured | Decision:
        """Return ``measure_pod`` of the pod."""
        status = pod.status
        parts = (  # the inputs of ``measure_pod``; replicas share them, see ``LivePod``
            *(pod.spec, pod.metadata.annotations),
            *(status.container_statuses, status.init_container_statuses),
        )
        return self._known.get(
            parts,
            lambda: measure_pod(pod, self.vpa, self.limit_ranges, pod_level=self._pod_level),
        )

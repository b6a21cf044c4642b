"""Checks whether a replacement came up as its VPA wants it."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import replace

from common.annotations import OBSERVED_CONTAINERS, boosted_containers
from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod
from common.quantity import Quantity, QuantityError
from common.recommendation.actual import actual_requests
from common.recommendation.pod_level import PodLevelMode, pod_level_bounds
from common.recommendation.processing import ContainerAmounts, process
from common.recommendation.scaled_containers import scaled_specs
from common.recommendation.unboosted_pod import before_boost
from common.resources import CPU, ResourceQuantities
from updater.evaluate.update_order import forgive_rounding, is_outside, looked_at

_Amounts = Mapping[str, ContainerAmounts]


class ReplacementResult(enum.StrEnum):
    """What became of the replacement of an evicted pod; also the label of the counter."""

    RIGHT = "right"
    UNPATCHED = "unpatched"  # our webhook never saw it
    OUTSIDE_RANGE = "outside_range"  # the webhook saw it, and it isn't as recommended
    NOT_CREATED = "not_created"  # there is none, and the workload wants one
    UNKNOWN = "unknown"  # nothing is recommended for it, it can't be read, or it isn't wanted

    @property
    def is_miss(self) -> bool:
        """Return whether the eviction did not do what it was for."""
        return self in (
            ReplacementResult.UNPATCHED,
            ReplacementResult.OUTSIDE_RANGE,
            ReplacementResult.NOT_CREATED,
        )


def check_replacement(
    pod: Pod,
    vpa: VerticalPodAutoscaler,
    limit_ranges: Sequence[LimitRangeSpec],
    *,
    then: VerticalPodAutoscaler | None = None,
    pod_level: PodLevelMode = PodLevelMode.KEEP,
) -> ReplacementResult:
    """Return whether a pod came up as the VPA wants it.

    It has the annotation ``vpaObservedContainers``, and each request of its observed and
    recommended containers is within the processed bounds, but for rounding (D31). ``then`` is the
    VPA before the pod was asked for. Recommendations move all the time, and a pod carries the one
    of the moment at which it was admitted: so what lies within the bounds of then, or of now, or
    between them, is right. If only that could be wrong whose recommendation stood still, nothing
    ever would be. While its CPU is boosted, a container may have more of it.

    ``pod_level`` is that by which candidates are judged, or a replacement that is right here would
    be evicted next.
    """
    try:
        now = _recommended(pod, vpa, limit_ranges, pod_level)
        if not now:
            return ReplacementResult.UNKNOWN
        if OBSERVED_CONTAINERS not in (pod.metadata.annotations or {}):
            return ReplacementResult.UNPATCHED
        before = None
        if then is not None and then is not vpa:
            before = _recommended(pod, then, limit_ranges, pod_level)
        requests: dict[str, ResourceQuantities] = {name: actual_requests(pod, name) for name in now}
    except QuantityError:
        return ReplacementResult.UNKNOWN
    bounds = now
    for each in (now, before or now):
        bounds = {name: _hull(bounds[name], each[name]) for name in bounds if name in each}
        requests.update(forgive_rounding(requests, each, slack=len(scaled_specs(pod))))
    outside = any(is_outside(requests[name], amounts) for name, amounts in bounds.items())
    return ReplacementResult.OUTSIDE_RANGE if outside else ReplacementResult.RIGHT


def _recommended(
    pod: Pod,
    vpa: VerticalPodAutoscaler,
    limit_ranges: Sequence[LimitRangeSpec],
    pod_level: PodLevelMode,
) -> _Amounts:
    bare = before_boost(pod)
    bounds = pod_level_bounds(pod, pod_level, limit_ranges, bare=bare)
    processed = process(bare, vpa, limit_ranges, bounds=bounds)
    if processed is None:
        return {}
    boosted = boosted_containers(pod.metadata.annotations)
    return {
        name: replace(amounts, upper_bound=_without_cpu(amounts)) if name in boosted else amounts
        for name, amounts in looked_at(pod, processed.containers).items()
        if amounts.target
    }


def _without_cpu(amounts: ContainerAmounts) -> dict[str, Quantity]:
    return {name: bound for name, bound in amounts.upper_bound.items() if name != CPU}


def _hull(one: ContainerAmounts, other: ContainerAmounts) -> ContainerAmounts:
    """Return the bounds that hold whatever is within either of two; without one there is none."""
    return replace(
        one,
        target={name: value for name, value in one.target.items() if name in other.target},
        lower_bound={
            name: min(value, other.lower_bound[name])
            for name, value in one.lower_bound.items()
            if name in other.lower_bound
        },
        upper_bound={
            name: max(value, other.upper_bound[name])
            for name, value in one.upper_bound.items()
            if name in other.upper_bound
        },
    )

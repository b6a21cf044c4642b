"""The check of a replacement against the recommendation of its VPA."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import replace

from common.annotations import OBSERVED_CONTAINERS, boosted_containers
from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod
from common.quantity import Quantity, QuantityError
from common.recommendation.actual_resources import actual_requests
from common.recommendation.pod_level import PodLevelMode, pod_level_bounds
from common.recommendation.processing import ContainerAmounts, process
from common.recommendation.scaled_containers import scaled_specs
from common.recommendation.unboosted_pod import before_boost
from common.resources import CPU, ResourceQuantities
from updater.evaluate.drift import eligible_containers, forgive_rounding, is_outside

_Amounts = Mapping[str, ContainerAmounts]


class ReplacementResult(enum.StrEnum):
    """The result of an eviction, by its replacement; also the label of the counter."""

    RIGHT = "right"
    UNPATCHED = "unpatched"  # the VPA webhook didn't observe it
    OUTSIDE_RANGE = "outside_range"  # the webhook observed it; its requests are out of range
    NOT_CREATED = "not_created"  # the workload still wants one
    UNKNOWN = "unknown"  # it has no recommendation, is unreadable, or isn't wanted

    @property
    def is_miss(self) -> bool:
        """Return whether the replacement is missing or wrong."""
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
    """Return whether a new pod has the recommendation of the VPA.

    A right pod has the annotation ``vpaObservedContainers``, and each request of its observed and
    recommended containers is within the processed bounds, except for rounding (D31). ``then`` is
    the VPA at the eviction. The pod got the recommendation of the moment of its admission, so
    requests within the bounds of ``then``, of ``vpa``, or between them are right. A container with
    a CPU boost may have more CPU.

    ``pod_level`` must be the mode by which candidates are judged; otherwise a right replacement
    could be evicted next.
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
        for name, amounts in eligible_containers(pod, processed.containers).items()
        if amounts.target
    }


def _without_cpu(amounts: ContainerAmounts) -> dict[str, Quantity]:
    return {name: bound for name, bound in amounts.upper_bound.items() if name != CPU}


def _hull(one: ContainerAmounts, other: ContainerAmounts) -> ContainerAmounts:
    """Return the widest bounds of two; a bound that one of them lacks is left out."""
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

"""From percentiles to recommended amounts, for many containers at once.

Source: recommender.md section 7; ``podResourceRecommender.GetRecommendedPodResources``,
vertical-pod-autoscaler/pkg/recommender/logic/recommender.go.
"""

from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from common.resources import CPU, MEMORY, amount
from recommender.estimate.estimators import (
    at_least,
    confidence,
    confidence_factors,
    scaled,
    with_margin,
)
from recommender.model.aggregates import Aggregates
from recommender.model.column_table import Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Which part of the samples each value should cover."""

    target: float = 0.9
    lower: float = 0.5
    upper: float = 0.95

    @property
    def fractions(self) -> tuple[float, float, float]:
        return (self.target, self.lower, self.upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimationSettings:
    """The policy of estimation; defaults are the flags'."""

    margin: float = 0.15  # relative
    pod_min_cpu: float = 25.0  # millicores
    pod_min_memory: float = 250.0  # MiB
    cpu: Percentiles = Percentiles()
    memory: Percentiles = Percentiles()
    cpu_confidence: timedelta = timedelta(hours=24)
    memory_confidence: timedelta = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResourceEstimates:
    """One resource of many containers after each step of its estimation.

    Rows are containers. The columns of amounts are target, lower and upper bound.
    """

    confidence: Floats
    percentiles: Ints
    with_margin: Ints
    lower_factors: Floats  # by which a bound is multiplied
    upper_factors: Floats
    with_confidence: Ints
    minimums: Ints
    amounts: Ints  # the result

    @property
    def target(self) -> Ints:
        return self.amounts[:, 0]

    @property
    def lower(self) -> Ints:
        return self.amounts[:, 1]

    @property
    def upper(self) -> Ints:
        return self.amounts[:, 2]


def estimate_resource(
    percentiles: Ints, *, margin: float, confidences: Floats, minimums: Ints
) -> ResourceEstimates:
    """Estimate one resource of every row; ``minimums`` are those of the rows' containers."""
    margined = with_margin(percentiles, margin)
    lower_factors = confidence_factors(confidences, multiplier=0.001, exponent=-2.0)
    upper_factors = confidence_factors(confidences, multiplier=1.0, exponent=1.0)
    moved = margined.copy()
    moved[:, 1] = scaled(margined[:, 1], lower_factors)
    moved[:, 2] = scaled(margined[:, 2], upper_factors)
    return ResourceEstimates(
        confidence=confidences,
        percentiles=percentiles,
        with_margin=margined,
        lower_factors=lower_factors,
        upper_factors=upper_factors,
        with_confidence=moved,
        minimums=minimums,
        amounts=at_least(moved, minimums[:, None]),
    )


def estimate_resources(
    merged: Aggregates, containers: Ints, settings: EstimationSettings
) -> dict[str, ResourceEstimates]:
    """Estimate both resources of every row of merged usage.

    ``containers`` is the number of containers of each row's pod: they share the pod's minimum.
    """
    rows, shares = np.arange(len(merged)), 1.0 / containers
    history = merged.first_sample[rows], merged.last_sample[rows], merged.samples[rows]
    pod_cpu = amount(settings.pod_min_cpu * 0.001 * 1000)
    pod_memory = amount(settings.pod_min_memory * 1024 * 1024)
    return {
        CPU: estimate_resource(
            merged.cpu.percentiles(rows, settings.cpu.fractions),
            margin=settings.margin,
            confidences=confidence(*history, settings.cpu_confidence),
            minimums=scaled(np.full(len(containers), pod_cpu), shares),
        ),
        MEMORY: estimate_resource(
            merged.memory.percentiles(rows, settings.memory.fractions),
            margin=settings.margin,
            confidences=confidence(*history, settings.memory_confidence),
            minimums=scaled(np.full(len(containers), pod_memory), shares),
        ),
    }

"""Estimation of amounts from percentiles: margin, confidence, minimum.

Functions take and return columns. Amounts are integers (millicores or bytes), and each step rounds
to one, so the order of the steps matters.

Source: recommender.md 7.2, 7.3; vertical-pod-autoscaler/pkg/recommender/logic/estimator.go.
"""

from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from common.resources import CPU, MAX_AMOUNT, MEMORY, amount
from recommender.model.aggregates import Aggregates
from recommender.model.column_table import Floats, Ints
from recommender.model.timestamps import span

_BELOW_ANY_MINIMUM = np.iinfo(np.int64).min
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """The fraction of the samples that each amount covers."""

    target: float = 0.9
    lower: float = 0.5
    upper: float = 0.95

    @property
    def fractions(self) -> tuple[float, float, float]:
        return (self.target, self.lower, self.upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimationSettings:
    """Settings of estimation; defaults are those of the flags."""

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
    lower_factors: Floats  # multiply the lower bound
    upper_factors: Floats  # multiply the upper bound
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
    """Estimate one resource of each row; ``minimums`` has one amount for each row."""
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
        amounts=np.maximum(moved, minimums[:, None]),
    )


def estimate_resources(
    merged: Aggregates, containers: Ints, settings: EstimationSettings
) -> dict[str, ResourceEstimates]:
    """Estimate both resources of each row of merged usage.

    ``containers`` is the number of containers in each row's pod, which share the pod's minimum.
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


def confidence(first: Ints, last: Ints, samples: Ints, interval: timedelta) -> Floats:
    """Return the length of the history, in units of ``interval``.

    It is the lower of two numbers: the time from the first to the last CPU sample (instants), and
    the number of CPU samples, of which one is expected per minute.
    """
    lifespan = (last - first) / span(interval)
    amount = samples / (interval / _MINUTE)
    return np.minimum(lifespan, amount)


def with_margin(amounts: Ints, fraction: float) -> Ints:
    """Add a safety margin; ``fraction`` is relative: 0.15 is fifteen percent."""
    return amounts + scaled(amounts, fraction)


def confidence_factors(confidences: Floats, *, multiplier: float, exponent: float) -> Floats:
    """Return the factors that move a bound away from the target, further with less history.

    The factor is ``(1 + multiplier / confidence) ** exponent``: 0 or infinite without history.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        factors: Floats = np.power(1.0 + multiplier / confidences, exponent)
    return factors


def scaled(amounts: Ints, factors: Floats | float) -> Ints:
    """Multiply, truncate, and clip to 0..MAX_AMOUNT.

    NaN (0 times infinity) becomes an amount below any minimum.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        product = amounts.astype(np.float64) * factors
    cut = np.clip(np.nan_to_num(product, nan=0.0, posinf=MAX_AMOUNT), 0.0, MAX_AMOUNT)
    return np.where(np.isnan(product), _BELOW_ANY_MINIMUM, cut.astype(np.int64))

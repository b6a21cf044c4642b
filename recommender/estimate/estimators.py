"""From percentiles to recommended amounts: margin, confidence, minimum. All work on columns.

Amounts are integers (millicores or bytes), and each step ends with one; the order of the
steps decides the numbers.

Source: recommender.md 7.2, 7.3; vertical-pod-autoscaler/pkg/recommender/logic/estimator.go.
"""

from datetime import timedelta

import numpy as np

from common.resources import MAX_AMOUNT
from recommender.model.column_table import Floats, Ints
from recommender.model.timestamps import span

_BELOW_ANY_MINIMUM = np.iinfo(np.int64).min
_MINUTE = timedelta(minutes=1)


def confidence(first: Ints, last: Ints, samples: Ints, interval: timedelta) -> Floats:
    """How much history there is, in units of ``interval``.

    The lower of two: the time from the first to the last CPU sample (instants), and the
    number of CPU samples, of which one is expected per minute.
    """
    lifespan = (last - first) / span(interval)
    amount = samples / (interval / _MINUTE)
    return np.minimum(lifespan, amount)


def with_margin(amounts: Ints, fraction: float) -> Ints:
    """Add a safety margin; ``fraction`` is relative: 0.15 is fifteen percent."""
    return amounts + scaled(amounts, fraction)


def confidence_factors(confidences: Floats, *, multiplier: float, exponent: float) -> Floats:
    """How far a bound is moved away from the target: the more, the less history there is.

    The factor is ``(1 + multiplier / confidence) ** exponent``: 0 or infinite without any.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        factors: Floats = np.power(1.0 + multiplier / confidences, exponent)
    return factors


def at_least(amounts: Ints, minimums: Ints) -> Ints:
    """Raise amounts to the minimum of their container."""
    return np.maximum(amounts, minimums)


def scaled(amounts: Ints, factors: Floats | float) -> Ints:
    """Multiply, drop the fraction, and keep within 0..MAX_AMOUNT.

    Not a number (nothing times infinity) becomes an amount below any minimum.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        product = amounts.astype(np.float64) * factors
    cut = np.clip(np.nan_to_num(product, nan=0.0, posinf=MAX_AMOUNT), 0.0, MAX_AMOUNT)
    return np.where(np.isnan(product), _BELOW_ANY_MINIMUM, cut.astype(np.int64))

"""The difference between two statuses of a VPA, and whether it is written at once.

Source: recommender.md section 9; docs/deviations.md X80.
"""

import math
from collections.abc import Iterable, Sequence
from datetime import timedelta

from common.api.autoscaling import RecommendedPodResources, VpaCondition, VpaStatus
from common.quantity import QuantityError
from common.recommendation.processing import ContainerAmounts, parse_recommendation
from common.resources import ResourceQuantities

NOTICEABLE_CHANGE = 0.01
"""The largest relative change of a bound that isn't written at once."""
MAX_DELAY = timedelta(minutes=10)
"""The longest time from the last write to the write of a smaller change."""


def status_difference(current: VpaStatus, wanted: VpaStatus) -> float:
    """Return the difference between two statuses.

    It is 0.0 if they are equal by value: times are compared as instants, and an empty list equals
    a missing one, but an empty recommendation doesn't. It is infinite if anything differs except
    the amounts of lowerBound, upperBound and uncappedTarget. Otherwise it is the largest relative
    change of one of these.
    """
    if current.observed_generation != wanted.observed_generation:
        return math.inf
    if _meaning(current.conditions) != _meaning(wanted.conditions):
        return math.inf
    before, after = _amounts(current.recommendation), _amounts(wanted.recommendation)
    if before is None or after is None or len(before) != len(after):
        return 0.0 if current.recommendation == wanted.recommendation else math.inf
    return max(map(_container_difference, before, after), default=0.0)


def is_due(difference: float, *, waited: timedelta, interval: timedelta) -> bool:
    """Return True if a status with this difference is written now (X80).

    A difference of more than NOTICEABLE_CHANGE is written at once. A smaller one is written if the
    next cycle, an ``interval`` from now, would be more than MAX_DELAY after the last write.
    """
    return difference > NOTICEABLE_CHANGE or (difference > 0 and waited + interval > MAX_DELAY)


def _meaning(conditions: Iterable[VpaCondition] | None) -> set[tuple[object, ...]]:
    return {
        (
            condition.type,
            condition.status,
            condition.last_transition_time,
            condition.reason,
            condition.message,
            condition.observed_generation,
        )
        for condition in conditions or ()
    }


def _amounts(recommendation: RecommendedPodResources | None) -> Sequence[ContainerAmounts] | None:
    """Return the recommended amounts; None if there are none, or if they can't be parsed."""
    if recommendation is None:
        return None
    try:
        return parse_recommendation(recommendation)
    except QuantityError:
        return None


def _container_difference(before: ContainerAmounts, after: ContainerAmounts) -> float:
    if before.name != after.name or before.target != after.target:
        return math.inf
    pairs = (
        (before.lower_bound, after.lower_bound),
        (before.upper_bound, after.upper_bound),
        (before.uncapped_target, after.uncapped_target),
    )
    return max(_change(old, new) for old, new in pairs)


def _change(before: ResourceQuantities, after: ResourceQuantities) -> float:
    """Return the largest relative change of a resource; infinite if one was added or removed."""
    if before.keys() != after.keys():
        return math.inf
    return max((_relative(old.nanos, after[name].nanos) for name, old in before.items()), default=0)


def _relative(before: int, after: int) -> float:
    if before == after:
        return 0.0
    return abs(after - before) / abs(before) if before else math.inf

"""What ``process`` records in a trail, step by step.

Source: admission.md 6.2.
"""

import contextlib
from collections.abc import Container, Mapping, Sequence
from itertools import islice

from common.api.autoscaling import RecommendedPodResources
from common.errors import DecodeError
from common.recommendation.amounts import ContainerAmounts
from common.recommendation.decision_trace import (
    LOWERED_FOR_POD_LEVEL,
    NO_CONTAINER,
    NO_ROOM_IN_POD,
    ORDERED,
    RECOMMENDED,
    SHARED_WITH_ALL,
    SWITCHED_OFF,
    UNCAPPED,
    Amount,
    DecisionTrace,
)
from common.resources import ResourceQuantities, in_order, parse_quantities

_MOST_ABSENT = 100  # recorded containers that the pod doesn't have


def record_recommended(
    trail: DecisionTrace, recommended: Sequence[ContainerAmounts], kept: Sequence[ContainerAmounts]
) -> None:
    """Record what the status recommends, and which containers are switched off."""
    for each in recommended:
        estimates = each.uncapped_target.items()
        uncapped = {name: value for name, value in estimates if name in each.target}
        trail.given(each.name, Amount.REQUEST, uncapped, UNCAPPED)
        trail.given(each.name, Amount.REQUEST, each.target, RECOMMENDED)
        trail.given(each.name, Amount.LOWER_BOUND, each.lower_bound, RECOMMENDED)
        trail.given(each.name, Amount.UPPER_BOUND, each.upper_bound, RECOMMENDED)
    left = {each.name for each in kept}
    for each in recommended:
        if each.name not in left:
            trail.ended(each.name, SWITCHED_OFF)


def record_absent(
    trail: DecisionTrace, recommendation: RecommendedPodResources, present: Container[str]
) -> None:
    """Record dropped recommendations for containers that the pod doesn't have."""
    every = recommendation.container_recommendations or ()
    absent = (each for each in every if each.container_name not in present)
    for each in islice(absent, _MOST_ABSENT):
        with contextlib.suppress(DecodeError):  # what is not used may be anything
            target = parse_quantities(each.target)
            trail.given(each.container_name, Amount.REQUEST, target, RECOMMENDED)
        trail.ended(each.container_name, NO_CONTAINER)


def record_moved(
    trail: DecisionTrace,
    before: Sequence[ContainerAmounts],
    after: Sequence[ContainerAmounts],
    cause: str,
) -> None:
    """Record the numbers that a step has changed, and why."""
    for old, new in zip(before, after, strict=True):
        for amount, was, now in _amounts_of(old, new):
            trail.moved(old.name, amount, was, now, raised=cause)


def _amounts_of(
    old: ContainerAmounts, new: ContainerAmounts
) -> tuple[tuple[Amount, ResourceQuantities, ResourceQuantities], ...]:
    return (
        (Amount.REQUEST, old.target, new.target),
        (Amount.LOWER_BOUND, old.lower_bound, new.lower_bound),
        (Amount.UPPER_BOUND, old.upper_bound, new.upper_bound),
    )


def record_fitted(
    trail: DecisionTrace, whole: Sequence[ContainerAmounts], fitted: Sequence[ContainerAmounts]
) -> None:
    """Record what was lowered or dropped to fit the pod's own resources (A25, A26)."""
    record_moved(trail, whole, fitted, LOWERED_FOR_POD_LEVEL)
    for old, new in zip(whole, fitted, strict=True):
        for amount, was, now in _amounts_of(old, new):
            for resource in in_order(was.keys() - now.keys()):
                trail.add(old.name, amount, resource, NO_ROOM_IN_POD, None)


def record_shrunk(trail: DecisionTrace, shrunk: Mapping[str, ResourceQuantities]) -> None:
    """Record requests that were lowered without a recommendation for them (A29)."""
    for name, requests in shrunk.items():
        trail.given(name, Amount.REQUEST, requests, SHARED_WITH_ALL)


def record_ordered(
    trail: DecisionTrace, before: Sequence[ContainerAmounts], after: Mapping[str, ContainerAmounts]
) -> None:
    """Record the bounds that were moved to their target (A14)."""
    for old in before:
        new = after[old.name]
        for amount, was, now in (
            (Amount.LOWER_BOUND, old.lower_bound, new.lower_bound),
            (Amount.UPPER_BOUND, old.upper_bound, new.upper_bound),
        ):
            trail.moved(old.name, amount, was, now, raised=ORDERED)

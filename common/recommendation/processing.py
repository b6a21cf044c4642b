"""From the recommendation of a VPA to the numbers for one pod.

Admission and updater both call this, so that an admitted pod is what the updater wants.

Source: admission.md 6.2; vertical-pod-autoscaler/pkg/utils/vpa/recommendation_processor.go.
"""

import contextlib
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from common.api.autoscaling import RecommendedPodResources, ResourcePolicy, VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod
from common.errors import DecodeError
from common.quantity import Quantity
from common.recommendation.actual import containers_of
from common.recommendation.capping import ContainerAmounts, cap_for_pod
from common.recommendation.policy import container_policy, is_off
from common.recommendation.settling import (
    Written,
    hold_rounded,
    mark_standing_limits,
    may_be_rounded,
    never_nothing,
    steepest,
)
from common.recommendation.trail import (
    NO_CONTAINER,
    ORDERED,
    RECOMMENDED,
    SETTLED,
    SWITCHED_OFF,
    UNCAPPED,
    Amount,
    Trail,
)
from common.resources import ResourceQuantities, parse_quantities

__all__ = ["ContainerAmounts", "Processed", "process"]

_MOST_ABSENT = 100  # containers that a trail is told of, though the pod doesn't have them


@dataclass(frozen=True, slots=True)
class Processed:
    """A recommendation fitted to one pod, by container name.

    Only containers of the pod that have a recommendation are there. ``notes`` are the
    capping notes of the target; a container without any is missing.
    """

    containers: Mapping[str, ContainerAmounts]
    notes: Mapping[str, tuple[str, ...]]


def process(
    pod: Pod,
    vpa: VerticalPodAutoscaler,
    limit_ranges: Sequence[LimitRangeSpec],
    trail: Trail | None = None,
    *,
    written: Written | None = None,
    targets_only: bool = False,
) -> Processed | None:
    """Fit the recommendation of a VPA to a pod; None if there is none yet.

    ``limit_ranges`` are all of the pod's namespace. The steps: drop containers that the pod doesn't
    have or that are switched off (A17) and resources without a name (A22), cap as the reference
    does but for A13 and A18, scale nothing down to zero (A20), keep what only rounding would change
    (A19), put the bounds in order (A14).
    ``written`` are the requests of containers that came boosted, before their boosts (A23). With
    ``targets_only`` bounds are neither read nor computed; no pod is given any.
    ``trail`` is told each step of each number.

    Raises:
        QuantityError: a quantity in the VPA, the pod or a LimitRange is none.
    """
    if vpa.status.recommendation is None:
        return None
    policy = vpa.spec.resource_policy
    containers = containers_of(pod)
    names = {container.name for container in containers}
    recommended = parse_recommendation(vpa.status.recommendation, names, targets_only=targets_only)
    kept = drop_nameless(drop_switched_off(recommended, policy))
    if trail is not None:
        _tell_recommended(trail, recommended, kept)
        _tell_absent(trail, vpa.status.recommendation, names)
    if limit_ranges:
        containers = mark_standing_limits(containers, policy)
    fit = partial(cap_for_pod, kept, policy=policy, limit_ranges=limit_ranges)
    capped = fit(containers=containers, trail=trail)
    settled = capped.recommendations
    if limit_ranges:
        settled = never_nothing(settled, kept)
        had = {each.name: each.requests for each in containers} | dict(written or {})
        if may_be_rounded(settled, had):
            steep = fit(containers=steepest(containers, kept)).recommendations
            settled = hold_rounded(settled, never_nothing(steep, kept), had)
    ordered = {each.name: order_bounds(each) for each in settled}
    if trail is not None:
        _tell_settled(trail, capped.recommendations, settled)
        _tell_ordered(trail, settled, ordered)
    return Processed(ordered, capped.notes)


def parse_recommendation(
    recommendation: RecommendedPodResources,
    names: Container[str] | None = None,
    *,
    targets_only: bool = False,
) -> tuple[ContainerAmounts, ...]:
    """Read a recommendation as the status holds it; of a name's several entries the first counts.

    With ``names`` it is about those containers alone: there may be thousands of others. With
    ``targets_only`` all else is left unread.

    Raises:
        QuantityError: one of its values is no quantity.
    """
    found: dict[str, ContainerAmounts] = {}
    for container in recommendation.container_recommendations or ():
        name = container.container_name
        if name not in found and (names is None or name in names):
            target = parse_quantities(container.target)
            found[name] = (
                ContainerAmounts(name=name, target=target)
                if targets_only
                else ContainerAmounts(
                    name=name,
                    target=target,
                    lower_bound=parse_quantities(container.lower_bound),
                    upper_bound=parse_quantities(container.upper_bound),
                    uncapped_target=parse_quantities(container.uncapped_target),
                )
            )
    return tuple(found.values())


def drop_switched_off(
    recommendations: Sequence[ContainerAmounts], policy: ResourcePolicy | None
) -> tuple[ContainerAmounts, ...]:
    """Leave out containers with mode Off: what is recommended for them is stale (A17)."""
    return tuple(
        recommendation
        for recommendation in recommendations
        if not is_off(container_policy(policy, recommendation.name))
    )


def drop_nameless(recommendations: Sequence[ContainerAmounts]) -> tuple[ContainerAmounts, ...]:
    """Leave out targets for a resource with an empty name, which no pod can have (A22)."""
    return tuple(
        replace(each, target={name: value for name, value in each.target.items() if name})
        if "" in each.target
        else each
        for each in recommendations
    )


def order_bounds(amounts: ContainerAmounts) -> ContainerAmounts:
    """Make sure that lower bound <= target <= upper bound, per resource (A14).

    The bounds are capped one by one, so a policy or a LimitRange can put them out of order.
    """
    return replace(
        amounts,
        lower_bound=_paired(min, amounts.target, amounts.lower_bound),
        upper_bound=_paired(max, amounts.target, amounts.upper_bound),
    )


def _paired(
    pick: Callable[[Quantity, Quantity], Quantity],
    target: ResourceQuantities,
    bound: ResourceQuantities,
) -> ResourceQuantities:
    return {
        name: pick(value, target[name]) if name in target else value
        for name, value in bound.items()
    }


def _tell_recommended(
    trail: Trail, recommended: Sequence[ContainerAmounts], kept: Sequence[ContainerAmounts]
) -> None:
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


def _tell_absent(
    trail: Trail, recommendation: RecommendedPodResources, present: Container[str]
) -> None:
    every = recommendation.container_recommendations or ()
    absent = (each for each in every if each.container_name not in present)
    for each in islice(absent, _MOST_ABSENT):
        with contextlib.suppress(DecodeError):  # what is not used may be anything
            target = parse_quantities(each.target)
            trail.given(each.container_name, Amount.REQUEST, target, RECOMMENDED)
        trail.ended(each.container_name, NO_CONTAINER)


def _tell_settled(
    trail: Trail, before: Sequence[ContainerAmounts], after: Sequence[ContainerAmounts]
) -> None:
    for old, new in zip(before, after, strict=True):
        trail.moved(old.name, Amount.REQUEST, old.target, new.target, raised=SETTLED)


def _tell_ordered(
    trail: Trail, before: Sequence[ContainerAmounts], after: Mapping[str, ContainerAmounts]
) -> None:
    for old in before:
        new = after[old.name]
        for amount, was, now in (
            (Amount.LOWER_BOUND, old.lower_bound, new.lower_bound),
            (Amount.UPPER_BOUND, old.upper_bound, new.upper_bound),
        ):
            trail.moved(old.name, amount, was, now, raised=ORDERED)

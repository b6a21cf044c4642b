"""From the recommendation of a VPA to the numbers for one pod.

Admission and updater both call this, so that an admitted pod is what the updater wants.

Source: admission.md 6.2; vertical-pod-autoscaler/pkg/utils/vpa/recommendation_processor.go.
"""

import contextlib
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from common.api.autoscaling import RecommendedPodResources, ResourcePolicy, VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod
from common.errors import DecodeError
from common.quantity import Quantity
from common.recommendation.actual import containers_of
from common.recommendation.amounts import ContainerAmounts
from common.recommendation.capping import cap_for_pod
from common.recommendation.limit_range import LimitType, effective_limits
from common.recommendation.pod_amounts import Phase, phases_of
from common.recommendation.pod_level import PodLevelBounds, Unfit
from common.recommendation.pod_limits import shrink_others, with_requests
from common.recommendation.policy import container_policy, is_off
from common.recommendation.settling import (
    Written,
    corners,
    hold_between,
    hold_rounded,
    mark_standing_limits,
    may_be_rounded,
    never_nothing,
    steepest,
)
from common.recommendation.trail import (
    LOWERED_FOR_POD_LEVEL,
    NO_CONTAINER,
    NO_ROOM_IN_POD,
    ORDERED,
    RECOMMENDED,
    SETTLED,
    SHARED_WITH_ALL,
    SWITCHED_OFF,
    UNCAPPED,
    Amount,
    Trail,
)
from common.resources import ResourceQuantities, in_order, parse_quantities

__all__ = ["ContainerAmounts", "Processed", "process"]

_Requests = Mapping[str, ResourceQuantities]  # by container

_LEFT_ALONE = "left as it is: spec.resources of the pod have no room for it"

_MOST_ABSENT = 100  # containers that a trail is told of, though the pod doesn't have them


@dataclass(frozen=True, slots=True)
class Processed:
    """A recommendation fitted to one pod, by container name.

    Only containers of the pod that get something are there. ``notes`` are the capping notes of the
    target; a container without any is missing. ``pod_level`` are the bounds of the pod's own
    resources, if it has some. ``unfit`` says why the pod stays as it is. ``shrunk`` are requests,
    by container, that nothing is recommended for, but that have to be lower (A29).
    """

    containers: Mapping[str, ContainerAmounts]
    notes: Mapping[str, tuple[str, ...]]
    pod_level: PodLevelBounds | None = None
    unfit: Unfit | None = None
    shrunk: Mapping[str, ResourceQuantities] = field(default_factory=dict)


def process(
    pod: Pod,
    vpa: VerticalPodAutoscaler,
    limit_ranges: Sequence[LimitRangeSpec],
    trail: Trail | None = None,
    *,
    bounds: PodLevelBounds | None = None,
    written: Written | None = None,
    targets_only: bool = False,
) -> Processed | None:
    """Fit the recommendation of a VPA to a pod; None if there is none yet.

    ``limit_ranges`` are all of the pod's namespace. The steps: drop containers that the pod doesn't
    have or that are switched off (A17) and resources without a name (A22), cap as the reference
    does but for A13 and A18, scale nothing down to zero (A20), keep what only rounding would change
    (A19), fit into the pod's own resources (A25, A26), put the bounds in order (A14).
    ``bounds`` are those of the pod's own resources, if it has some.
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
    phases: Sequence[Phase] = ()
    if limit_ranges:
        containers = mark_standing_limits(containers, policy)
        phases = phases_of(pod.spec)
    fit = partial(
        cap_for_pod,
        kept,
        policy=policy,
        limit_ranges=limit_ranges,
        phases=phases,
        pod_level=bounds,
    )
    capped = fit(containers=containers)
    shrunk: _Requests = {}
    if capped.exhausted:
        of_pods = effective_limits(limit_ranges, LimitType.POD)
        others = shrink_others(kept, containers, of_pods, phases, bounds)
        smaller = with_requests(containers, others)
        again = fit(containers=smaller)
        if not again.exhausted:
            containers, shrunk, capped = smaller, others, again
    settled: Sequence[ContainerAmounts] = capped.recommendations
    steep, had = settled, dict(written or {})
    if limit_ranges:
        settled = never_nothing(settled, kept)
        had = {each.name: each.requests for each in containers} | had
        if bounds is not None or may_be_rounded(settled, had):
            steep = fit(containers=steepest(containers, kept)).recommendations
            steep = never_nothing(steep, kept)
        if bounds is None and steep is not capped.recommendations:
            settled = hold_rounded(settled, steep, had)
    whole = _with_shrunk(settled, shrunk)
    fitted, exhausted = whole, frozenset[str]()
    if bounds is not None:
        fitted, exhausted = _fit_into(bounds, whole, _with_shrunk(steep, shrunk), had, shrunk)
    ordered = {each.name: order_bounds(each) for each in fitted}
    if trail is not None:
        _tell_recommended(trail, recommended, kept)
        _tell_absent(trail, vpa.status.recommendation, names)
        fit(containers=containers, trail=trail)  # the same once more, told step by step
        _tell_moved(trail, capped.recommendations, settled, SETTLED)
        _tell_shrunk(trail, shrunk)
        _tell_fitted(trail, whole, fitted)
        _tell_ordered(trail, fitted, ordered)
    if exhausted and not any(each.target for each in fitted):
        return Processed({}, {}, bounds, Unfit(tuple(in_order(exhausted))))
    return Processed(
        ordered, _with_exhausted(capped.notes, whole, exhausted), bounds, shrunk=shrunk
    )


def _fit_into(
    bounds: PodLevelBounds,
    settled: Sequence[ContainerAmounts],
    steep: Sequence[ContainerAmounts],
    had: Written,
    shrunk: _Requests,
) -> tuple[Sequence[ContainerAmounts], frozenset[str]]:
    """Fit target, lower and upper bound into the pod's own resources.

    A target between the answers for ``settled`` and those for ``steep`` stays what it was (A19).
    What rounding leaves beside ``shrunk`` containers goes to the recommended ones, as it would at
    the next look at the pod. Returned are also the resources for which nothing fits: they are
    dropped.
    """
    fitted = bounds.fit({each.name: each.target for each in settled})
    targets = fitted.requests
    if shrunk:
        targets = _beside_shrunk(bounds, settled, targets, shrunk)
    if had:
        answers = [bounds.fit(each).requests for each in corners(settled, steep)]
        targets = hold_between(targets, answers, had)
    lowers = bounds.fit({each.name: each.lower_bound for each in settled}).requests
    uppers = bounds.fit({each.name: each.upper_bound for each in settled}).requests
    containers = tuple(
        replace(
            each,
            target=targets[each.name],
            lower_bound=lowers[each.name],
            upper_bound=uppers[each.name],
        )
        for each in settled
    )
    return containers, fitted.exhausted


def _beside_shrunk(
    bounds: PodLevelBounds,
    settled: Sequence[ContainerAmounts],
    targets: _Requests,
    shrunk: _Requests,
) -> _Requests:
    """Fit what is recommended once more, beside what the shrunk containers have by now."""
    lowered = {
        name: {each: targets[name][each] for each in requests if each in targets[name]}
        for name, requests in shrunk.items()
    }
    wanted = {
        each.name: {
            name: value
            for name, value in each.target.items()
            if name not in shrunk.get(each.name, ()) and name in targets[each.name]
        }
        for each in settled
    }
    again = bounds.fit(wanted, beside=lowered).requests
    return {name: {**own, **again[name]} for name, own in targets.items()}


def _with_exhausted(
    notes: Mapping[str, tuple[str, ...]],
    wanted: Sequence[ContainerAmounts],
    exhausted: frozenset[str],
) -> Mapping[str, tuple[str, ...]]:
    """Add which targets are dropped because nothing fits into the pod's own resources."""
    found = dict(notes)
    for each in wanted:
        dropped = tuple(
            f"{name} {_LEFT_ALONE}" for name in in_order(exhausted & each.target.keys())
        )
        if dropped:
            found[each.name] = found.get(each.name, ()) + dropped
    return found


def _with_shrunk(
    amounts: Sequence[ContainerAmounts], shrunk: _Requests
) -> Sequence[ContainerAmounts]:
    """Add the targets of what isn't recommended, but has to be shared out (A29)."""
    if not shrunk:
        return amounts
    there = {each.name: each for each in amounts}
    for name, requests in shrunk.items():
        own = there.get(name) or ContainerAmounts(name=name, target={})
        there[name] = replace(own, target={**requests, **own.target})
    return tuple(there.values())


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
    return ContainerAmounts(  # quicker than ``replace``, and called for each container of each pod
        name=amounts.name,
        target=amounts.target,
        lower_bound=_paired(min, amounts.target, amounts.lower_bound),
        upper_bound=_paired(max, amounts.target, amounts.upper_bound),
        uncapped_target=amounts.uncapped_target,
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


def _tell_moved(
    trail: Trail,
    before: Sequence[ContainerAmounts],
    after: Sequence[ContainerAmounts],
    cause: str,
) -> None:
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


def _tell_fitted(
    trail: Trail, whole: Sequence[ContainerAmounts], fitted: Sequence[ContainerAmounts]
) -> None:
    _tell_moved(trail, whole, fitted, LOWERED_FOR_POD_LEVEL)
    for old, new in zip(whole, fitted, strict=True):
        for amount, was, now in _amounts_of(old, new):
            for resource in in_order(was.keys() - now.keys()):
                trail.add(old.name, amount, resource, NO_ROOM_IN_POD, None)


def _tell_shrunk(trail: Trail, shrunk: _Requests) -> None:
    for name, requests in shrunk.items():
        trail.given(name, Amount.REQUEST, requests, SHARED_WITH_ALL)


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

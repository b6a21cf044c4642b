"""From the recommendation of a VPA to the numbers for one pod.

Admission and updater both call this, so that an admitted pod is what the updater wants.

Source: admission.md 6.2; vertical-pod-autoscaler/pkg/utils/vpa/recommendation_processor.go.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from common.api.autoscaling import RecommendedPodResources, ResourcePolicy, VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod
from common.quantity import Quantity
from common.recommendation.actual import containers_of
from common.recommendation.amounts import ContainerAmounts
from common.recommendation.capping import Capped, cap_for_pod
from common.recommendation.limit_range import LimitType, effective_limits
from common.recommendation.pod_amounts import Phase, phases_of
from common.recommendation.pod_level import PodLevelBounds, Unfit
from common.recommendation.pod_limits import shrink_others, with_requests
from common.recommendation.policy import container_policy, is_off
from common.recommendation.rounding_stability import (
    Written,
    keep_rounded,
    mark_standing_limits,
    never_nothing,
    possible_ratios,
)
from common.resources import ResourceQuantities, in_order, parse_quantities

__all__ = ["ContainerAmounts", "Processed", "ProcessingStages", "process", "process_in_stages"]

_Requests = Mapping[str, ResourceQuantities]  # by container

_LEFT_ALONE = "left as it is: spec.resources of the pod have no room for it"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingStages:
    """What is recommended for each container after each step of ``process``, in their order."""

    recommended: Sequence[ContainerAmounts]
    kept: Sequence[ContainerAmounts]  # without those that are switched off (A17, A22)
    capped: Capped
    scaled: Sequence[ContainerAmounts]  # to no less than one unit (A20)
    shrunk: Mapping[str, ResourceQuantities]  # see ``Processed``
    whole: Sequence[ContainerAmounts]  # with ``shrunk`` requests (A29)
    fitted: Sequence[ContainerAmounts]  # into the pod's own resources (A25, A26)
    stable: Sequence[ContainerAmounts]  # without changes that only rounding makes (A19)
    ordered: Sequence[ContainerAmounts]  # with bounds around the target (A14)
    processed: Processed


def process(
    pod: Pod,
    vpa: VerticalPodAutoscaler,
    limit_ranges: Sequence[LimitRangeSpec],
    *,
    bounds: PodLevelBounds | None = None,
    written: Written | None = None,
) -> Processed | None:
    """Return the result of ``process_in_stages`` alone; None if there is no recommendation yet."""
    stages = process_in_stages(pod, vpa, limit_ranges, bounds=bounds, written=written)
    return None if stages is None else stages.processed


def process_in_stages(
    pod: Pod,
    vpa: VerticalPodAutoscaler,
    limit_ranges: Sequence[LimitRangeSpec],
    *,
    bounds: PodLevelBounds | None = None,
    written: Written | None = None,
    targets_only: bool = False,
) -> ProcessingStages | None:
    """Fit the recommendation of a VPA to a pod; None if there is none yet.

    ``limit_ranges`` are all of the pod's namespace. The steps: drop containers that the pod doesn't
    have or that are switched off (A17) and resources without a name (A22), cap as the reference
    does but for A13 and A18, scale nothing down to zero (A20), fit into the pod's own resources
    (A25, A26), keep what only rounding would change (A19), put the bounds in order (A14).
    ``bounds`` are those of the pod's own resources, if it has some.
    ``written`` are the requests of containers that came boosted, before their boosts (A23). With
    ``targets_only`` bounds are neither read nor computed; no pod is given any.

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
        targets = _targets(_with_shrunk(again.recommendations, others))
        # What the pod's own resources have no room for isn't set: then sharing out changes nothing.
        unset = bounds.fit(targets).exhausted if bounds is not None else frozenset[str]()
        if not again.exhausted and not unset:
            containers, shrunk, capped = smaller, others, again
    scaled: Sequence[ContainerAmounts] = capped.recommendations
    if limit_ranges:
        scaled = never_nothing(scaled, kept)
    whole = _with_shrunk(scaled, shrunk)
    fitted, exhausted = whole, frozenset[str]()
    if bounds is not None:
        fitted, exhausted = _fit_into(bounds, whole, shrunk)
    stable = fitted
    if limit_ranges:

        def alternatives() -> Iterator[_Requests]:
            for each in possible_ratios(containers, kept):
                amounts = never_nothing(fit(containers=each).recommendations, kept)
                targets = _targets(_with_shrunk(amounts, shrunk))
                yield targets if bounds is None else bounds.fit(targets).requests

        had = {each.name: each.requests for each in containers} | dict(written or {})
        targets = keep_rounded(_targets(fitted), had, alternatives)
        stable = tuple(replace(each, target=targets[each.name]) for each in fitted)
    ordered = tuple(order_bounds(each) for each in stable)
    if exhausted and not any(each.target for each in stable):
        processed = Processed({}, {}, bounds, Unfit(tuple(in_order(exhausted))))
    else:
        notes = _with_exhausted(capped.notes, whole, exhausted)
        by_name = {each.name: each for each in ordered}
        processed = Processed(by_name, notes, bounds, shrunk=shrunk)
    return ProcessingStages(
        recommended=recommended,
        kept=kept,
        capped=capped,
        scaled=scaled,
        shrunk=shrunk,
        whole=whole,
        fitted=fitted,
        stable=stable,
        ordered=ordered,
        processed=processed,
    )


def _fit_into(
    bounds: PodLevelBounds,
    whole: Sequence[ContainerAmounts],
    shrunk: _Requests,
) -> tuple[Sequence[ContainerAmounts], frozenset[str]]:
    """Fit target, lower and upper bound into the pod's own resources.

    What rounding leaves beside ``shrunk`` containers goes to the recommended ones, as it would at
    the next look at the pod. Returned are also the resources for which nothing fits: they are
    dropped.
    """
    fitted = bounds.fit(_targets(whole))
    targets = fitted.requests
    if shrunk:
        targets = _beside_shrunk(bounds, whole, targets, shrunk)
    lowers = bounds.fit({each.name: each.lower_bound for each in whole}).requests
    uppers = bounds.fit({each.name: each.upper_bound for each in whole}).requests
    containers = tuple(
        replace(
            each,
            target=targets[each.name],
            lower_bound=lowers[each.name],
            upper_bound=uppers[each.name],
        )
        for each in whole
    )
    return containers, fitted.exhausted


def _targets(amounts: Sequence[ContainerAmounts]) -> _Requests:
    return {each.name: each.target for each in amounts}


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

"""Processing of a VPA's recommendation for one pod.

Admission and updater both use it, so the updater doesn't update a pod that was just admitted.

Source: admission.md 6.2; vertical-pod-autoscaler/pkg/utils/vpa/recommendation_processor.go.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from common.api.autoscaling import RecommendedPodResources, ResourcePolicy, VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod
from common.quantity import Quantity
from common.recommendation.actual_resources import containers_of
from common.recommendation.amounts import ContainerAmounts, with_amounts
from common.recommendation.capping import Capped, cap_for_pod
from common.recommendation.limit_range import LimitType, effective_limits
from common.recommendation.pod_amounts import Phase, phases_of
from common.recommendation.pod_level import PodLevelBounds, Unfit
from common.recommendation.pod_limit_range import shrink_others, with_requests
from common.recommendation.policy import container_policy, is_off
from common.recommendation.rounding_stability import (
    Written,
    at_least_one_unit,
    keep_rounded,
    mark_fixed_limits,
    possible_ratios,
)
from common.resources import ResourceQuantities, in_order, parse_quantities

__all__ = ["ContainerAmounts", "Processed", "ProcessingStages", "process", "process_in_stages"]

_Requests = Mapping[str, ResourceQuantities]  # by container

_LEFT_ALONE = "left as it is: spec.resources of the pod have no room for it"


@dataclass(frozen=True, slots=True)
class Processed:
    """A recommendation fitted to one pod, by container name.

    ``containers`` has only containers of the pod with a recommendation. ``notes`` are the capping
    notes of the targets. ``pod_level`` are the bounds of pod-level resources, None without any.
    ``unfit`` is the reason if no part of the recommendation fits. ``shrunk`` are lower requests of
    containers without a recommendation (A29).
    """

    containers: Mapping[str, ContainerAmounts]
    notes: Mapping[str, tuple[str, ...]]
    pod_level: PodLevelBounds | None = None
    unfit: Unfit | None = None
    shrunk: Mapping[str, ResourceQuantities] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingStages:
    """The amounts of each container after each step of processing, in the order of the steps."""

    recommended: Sequence[ContainerAmounts]
    kept: Sequence[ContainerAmounts]  # without mode Off (A17) and resources without a name (A22)
    capped: Capped
    scaled: Sequence[ContainerAmounts]  # to at least one unit (A20)
    shrunk: Mapping[str, ResourceQuantities]  # see ``Processed``
    whole: Sequence[ContainerAmounts]  # with ``shrunk`` requests (A29)
    fitted: Sequence[ContainerAmounts]  # into pod-level resources (A25, A26)
    stable: Sequence[ContainerAmounts]  # without changes due to rounding alone (A19)
    ordered: Sequence[ContainerAmounts]  # lower bound <= target <= upper bound (A14)
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

    The steps:

    1. Drop containers that the pod doesn't have or that have mode Off (A17), and resources without
       a name (A22).
    2. Cap as the reference does, except for A13, A18 and A27 to A30.
    3. Raise what was scaled down to zero to one unit (A20).
    4. Fit into pod-level resources (A25, A26), whose bounds are ``bounds``.
    5. Keep requests that only rounding would change (A19).
    6. Extend the bounds to include the target (A14).

    ``limit_ranges`` are all of the pod's namespace. ``written`` are the requests of boosted
    containers without their boosts (A23). With ``targets_only``, ignore lower and upper bounds.

    Raises:
        QuantityError: a quantity in the VPA, the pod or a LimitRange is malformed.
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
        containers = mark_fixed_limits(containers, policy)
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
        # Keep the first result if pod-level resources have no room for the shared requests.
        unset = bounds.fit(targets).exhausted if bounds is not None else frozenset[str]()
        if not again.exhausted and not unset:
            containers, shrunk, capped = smaller, others, again
    scaled: Sequence[ContainerAmounts] = capped.recommendations
    if limit_ranges:
        scaled = at_least_one_unit(scaled, kept)
    whole = _with_shrunk(scaled, shrunk)
    fitted, exhausted = whole, frozenset[str]()
    if bounds is not None:
        fitted, exhausted = _fit_into(bounds, whole, shrunk)
    stable = fitted
    if limit_ranges:

        def alternatives() -> Iterator[_Requests]:
            for each in possible_ratios(containers, kept):
                amounts = at_least_one_unit(fit(containers=each).recommendations, kept)
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
    """Fit target, lower and upper bound into pod-level resources.

    Containers with a recommendation get what rounding leaves beside ``shrunk`` ones, as they would
    in the next pass. Return also the dropped resources, for which nothing fits.
    """
    fitted = bounds.fit(_targets(whole))
    targets = fitted.requests
    if shrunk:
        targets = _beside_shrunk(bounds, whole, targets, shrunk)
    lowers = bounds.fit({each.name: each.lower_bound for each in whole}).requests
    uppers = bounds.fit({each.name: each.upper_bound for each in whole}).requests
    containers = with_amounts(whole, targets=targets, lower_bounds=lowers, upper_bounds=uppers)
    return containers, fitted.exhausted


def _targets(amounts: Sequence[ContainerAmounts]) -> _Requests:
    return {each.name: each.target for each in amounts}


def _beside_shrunk(
    bounds: PodLevelBounds,
    whole: Sequence[ContainerAmounts],
    targets: _Requests,
    shrunk: _Requests,
) -> _Requests:
    """Fit the recommended requests again, beside the fitted requests of ``shrunk`` containers."""
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
        for each in whole
    }
    again = bounds.fit(wanted, beside=lowered).requests
    return {name: {**own, **again[name]} for name, own in targets.items()}


def _with_exhausted(
    notes: Mapping[str, tuple[str, ...]],
    wanted: Sequence[ContainerAmounts],
    exhausted: frozenset[str],
) -> Mapping[str, tuple[str, ...]]:
    """Add notes on the targets that are dropped because nothing fits into pod-level resources."""
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
    """Add ``shrunk`` requests as targets (A29)."""
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
    """Parse the recommendation of a status; of entries with the same name the first counts.

    Parse only the containers in ``names``, if given: there may be thousands of others. With
    ``targets_only``, parse only targets.

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
    """Drop containers with mode Off, because their recommendation is outdated (A17)."""
    return tuple(
        recommendation
        for recommendation in recommendations
        if not is_off(container_policy(policy, recommendation.name))
    )


def drop_nameless(recommendations: Sequence[ContainerAmounts]) -> tuple[ContainerAmounts, ...]:
    """Drop targets for a resource with an empty name, which no pod can have (A22)."""
    return tuple(
        replace(each, target={name: value for name, value in each.target.items() if name})
        if "" in each.target
        else each
        for each in recommendations
    )


def order_bounds(amounts: ContainerAmounts) -> ContainerAmounts:
    """Extend the bounds so that lower bound <= target <= upper bound, per resource (A14).

    The three are capped separately, so a policy or a LimitRange can change their order.
    """
    return ContainerAmounts(  # faster than ``replace``, and called for each container of each pod
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

"""Rules around capping, so that the result for an admitted pod is its present resources.

The reference's capping uses the ratio of a container's present limit to its present request, and
assumes that the limit will follow. An earlier capping wrote both numbers. Without these rules, what
it ignored or rounded would change the result, and the updater would replace the pod repeatedly.

Source: updater.md D31; these rules are ours.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from common.api.autoscaling import ResourcePolicy
from common.quantity import ZERO, Quantity
from common.recommendation.actual_resources import ContainerResources
from common.recommendation.amounts import ContainerAmounts
from common.recommendation.pod_amounts import as_stored
from common.recommendation.policy import ControlledValues, container_policy, controlled_values
from common.resources import RESOURCES, ResourceQuantities, one_unit

# Requests that an earlier admission may have written, by container; None: unknown.
Written = Mapping[str, Mapping[str, Quantity | None]]

Targets = Mapping[str, ResourceQuantities]  # by container
_Gap = tuple[str, Quantity, Quantity]  # container, request, target


def mark_fixed_limits(
    containers: Sequence[ContainerResources], policy: ResourcePolicy | None
) -> tuple[ContainerResources, ...]:
    """Mark the containers whose limits are fixed, because only requests are controlled.

    A LimitRange for containers then bounds the request itself. A maximum for the pod is reduced by
    the fixed limit (A18).
    """
    return tuple(
        replace(container, limits_follow=False) if _is_fixed(container, policy) else container
        for container in containers
    )


def _is_fixed(container: ContainerResources, policy: ResourcePolicy | None) -> bool:
    values = controlled_values(container_policy(policy, container.name))
    return values == ControlledValues.REQUESTS_ONLY


def possible_ratios(
    containers: Sequence[ContainerResources], recommended: Sequence[ContainerAmounts]
) -> Iterator[tuple[ContainerResources, ...]]:
    """Yield the containers with limits from which the present ones may have been rounded (A19).

    A limit in proportion to its request is rounded down, so the original ratio lies between the
    present one and that of a limit one millicore or byte larger. Admission doesn't write limits of
    containers without a recommendation, so they stay. A larger limit of one container can increase
    or decrease the shares of others. The extremes occur if all, one, or all but one of the
    containers have the larger limit.
    """
    names = {each.name for each in recommended}
    written = [each.name for each in containers if each.limits_follow and each.name in names]
    choices = [set(written)]
    if len(written) > 1:
        choices += [{name} for name in written]
    if len(written) > 2:
        choices += [set(written) - {name} for name in written]
    for larger in choices:
        yield tuple(
            replace(each, limits=_one_more(each.limits)) if each.name in larger else each
            for each in containers
        )


def _one_more(limits: ResourceQuantities) -> ResourceQuantities:
    return {
        name: limit if limit.is_zero else limit + one_unit(name) for name, limit in limits.items()
    }


def at_least_one_unit(
    capped: Sequence[ContainerAmounts], recommended: Sequence[ContainerAmounts]
) -> tuple[ContainerAmounts, ...]:
    """Raise a target that was scaled down to zero to one millicore or byte (A20).

    A request of zero has no limit in proportion. The container would keep a limit that violates the
    LimitRange, and lose its ratio.
    """
    given = {each.name: each.target for each in recommended}
    return tuple(
        replace(
            each,
            target={
                name: one_unit(name)
                if target.is_zero and given[each.name].get(name, ZERO).sign > 0
                else target
                for name, target in each.target.items()
            },
        )
        for each in capped
    )


def keep_rounded(
    targets: Targets, written: Written, others: Callable[[], Iterable[Targets]]
) -> dict[str, ResourceQuantities]:
    """Keep requests that differ from their targets by rounding alone (A19).

    Return a request instead of its target if it lies between the smallest and the largest target
    for the present ratios and for those that the limits may be rounded from (``others``). All
    requests that admission wrote do. If one request of a resource doesn't, keep none of that
    resource, because the pod differs for another reason.
    """
    near = {name: gaps for name in RESOURCES if (gaps := _near(name, targets, written))}
    kept = dict(targets)
    answers = (targets, *others()) if near else ()
    for resource, gaps in near.items():
        between = {
            name: [each[name][resource] for each in answers if resource in each[name]]
            for name, _, _ in gaps
        }
        if all(min(between[name]) <= request <= max(between[name]) for name, request, _ in gaps):
            for name, request, _ in gaps:
                kept[name] = {**kept[name], resource: request}
    return kept


def _near(resource: str, targets: Targets, written: Written) -> Sequence[_Gap]:
    """Return the gaps, or nothing if they are too large for rounding, to avoid ``others``.

    A limit is at least its request, so one more unit of it changes a target at most in the ratio of
    one unit to the smallest request, and by some units more if several containers share.
    """
    slack = 4 * len(targets) + 4
    unit = one_unit(resource).nanos
    requests = (written[name].get(resource) or ZERO for name in targets)
    least = min((each.nanos // unit for each in requests if each.sign > 0), default=0)
    gaps = _gaps(resource, targets, written)
    for _, *ends in gaps:
        low, high = sorted(each.nanos // unit for each in ends)
        if high * least > (low + slack) * (least + 1):
            return ()
    return gaps


def _gaps(resource: str, targets: Targets, written: Written) -> Sequence[_Gap]:
    """Return the requests that differ from their targets.

    Ignore unknown requests, and targets of zero.
    """
    gaps: list[_Gap] = []
    for name, values in targets.items():
        target = as_stored(values.get(resource, ZERO))
        request = written[name].get(resource, ZERO)
        if not target.is_zero and request is not None and request != target:
            gaps.append((name, request, target))
    return gaps

"""What keeps a pod that admission wrote from being changed again: rules around the capping.

The recorded capping looks at the ratio of a container's present limit to its present request, and
takes it that a limit will follow. Both numbers are those that an earlier capping wrote, so that
what it left out of account, or rounded, comes back as another answer; the updater would replace
that pod again and again.

Source: updater.md D31; these rules are ours.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from common.api.autoscaling import ResourcePolicy
from common.quantity import ZERO, Quantity
from common.recommendation.actual import ContainerResources
from common.recommendation.amounts import ContainerAmounts
from common.recommendation.pod_amounts import as_stored
from common.recommendation.policy import ControlledValues, container_policy, controlled_values
from common.resources import RESOURCES, ResourceQuantities, one_unit

# By container, the requests that an earlier admission may have written; None: unknown.
Written = Mapping[str, Mapping[str, Quantity | None]]

Targets = Mapping[str, ResourceQuantities]  # by container
_Gap = tuple[str, Quantity, Quantity]  # container, request, and target


def mark_standing_limits(
    containers: Sequence[ContainerResources], policy: ResourcePolicy | None
) -> tuple[ContainerResources, ...]:
    """Mark the containers whose limits stay as they are, because only requests are controlled.

    A LimitRange then bounds their requests as they are, not the requests whose limits would
    meet the bound, and a pod's maximum leaves them what their limits take (A18).
    """
    return tuple(
        replace(container, limits_follow=False) if _stands(container, policy) else container
        for container in containers
    )


def _stands(container: ContainerResources, policy: ResourcePolicy | None) -> bool:
    values = controlled_values(container_policy(policy, container.name))
    return values == ControlledValues.REQUESTS_ONLY


def possible_ratios(
    containers: Sequence[ContainerResources], recommended: Sequence[ContainerAmounts]
) -> Iterator[tuple[ContainerResources, ...]]:
    """Yield the containers with limits that may have been rounded to those that they have (A19).

    A limit in proportion to its request is rounded down, so the ratio that it was computed with
    lies between the present one and that of a limit one millicore or byte above. Admission doesn't
    write the limits of containers without a recommendation, so these are not varied. A larger limit
    of one container can raise or lower what is left to the others: the extremes are where all, one,
    or all but one of them have the larger limit.
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


def never_nothing(
    capped: Sequence[ContainerAmounts], recommended: Sequence[ContainerAmounts]
) -> tuple[ContainerAmounts, ...]:
    """Leave one millicore or byte of a target that was scaled down to nothing (A20).

    A request of zero has no limit in proportion, so the container would keep a limit that the
    LimitRange has no room for; and its ratio would be lost.
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

    They are those that lie between the targets and what these were in ``others``, for the ratios
    that limits may be rounded from. What admission wrote lies there, for all containers at once.
    Where a single request doesn't, the pod is another one, and nothing of the resource is kept.
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
    """Return the gaps if rounding may be why they are there: a quick look, to save the others.

    One more unit of a limit, which is no smaller than its request, takes as much of an answer as
    one unit is of the smallest request, and some units more where several containers share.
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
    """Return the requests that aren't their targets.

    An unknown one is taken for its target, and a target of zero has no part in any sum.
    """
    gaps: list[_Gap] = []
    for name, values in targets.items():
        target = as_stored(values.get(resource, ZERO))
        request = written[name].get(resource, ZERO)
        if not target.is_zero and request is not None and request != target:
            gaps.append((name, request, target))
    return gaps

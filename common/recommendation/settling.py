"""What keeps a pod that admission wrote from being changed again: rules around the capping.

The recorded capping looks at the ratio of a container's present limit to its present request, and
takes it that a limit will follow. Both numbers are those that an earlier capping wrote, so that
what it left out of account, or rounded, comes back as another answer; the updater would replace
such a pod again and again.

Source: updater.md D31; these rules are ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from common.api.autoscaling import ResourcePolicy
from common.quantity import ZERO, Quantity
from common.recommendation.actual import ContainerResources
from common.recommendation.amounts import ContainerAmounts
from common.recommendation.policy import ControlledValues, container_policy, controlled_values
from common.resources import CPU, RESOURCES, ResourceQuantities

_MILLICORE = Quantity.from_milli(1)
_BYTE = Quantity.from_value(1)

# By container, the requests that an earlier admission may have written; None: it can't be told.
Written = Mapping[str, Mapping[str, Quantity | None]]


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


def steepest(
    containers: Sequence[ContainerResources], recommended: Sequence[ContainerAmounts]
) -> tuple[ContainerResources, ...]:
    """The containers with the largest limits that may have been rounded to what they have.

    A limit in proportion to its request is rounded down, so the ratio that it was computed
    with lies between the present one and that of a limit one millicore or byte above (A19).
    Limits that nobody wrote, of containers without a recommendation, are what they are.
    """
    names = {each.name for each in recommended}
    return tuple(
        replace(each, limits=_one_more(each.limits))
        if each.limits_follow and each.name in names
        else each
        for each in containers
    )


def _one_more(limits: ResourceQuantities) -> ResourceQuantities:
    return {name: limit if limit.is_zero else limit + _unit(name) for name, limit in limits.items()}


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
                name: _unit(name)
                if target.is_zero and given[each.name].get(name, ZERO).sign > 0
                else target
                for name, target in each.target.items()
            },
        )
        for each in capped
    )


def may_be_rounded(capped: Sequence[ContainerAmounts], written: Written) -> bool:
    """Whether rounding may be why requests are below their targets: a quick look, to save a fit.

    One more unit of a limit, which is no smaller than its request, takes as much of an answer as
    one unit is of the smallest request, and some units more where several containers share.
    """
    slack = 4 * len(capped) + 4
    for resource in RESOURCES:
        unit = _unit(resource).nanos
        gaps = [
            (request.nanos // unit, target.nanos // unit)
            for _, request, target in _gaps(resource, capped, written)
        ]
        requests = (written[each.name].get(resource) or ZERO for each in capped)
        least = min((each.nanos // unit for each in requests if each.sign > 0), default=0)
        if gaps and all(
            request <= target and target * least <= (request + slack) * (least + 1)
            for request, target in gaps
        ):
            return True
    return False


def hold_rounded(
    capped: Sequence[ContainerAmounts], steep: Sequence[ContainerAmounts], written: Written
) -> tuple[ContainerAmounts, ...]:
    """Keep requests that are the answer for ratios which their limits may be rounded from (A19).

    ``capped`` is the answer for the containers as they are, ``steep`` that for the ``steepest``
    ones. A larger limit never makes for a larger request, so every answer for ratios between
    theirs lies between them; and what admission wrote is one of these, for all containers at
    once. Where a single request is none, the pod is another one, and nothing of it is kept.
    """
    least = {each.name: each.target for each in steep}
    held: dict[str, dict[str, Quantity]] = {each.name: {} for each in capped}
    for resource in RESOURCES:
        gaps = _gaps(resource, capped, written)
        if all(least[name][resource] <= request < target for name, request, target in gaps):
            for name, request, _ in gaps:
                held[name][resource] = request
    return tuple(replace(each, target={**each.target, **held[each.name]}) for each in capped)


def corners(
    capped: Sequence[ContainerAmounts], steep: Sequence[ContainerAmounts]
) -> list[dict[str, ResourceQuantities]]:
    """Return the targets that lie furthest apart, between ``capped`` and ``steep``.

    What containers share into a fixed room grows with a container's own target and shrinks with
    those of the others. So the extremes are where one container has one answer and the rest the
    other one.
    """
    high = {each.name: each.target for each in capped}
    low = {each.name: each.target for each in steep}
    if high == low:
        return []
    mixed = [{**high, name: low[name]} for name in high] + [
        {**low, name: high[name]} for name in high
    ]
    return [high, low, *mixed]


def hold_between(
    targets: Mapping[str, ResourceQuantities],
    answers: Sequence[Mapping[str, ResourceQuantities]],
    written: Written,
) -> dict[str, ResourceQuantities]:
    """Keep requests that lie between the answers for ratios which limits may be rounded from (A19).

    As ``hold_rounded``, where containers share a room: then a larger limit of one may make for a
    larger request of another.
    """
    held = dict(targets)
    for resource in RESOURCES if answers else ():
        kept: dict[str, Quantity] = {}
        for name, target in targets.items():
            request = written[name].get(resource, ZERO)
            if target.get(resource, ZERO).is_zero or request == target[resource]:
                continue
            found = [each[name][resource] for each in answers if resource in each[name]]
            if request is None or not found or not min(found) <= request <= max(found):
                break
            kept[name] = request
        else:
            for name, request in kept.items():
                held[name] = {**held[name], resource: request}
    return held


def _gaps(
    resource: str, capped: Sequence[ContainerAmounts], written: Written
) -> list[tuple[str, Quantity, Quantity]]:
    """(container, request, target) wherever a request isn't its target.

    One that can't be told is taken for it, and a target of zero has no part in any sum.
    """
    gaps: list[tuple[str, Quantity, Quantity]] = []
    for each in capped:
        target = each.target.get(resource, ZERO)
        request = written[each.name].get(resource, ZERO)
        if not target.is_zero and request is not None and request != target:
            gaps.append((each.name, request, target))
    return gaps


def _unit(resource: str) -> Quantity:
    return _MILLICORE if resource == CPU else _BYTE

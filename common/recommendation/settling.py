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
from common.recommendation.capping import ContainerAmounts
from common.recommendation.policy import ControlledValues, container_policy, controlled_values
from common.resources import CPU, RESOURCES, ResourceQuantities

_UNIT = {CPU: Quantity.from_milli(1)}
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
    return {
        name: limit if limit.is_zero else limit + _UNIT.get(name, _BYTE)
        for name, limit in limits.items()
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
                name: _UNIT.get(name, _BYTE)
                if target.is_zero and given[each.name].get(name, ZERO).sign > 0
                else target
                for name, target in each.target.items()
            },
        )
        for each in capped
    )


def may_be_rounded(
    amounts: Sequence[ContainerAmounts],
    containers: Sequence[ContainerResources],
    written: Written,
) -> bool:
    """Whether rounding may be why some request is below its target: a quick look, to save a fit.

    One more unit of a limit lowers an answer by as much as that is of the smallest limit, and
    by some units more where several containers share. Tiny answers are always looked at.
    """
    names = {each.name for each in amounts}
    slack = 4 * len(containers) + 4  # units; generous, because this must never miss
    for resource in RESOURCES:
        unit = _UNIT.get(resource, _BYTE).nanos
        limits = [
            each.limits[resource].nanos // unit
            for each in containers
            if each.limits_follow and each.name in names and resource in each.limits
        ]
        least = min((limit for limit in limits if limit), default=0)
        if not least:
            continue
        for each in amounts:
            request = written[each.name].get(resource)
            target = each.target.get(resource)
            if request is None or target is None or request >= target:
                continue
            has, wants = request.nanos // unit, target.nanos // unit
            if wants <= slack or wants * least // (least + 1) - slack <= has:
                return True
    return False


def hold_rounded(
    capped: Sequence[ContainerAmounts],
    steep: Sequence[ContainerAmounts],
    written: Written,
) -> tuple[ContainerAmounts, ...]:
    """Keep requests that are the answer for ratios which their limits may be rounded from (A19).

    ``capped`` is the answer for the containers as they are, ``steep`` that for the ``steepest``
    ones. A larger limit never makes for a larger request, so every answer for ratios between
    theirs lies between them; and what admission wrote is one of these, for all containers at
    once. Where a single request is none, the pod is another one, and nothing of it is kept.
    """
    kept = [
        resource
        for resource in RESOURCES
        if all(
            _explained(resource, each, other, written[each.name])
            for each, other in zip(capped, steep, strict=True)
        )
    ]
    return tuple(
        replace(
            each,
            target={
                name: (written[each.name][name] or target)
                if name in kept and not target.is_zero
                else target
                for name, target in each.target.items()
            },
        )
        for each in capped
    )


def _explained(
    resource: str,
    capped: ContainerAmounts,
    steep: ContainerAmounts,
    written: Mapping[str, Quantity | None],
) -> bool:
    target = capped.target.get(resource, ZERO)
    if target.is_zero:
        return True  # it has no part in any sum
    if resource not in written:
        return False
    request = written[resource]
    return request is None or request == target or steep.target[resource] <= request <= target

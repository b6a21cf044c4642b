"""Decreases of memory limits that the kubelet reports as failed, and the way back (X139).

A new limit below the usage is an error, and the kubelet lowers the limit as soon as the usage falls
below it, without any margin. The new request counts as granted from the beginning.
"""

from collections.abc import Collection
from dataclasses import replace

from common.api.core import Container, Pod, ResourceRequirements
from common.quantity import ZERO, QuantityError
from common.recommendation.container_resources import WantedResources
from common.recommendation.scaled_containers import scaled_specs
from common.resources import MEMORY, ResourceQuantities, parse_quantities
from updater.resize.limit_decrease import LimitDecrease
from updater.resize.pending_resize import granted_resources
from updater.resize.resize_plan import ResizePlan, plan_resize
from updater.resize.resize_status import ResizeStatus, resize_status

_NOTHING = ResourceRequirements()


def failed_decreases(pod: Pod) -> tuple[LimitDecrease, ...]:
    """Return the decreases of a resize in error, to the limits of the spec.

    The result is empty if a quantity can't be read.
    """
    if resize_status(pod) is not ResizeStatus.ERROR:
        return ()
    try:
        granted = granted_resources(pod)
        return tuple(
            LimitDecrease(
                container=container.name,
                limit=present,
                request=granted[container.name].requests.get(MEMORY, ZERO),
                new_limit=limit,
                new_request=granted[container.name].requests.get(MEMORY, ZERO),
                waits=True,
            )
            for container in scaled_specs(pod)
            if (present := granted[container.name].limits.get(MEMORY)) is not None
            and (limit := _limits(container).get(MEMORY)) is not None
            and limit < present
        )
    except QuantityError:
        return ()


def plan_way_back(pod: Pod, decreases: Collection[LimitDecrease]) -> ResizePlan:
    """Plan the resize to the limits before these decreases.

    A request that equals its limit goes back with it, because the QoS class may not change. Any
    other stays: more of it might not be granted.

    Raises:
        QuantityError: one of the values is no quantity.
    """
    back = {each.container: each for each in decreases}
    wanted = tuple(_before(container, back.get(container.name)) for container in scaled_specs(pod))
    plan = plan_resize(pod, wanted, back.keys(), containers={})
    return replace(plan, withdraws=True, restarts=False)


def _limits(container: Container) -> ResourceQuantities:
    return parse_quantities((container.resources or _NOTHING).limits)


def _before(container: Container, decrease: LimitDecrease | None) -> WantedResources:
    if decrease is None or decrease.limit is None:
        return WantedResources()
    amounts = {MEMORY: decrease.limit}
    requests = parse_quantities((container.resources or _NOTHING).requests)
    equal = requests.get(MEMORY) == _limits(container).get(MEMORY)
    return WantedResources(requests=amounts if equal else {}, limits=amounts)

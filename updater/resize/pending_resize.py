"""Pending resizes: the resources that the kubelet has granted, and replacement resizes (X100)."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from common.api.core import Container, Pod, ResourceRequirements
from common.quantity import QuantityError
from common.recommendation.actual_resources import ContainerResources
from common.recommendation.container_resources import WantedResources
from common.recommendation.pod_level import PodLevelBounds
from common.recommendation.processing import ContainerAmounts
from common.recommendation.scaled_containers import scaled_specs, scaled_statuses
from common.resources import RESOURCES, ResourceQuantities, one_unit, parse_quantities
from updater.evaluate.drift import forgive_rounding
from updater.resize.infeasible_resize import spec_requests
from updater.resize.resize_plan import ResizePlan, plan_resize
from updater.resize.resize_status import ResizeStatus, resize_status

_NOTHING = ResourceRequirements()
_NO_CHANGE = WantedResources()
PENDING = (ResizeStatus.DEFERRED, ResizeStatus.INFEASIBLE)

Wanted = tuple[WantedResources, ...]
"""The wanted resources of each scaled container, in the order of the spec."""


def is_pending(pod: Pod) -> bool:
    """Return whether the pod's resize is deferred or infeasible."""
    return resize_status(pod) in PENDING


def granted_resources(pod: Pod) -> dict[str, ContainerResources]:
    """Return the granted resources of each container; the spec's if none are reported.

    Allocated requests take precedence over actual ones, which the kubelet may have rounded.

    Raises:
        QuantityError: one of the values is no quantity.
    """
    reported = {status.name: status for status in scaled_statuses(pod)}
    granted = {}
    for container in scaled_specs(pod):
        status = reported.get(container.name)
        actual = None if status is None else status.resources
        allocated = None if status is None or actual is None else status.allocated_resources
        has = actual or container.resources or _NOTHING
        granted[container.name] = ContainerResources(
            name=container.name,
            requests={**parse_quantities(has.requests), **parse_quantities(allocated)},
            limits=parse_quantities(has.limits),
        )
    return granted


def pending_of(pod: Pod, containers: Collection[str]) -> frozenset[str]:
    """Return the containers of these whose spec requests differ from the granted ones.

    The result is empty if a quantity can't be read.
    """
    try:
        granted = granted_resources(pod)
        return frozenset(
            name
            for name, requests in spec_requests(pod).items()
            if name in containers and _differ(requests, granted[name].requests)
        )
    except QuantityError:
        return frozenset()


def plan_following(
    pod: Pod,
    wanted: Wanted,
    chosen: Collection[str],
    *,
    containers: Mapping[str, ContainerAmounts],
    bounds: PodLevelBounds | None = None,
) -> ResizePlan:
    """Plan the resize that replaces a pending one.

    As ``plan_resize``, except that a request that equals the granted one but for rounding (D31)
    is set to the granted amount, with its limit. ``lowers`` and ``withdraws`` of the plan are set.
    """
    granted = granted_resources(pod)
    slack = len(scaled_specs(pod))
    requests = {name: each.requests for name, each in granted.items()}
    forgiven = forgive_rounding(requests, containers, slack=slack)
    following = tuple(
        _kept_where_equal(want, granted[container.name], forgiven.get(container.name, {}))
        for container, want in zip(scaled_specs(pod), wanted, strict=True)
    )
    plan = plan_resize(pod, following, chosen, containers=containers, bounds=bounds)
    requested = forgive_rounding(spec_requests(pod), containers, slack=slack)
    lowers = any(
        (container.name, resource) in plan.changes and amount < requested[container.name][resource]
        for container, want in zip(scaled_specs(pod), following, strict=True)
        for resource, amount in want.requests.items()
        if resource in requested.get(container.name, {})
    )
    withdraws = bool(plan.changes) and _leaves_as_granted(pod, following, plan, granted)
    if not is_consistent(pod, following):
        return plan  # the API server would refuse it
    restarts = plan.restarts and not withdraws
    return replace(plan, lowers=lowers, withdraws=withdraws, restarts=restarts)


def plan_other_specs(pod: Pod, containers: Mapping[str, ContainerAmounts]) -> Iterator[ResizePlan]:
    """Yield resizes after which an infeasible one can be sent again (X101), the best first.

    The kubelet ignores an infeasible resize until the spec changes. The best resize restores the
    granted resources. A request that the infeasible resize added can't be removed: it becomes one
    unit or, for a LimitRange with a minimum, one unit less than now.
    """
    withdrawal = plan_withdrawal(pod, containers)
    if withdrawal is not None:
        yield withdrawal
    added = _added_requests(pod)
    smallest = [{name: one_unit(name) for name in requests} for requests in added]
    one_less = [
        {name: amount - one_unit(name) for name, amount in requests.items()} for requests in added
    ]
    for smaller in (smallest, one_less):
        wanted = tuple(WantedResources(requests=requests) for requests in smaller)
        plan = plan_resize(pod, wanted, containers, containers=containers)
        if plan.changes:
            yield plan


def _added_requests(pod: Pod) -> list[ResourceQuantities]:
    """Return the spec's requests of each container for resources without a granted request."""
    granted = granted_resources(pod)
    return [
        {
            name: amount
            for name, amount in requests.items()
            if name in RESOURCES and name not in granted[container].requests
        }
        for container, requests in spec_requests(pod).items()
    ]


def plan_withdrawal(pod: Pod, containers: Mapping[str, ContainerAmounts]) -> ResizePlan | None:
    """Plan the resize of recommended containers to their granted resources; None: impossible."""
    granted = granted_resources(pod)
    wanted = tuple(
        as_granted(container, granted[container.name])
        if container.name in containers
        else _NO_CHANGE
        for container in scaled_specs(pod)
    )
    plan = plan_resize(pod, wanted, containers, containers=containers)
    if not plan.changes or not is_consistent(pod, wanted):
        return None
    return replace(plan, restarts=False, withdraws=True)


def as_granted(container: Container, granted: ContainerResources) -> WantedResources:
    """Return the granted amounts of the resources that the container's spec names."""
    spec = container.resources or _NOTHING
    return WantedResources(
        requests=_named(granted.requests, spec.requests),
        limits=_named(granted.limits, spec.limits),
    )


def is_consistent(pod: Pod, wanted: Wanted) -> bool:
    """Return whether all requests stay within their limits."""
    for container, want in zip(scaled_specs(pod), wanted, strict=True):
        spec = container.resources or _NOTHING
        requests = {**parse_quantities(spec.requests), **want.requests}
        limits = {**parse_quantities(spec.limits), **want.limits}
        if any(name in limits and amount > limits[name] for name, amount in requests.items()):
            return False
    return True


def _kept_where_equal(
    want: WantedResources, granted: ContainerResources, forgiven: ResourceQuantities
) -> WantedResources:
    equal = [
        name
        for name, amount in want.requests.items()
        if name in forgiven and forgiven[name].milli == amount.milli
    ]
    limits = {name: granted.limits[name] for name in equal if name in granted.limits}
    return replace(
        want,
        requests={**want.requests, **{name: granted.requests[name] for name in equal}},
        limits={**want.limits, **limits},
    )


def _leaves_as_granted(
    pod: Pod, wanted: Wanted, plan: ResizePlan, granted: Mapping[str, ContainerResources]
) -> bool:
    """Return whether every container's spec would equal its granted resources."""
    changing, requested = {name for name, _ in plan.changes}, spec_requests(pod)
    for container, want in zip(scaled_specs(pod), wanted, strict=True):
        has, change = granted[container.name], _NO_CHANGE
        if container.name in changing:
            change = want
            if any(
                name in has.limits and has.limits[name].milli != amount.milli
                for name, amount in want.limits.items()
            ):
                return False
        if _differ({**requested[container.name], **change.requests}, has.requests):
            return False
    return True


def _differ(one: ResourceQuantities, other: ResourceQuantities) -> bool:
    return any(
        (name in one) != (name in other) or (name in one and one[name].milli != other[name].milli)
        for name in RESOURCES
    )


def _named(amounts: ResourceQuantities, present: Mapping[str, object] | None) -> ResourceQuantities:
    return {
        name: amounts[name] for name in RESOURCES if name in amounts and name in (present or {})
    }

"""A pending resize: what the kubelet has granted, and what to ask for instead of it (X100)."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from common.api.core import Container, Pod, ResourceRequirements
from common.quantity import Quantity, QuantityError
from common.recommendation.container_resources import WantedResources
from common.recommendation.pod_level import PodLevelBounds
from common.recommendation.processing import ContainerAmounts
from common.recommendation.scaled_containers import scaled_specs, scaled_statuses
from common.resources import RESOURCES, ResourceQuantities, one_unit, parse_quantities
from updater.evaluate.update_order import forgive_rounding
from updater.resize.resize_plan import ResizePlan, plan_resize
from updater.resize.resize_state import ResizeStatus, resize_status

_NOTHING = ResourceRequirements()
_NO_CHANGE = WantedResources()
PENDING = (ResizeStatus.DEFERRED, ResizeStatus.INFEASIBLE)

Wanted = tuple[WantedResources, ...]
"""What is wanted for each container of the spec, in its order."""


@dataclass(frozen=True, slots=True)
class Granted:
    """Requests and limits that a container has, or that the kubelet is about to give it."""

    requests: ResourceQuantities
    limits: ResourceQuantities


def is_pending(pod: Pod) -> bool:
    """Return whether the kubelet has not granted the pod's resize, and may never do so."""
    return resize_status(pod) in PENDING


def granted_resources(pod: Pod) -> dict[str, Granted]:
    """Return what each container has been granted; what the spec says where nothing is reported.

    Allocated requests go before actual ones, which the kubelet may have rounded.

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
        granted[container.name] = Granted(
            requests={**parse_quantities(has.requests), **parse_quantities(allocated)},
            limits=parse_quantities(has.limits),
        )
    return granted


def pending_containers(pod: Pod, granted: Mapping[str, Granted]) -> frozenset[str]:
    """Return the containers whose spec requests something else than they have been granted."""
    return frozenset(
        container.name
        for container in scaled_specs(pod)
        if _differ(requests_of(container), granted[container.name].requests)
    )


def pending_of(pod: Pod, containers: Collection[str]) -> frozenset[str]:
    """Return those of these containers that have a pending resize; none if it can't be read."""
    try:
        return pending_containers(pod, granted_resources(pod)).intersection(containers)
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

    As ``plan_resize``, but a request that the container has already, but for rounding (D31), is
    set to what it has, and its limit with it. The plan says whether it asks for less than the spec,
    and whether it only withdraws the pending resize.
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
    asked = {container.name: requests_of(container) for container in scaled_specs(pod)}
    asked = forgive_rounding(asked, containers, slack=slack)
    lowers = any(
        (container.name, resource) in plan.changes and amount < asked[container.name][resource]
        for container, want in zip(scaled_specs(pod), following, strict=True)
        for resource, amount in want.requests.items()
        if resource in asked.get(container.name, {})
    )
    withdraws = bool(plan.changes) and _leaves_as_granted(pod, following, plan, granted)
    if not is_consistent(pod, following):
        return plan  # the API server would refuse it
    restarts = plan.restarts and not withdraws
    return replace(plan, lowers=lowers, withdraws=withdraws, restarts=restarts)


def plan_other_specs(pod: Pod, containers: Mapping[str, ContainerAmounts]) -> Iterator[ResizePlan]:
    """Plan resizes after which an infeasible one can be tried again (X101), the best first.

    The kubelet drops what it called infeasible until the spec is another one. The best is what the
    containers have. A request that the infeasible resize added can't be removed: it becomes its
    smallest unit, or, for a LimitRange with a minimum, a unit less than now.
    """
    withdrawal = plan_withdrawal(pod, containers)
    if withdrawal is not None:
        yield withdrawal
    added = _added_requests(pod)
    for smaller in (_smallest, _one_less):
        wanted = tuple(
            WantedResources(requests={name: smaller(name, each) for name, each in requests.items()})
            for requests in added
        )
        plan = plan_resize(pod, wanted, containers, containers=containers)
        if plan.changes:
            yield plan


def _added_requests(pod: Pod) -> list[ResourceQuantities]:
    """Return the requests of each container that it has not been granted at all."""
    granted = granted_resources(pod)
    return [
        {
            name: amount
            for name, amount in requests_of(container).items()
            if name in RESOURCES and name not in granted[container.name].requests
        }
        for container in scaled_specs(pod)
    ]


def _smallest(resource: str, _: Quantity) -> Quantity:
    return one_unit(resource)


def _one_less(resource: str, amount: Quantity) -> Quantity:
    return amount - one_unit(resource)


def plan_withdrawal(pod: Pod, containers: Mapping[str, ContainerAmounts]) -> ResizePlan | None:
    """Plan the resize to what the recommended containers have; None if the spec can't say that."""
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


def as_granted(container: Container, granted: Granted) -> WantedResources:
    """Return what the container has, of the resources that its spec names."""
    spec = container.resources or _NOTHING
    return WantedResources(
        requests=_named(granted.requests, spec.requests),
        limits=_named(granted.limits, spec.limits),
    )


def is_consistent(pod: Pod, wanted: Wanted) -> bool:
    """Return whether no request would be above its limit."""
    for container, want in zip(scaled_specs(pod), wanted, strict=True):
        spec = container.resources or _NOTHING
        requests = {**parse_quantities(spec.requests), **want.requests}
        limits = {**parse_quantities(spec.limits), **want.limits}
        if any(name in limits and amount > limits[name] for name, amount in requests.items()):
            return False
    return True


def requests_of(container: Container) -> ResourceQuantities:
    """Return what the container's spec requests."""
    return parse_quantities((container.resources or _NOTHING).requests)


def _kept_where_equal(
    want: WantedResources, granted: Granted, forgiven: ResourceQuantities
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
    pod: Pod, wanted: Wanted, plan: ResizePlan, granted: Mapping[str, Granted]
) -> bool:
    """Return whether the spec would ask for what every container has."""
    changing = {name for name, _ in plan.changes}
    for container, want in zip(scaled_specs(pod), wanted, strict=True):
        has, change = granted[container.name], _NO_CHANGE
        if container.name in changing:
            change = want
            if any(
                name in has.limits and has.limits[name].milli != amount.milli
                for name, amount in want.limits.items()
            ):
                return False
        if _differ({**requests_of(container), **change.requests}, has.requests):
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

"""The part of an infeasible resize that a node can hold (X102)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from common.api.core import Pod
from common.quantity import ZERO, Quantity
from common.recommendation.container_resources import WantedResources
from common.recommendation.pod_amounts import pod_amounts
from common.recommendation.processing import ContainerAmounts
from common.recommendation.scaled_containers import scaled_specs
from common.resources import RESOURCES, ResourceQuantities, parse_quantities
from updater.resize.infeasible_resize import Targets
from updater.resize.pending_resize import Wanted, as_granted, granted_resources, is_consistent
from updater.resize.resize_plan import ResizePlan, plan_resize
from updater.snapshot.live_node import NodeCapacity

_NO_CHANGE = WantedResources()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialResize:
    """The resize to send, and the remaining requests, which are infeasible."""

    plan: ResizePlan
    rest: Targets


def plan_part(
    pod: Pod,
    wanted: Wanted,
    chosen: Collection[str],
    *,
    containers: Mapping[str, ContainerAmounts],
    capacity: NodeCapacity | None,
) -> PartialResize | None:
    """Plan the part of an infeasible resize that the node can hold; None: there is no part.

    All decreases are in it. Increases follow in pod order, each if the requests of the whole pod
    stay within the node's allocatable. Without a known ``capacity`` no increase fits. A request
    and its limit change together.

    There is no part if nothing or everything fits, if the spec already has it, or if a request
    would exceed its limit. The kubelet judges a pod with pod-level requests by those, so it has no
    part that fits better.

    Source: AEP-4016, future work; arithmetic of the API server, kubernetes-resize.md 2.
    """
    if pod.spec.resources is not None and pod.spec.resources.requests:
        return None
    granted = granted_resources(pod)
    requests = {name: dict(each.requests) for name, each in granted.items()}
    rest: dict[str, dict[str, Quantity]] = {}
    increases: list[tuple[str, str, Quantity]] = []
    for container, want in zip(scaled_specs(pod), wanted, strict=True):
        has = requests[container.name]
        for name, amount in want.requests.items() if container.name in chosen else ():
            if name in RESOURCES and amount > has.get(name, ZERO):
                increases.append((container.name, name, amount))
            else:
                has[name] = amount
    for container_name, name, amount in increases:
        before = requests[container_name].get(name)
        requests[container_name][name] = amount
        if capacity is not None and _fits(pod, requests, name, capacity):
            continue
        if before is None:
            return None  # a resize can't remove a request
        requests[container_name][name] = before
        rest.setdefault(container_name, {})[name] = amount
    if not rest or not all(_fits(pod, requests, name, capacity) for name in RESOURCES):
        return None
    sized = tuple(
        _without(want, rest.get(container.name, {}), as_granted(container, granted[container.name]))
        if container.name in chosen
        else _NO_CHANGE
        for container, want in zip(scaled_specs(pod), wanted, strict=True)
    )
    plan = plan_resize(pod, sized, chosen, containers=containers)
    helps = any(
        amount.milli != each.requests.get(name, ZERO).milli
        for container_name, each in granted.items()
        for name, amount in requests[container_name].items()
    )
    if not helps or not plan.changes or not is_consistent(pod, sized):
        return None
    return PartialResize(plan=plan, rest=rest)


def total_request(pod: Pod, requests: Mapping[str, ResourceQuantities], resource: str) -> Quantity:
    """Return the request of the whole pod, with overhead, for these requests of its containers.

    Source: kubernetes-resize.md 2; ``PodRequests``, k8s.io/component-helpers/resource.
    """
    changed = {name: WantedResources(requests=each) for name, each in requests.items()}
    total = pod_amounts(pod.spec, changed=changed).inside.requests.get(resource, ZERO)
    return total + parse_quantities(pod.spec.overhead).get(resource, ZERO)


def _fits(
    pod: Pod,
    requests: Mapping[str, ResourceQuantities],
    resource: str,
    capacity: NodeCapacity | None,
) -> bool:
    """Return whether the node can hold the pod; True if the node doesn't report the resource."""
    if capacity is None or resource not in capacity.allocatable:
        return True
    return total_request(pod, requests, resource) <= capacity.allocatable[resource]


def _without(
    want: WantedResources, rest: ResourceQuantities, granted: WantedResources
) -> WantedResources:
    """Return the wanted resources, with granted amounts for the resources of the rest."""
    if not rest:
        return want
    kept = {name: granted.requests[name] for name in rest if name in granted.requests}
    kept_limits = {name: granted.limits[name] for name in rest if name in granted.limits}
    limits = {name: each for name, each in want.limits.items() if name not in rest}
    return WantedResources(
        requests={**want.requests, **kept}, limits={**limits, **kept_limits}, notes=want.notes
    )

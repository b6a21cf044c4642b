"""What a container has, as opposed to what its pod's spec asks for.

Source: recommender.md section 16; ``ContainerRequestsAndLimits``,
vertical-pod-autoscaler/pkg/utils/resources/resourcehelpers.go.
"""

from dataclasses import dataclass

from common.api.core import Pod, ResourceRequirements
from common.quantity import Quantity
from common.recommendation.scaled_containers import scaled_specs, scaled_statuses
from common.resources import ResourceQuantities, parse_quantities


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerResources:
    """A scaled container of a pod, with its present requests and limits."""

    name: str
    requests: ResourceQuantities
    limits: ResourceQuantities
    limits_follow: bool = True  # the requests; False where only requests are controlled (A18)


def actual_resources(pod: Pod, name: str) -> ResourceRequirements | None:
    """Return the kubelet's report if there is one, or else the spec; None: no such container."""
    for status in scaled_statuses(pod):
        if status.name == name and status.resources is not None:
            return status.resources
    for container in scaled_specs(pod):
        if container.name == name:
            return container.resources
    return None


def actual_requests(pod: Pod, name: str) -> dict[str, Quantity]:
    """Present requests of a container.

    Raises:
        QuantityError: one of them is no quantity.
    """
    resources = actual_resources(pod, name)
    return parse_quantities(resources.requests if resources is not None else None)


def containers_of(pod: Pod) -> tuple[ContainerResources, ...]:
    """Return the scaled containers of a pod, in the order of ``scaled_specs``.

    Raises:
        QuantityError: a request or a limit is no quantity.
    """
    reported = {
        status.name: status.resources
        for status in scaled_statuses(pod)
        if status.resources is not None
    }
    return tuple(
        _container(container.name, reported.get(container.name, container.resources))
        for container in scaled_specs(pod)
    )


def _container(name: str, resources: ResourceRequirements | None) -> ContainerResources:
    return ContainerResources(
        name=name,
        requests=parse_quantities(resources.requests if resources is not None else None),
        limits=parse_quantities(resources.limits if resources is not None else None),
    )

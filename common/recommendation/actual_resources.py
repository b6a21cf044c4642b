"""Present resources of containers: as the kubelet reports them, else as in the pod's spec.

Source: recommender.md section 16; ``ContainerRequestsAndLimits``,
vertical-pod-autoscaler/pkg/utils/resources/resourcehelpers.go.
"""

from dataclasses import dataclass

from common.api.core import NO_RESOURCES, Pod, ResourceRequirements
from common.quantity import Quantity
from common.recommendation.scaled_containers import scaled_specs, scaled_statuses
from common.resources import ResourceQuantities, parse_quantities


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerResources:
    """The present requests and limits of a scaled container."""

    name: str
    requests: ResourceQuantities
    limits: ResourceQuantities
    limits_follow: bool = True  # limits change with requests; False for RequestsOnly (A18)


def actual_resources(pod: Pod, name: str) -> ResourceRequirements | None:
    """Return the kubelet's report, else the spec; None if the pod has no such container."""
    for status in scaled_statuses(pod):
        if status.name == name and status.resources is not None:
            return status.resources
    for container in scaled_specs(pod):
        if container.name == name:
            return container.resources
    return None


def actual_requests(pod: Pod, name: str) -> dict[str, Quantity]:
    """Return the present requests of a container.

    Raises:
        QuantityError: a request is no quantity.
    """
    return parse_quantities((actual_resources(pod, name) or NO_RESOURCES).requests)


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
    found = [
        (container.name, reported.get(container.name, container.resources) or NO_RESOURCES)
        for container in scaled_specs(pod)
    ]
    return tuple(
        ContainerResources(
            name=name,
            requests=parse_quantities(resources.requests),
            limits=parse_quantities(resources.limits),
        )
        for name, resources in found
    )

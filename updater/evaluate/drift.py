"""The drift of a pod: how far its requests are from the processed recommendation."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from common.annotations import OBSERVED_CONTAINERS, parse_observed_containers
from common.api.core import Pod
from common.quantity import Quantity
from common.recommendation.processing import ContainerAmounts
from common.recommendation.scaled_containers import scaled_specs
from common.resources import CPU, MEMORY, ResourceQuantities

_NO_REQUESTS: ResourceQuantities = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The difference between a pod's requests and its processed recommendation."""

    resource_diff: float  # relative, summed over resources: 0.5 is half the request
    outside_range: bool  # some request is below the lower or above the upper bound
    scale_up: bool  # some target is above its request


def eligible_containers(
    pod: Pod, containers: Mapping[str, ContainerAmounts]
) -> dict[str, ContainerAmounts]:
    """Return the containers that are scaled, recommended and observed by the VPA webhook.

    A container that another webhook injects later isn't in ``vpaObservedContainers``, and an
    eviction would not set its target. Without a readable annotation every scaled container counts.

    Source: updater.md 7; ``defaultPriorityProcessor.GetUpdatePriority``.
    """
    observed = observed_containers(pod)
    return {
        container.name: containers[container.name]
        for container in scaled_specs(pod)
        if container.name in containers and (observed is None or container.name in observed)
    }


def observed_containers(pod: Pod) -> Collection[str] | None:
    """Return the names in ``vpaObservedContainers``; None means every container."""
    annotation = (pod.metadata.annotations or {}).get(OBSERVED_CONTAINERS)
    return None if annotation is None else parse_observed_containers(annotation)


def measure(
    requests: Mapping[str, ResourceQuantities], containers: Mapping[str, ContainerAmounts]
) -> Drift:
    """Compare requests with processed amounts.

    Sums are in milli-units for memory too, as in the reference: a missing memory request counts
    as one thousandth of a byte.

    Source: updater.md 7; ``defaultPriorityProcessor.GetUpdatePriority``,
    vertical-pod-autoscaler/pkg/updater/priority/priority_processor.go.
    """
    requested: dict[str, int] = {}
    recommended: dict[str, int] = {}
    outside = scale_up = False
    for name, amounts in containers.items():
        present = requests.get(name, _NO_REQUESTS)
        outside = outside or is_outside(present, amounts)
        for resource, target in amounts.target.items():
            recommended[resource] = recommended.get(resource, 0) + target.milli
            request = present.get(resource)
            if request is None:
                scale_up = True
                continue
            requested[resource] = requested.get(resource, 0) + request.milli
            scale_up = scale_up or target.milli > request.milli
    diff = 0.0
    for resource, wanted in recommended.items():
        if requested.get(resource) == wanted:
            continue  # also for zero of both (D31)
        base = max(float(requested.get(resource, 0)), 1.0)
        diff += abs(base - float(wanted)) / base
    return Drift(resource_diff=diff, outside_range=outside, scale_up=scale_up)


def is_outside(requests: ResourceQuantities, amounts: ContainerAmounts) -> bool:
    """Return whether some targeted resource is requested outside its bounds, or not at all."""
    for resource in amounts.target:
        request = requests.get(resource)
        if request is None:
            return True
        lower, upper = amounts.lower_bound.get(resource), amounts.upper_bound.get(resource)
        if (lower is not None and request < lower) or (upper is not None and request > upper):
            return True
    return False


def forgive_rounding(
    requests: Mapping[str, ResourceQuantities],
    containers: Mapping[str, ContainerAmounts],
    *,
    slack: int,
) -> dict[str, ResourceQuantities]:
    """Return the requests, with the target for a request that differs from it by rounding.

    Fitting a recommendation to a pod rounds down, and fitting it again to the resulting pod can
    change it by one unit per container. Without this the pod would be replaced repeatedly.
    A difference of up to ``slack`` millicores (cpu) or bytes (memory) is ignored; ``slack`` is the
    number of containers in the pod.

    Source: updater.md 13, D31.
    """
    return {
        name: {
            resource: _forgiven(resource, request, amounts.target.get(resource), slack)
            for resource, request in requests.get(name, _NO_REQUESTS).items()
        }
        for name, amounts in containers.items()
    }


def _forgiven(resource: str, request: Quantity, target: Quantity | None, slack: int) -> Quantity:
    if target is None:
        return request
    if resource == CPU and abs(request.milli - target.milli) <= slack:
        return target
    if resource == MEMORY and abs(request.value - target.value) <= slack:
        return target
    return request

"""The room that pods need, and that nodes have: CPU, memory and a number of pods.

Source: ``Fit``, k8s.io/kubernetes pkg/scheduler/framework/plugins/noderesources/fit.go;
``PodRequests``, k8s.io/component-helpers/resource.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from common.api.base import QuantityJson
from common.api.core import ContainerStatus, PodSpec
from common.quantity import MAX_INT64, ZERO, Quantity
from common.recommendation.pod_amounts import Resources, pod_amounts
from common.resources import CPU, MEMORY, ResourceQuantities, parse_quantities

_PODS = "pods"


@dataclass(frozen=True, slots=True)
class Room:
    """Millicores, bytes and pods; a difference may be negative."""

    cpu: int = 0
    memory: int = 0
    pods: int = 0

    def __add__(self, other: Self) -> "Room":
        """Return the sum."""
        return Room(self.cpu + other.cpu, self.memory + other.memory, self.pods + other.pods)

    def __sub__(self, other: Self) -> "Room":
        """Return the difference."""
        return Room(self.cpu - other.cpu, self.memory - other.memory, self.pods - other.pods)

    def holds(self, other: Self) -> bool:
        """Return whether all of ``other`` fits.

        A pod without a request of a resource fits even where there is none left.
        """
        return (
            (other.cpu <= self.cpu or not other.cpu)
            and (other.memory <= self.memory or not other.memory)
            and other.pods <= self.pods
        )


def room_on(allocatable: Mapping[str, QuantityJson] | None) -> Room:
    """Return the room of an empty node; without a number of pods it has no bound.

    Raises:
        QuantityError: an amount is no quantity.
    """
    amounts = parse_quantities(allocatable)
    pods = amounts.get(_PODS)
    return Room(
        cpu=amounts.get(CPU, ZERO).milli,
        memory=amounts.get(MEMORY, ZERO).value,
        pods=MAX_INT64 if pods is None else pods.value,
    )


def room_of_pod(
    spec: PodSpec,
    statuses: Iterable[ContainerStatus] = (),
    *,
    changed: Mapping[str, Resources] | None = None,
) -> Room:
    """Return the room that a pod takes, as the scheduler counts it, with its overhead.

    With ``statuses``, use the largest of spec, actual and allocated resources of each container.
    ``changed`` are amounts that replace those of the spec, by container.

    Raises:
        QuantityError: an amount is no quantity.
    """
    requests = pod_amounts(spec, statuses, changed=changed).whole.requests
    overhead = parse_quantities(spec.overhead)
    return room_for({name: _sum(requests, overhead, name) for name in (CPU, MEMORY)})


def room_for(requests: ResourceQuantities) -> Room:
    """Return the room of one pod with these requests."""
    return Room(requests.get(CPU, ZERO).milli, requests.get(MEMORY, ZERO).value, 1)


def _sum(one: ResourceQuantities, other: ResourceQuantities, name: str) -> Quantity:
    return one.get(name, ZERO) + other.get(name, ZERO)

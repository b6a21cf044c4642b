"""Arithmetic over the resources of one pod, as scheduler and kubelet do it."""

from collections.abc import Mapping
from dataclasses import dataclass

from common.api.base import QuantityJson
from common.api.core import ResourceRequirements
from common.quantity import parse_milli, parse_value
from sandbox.kubelet.wire import NO_RESOURCES, ContainerSpec, RunnablePodSpec

WHOLE_POD = ""
"""The name under which the pod-level block stands beside the containers' names."""

_RESIZABLE = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Totals:
    """Requests of a pod, or what a node has."""

    cpu: int  # millicores
    memory: int  # bytes

    @classmethod
    def of(cls, quantities: Mapping[str, QuantityJson] | None) -> "Totals":
        """From quantities by name; what isn't named is nothing."""
        found = amounts(quantities)
        return cls(found.get("cpu", 0), found.get("memory", 0))

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(self.cpu + other.cpu, self.memory + other.memory)

    def highest(self, other: "Totals") -> "Totals":
        return Totals(max(self.cpu, other.cpu), max(self.memory, other.memory))


NOTHING = Totals(0, 0)


def amounts(quantities: Mapping[str, QuantityJson] | None) -> dict[str, int]:
    """CPU in millicores and memory in bytes, where they are named."""
    found = quantities or {}
    parsed = {}
    if "cpu" in found:
        parsed["cpu"] = parse_milli(found["cpu"])
    if "memory" in found:
        parsed["memory"] = parse_value(found["memory"])
    return parsed


def same(one: ResourceRequirements, other: ResourceRequirements) -> bool:
    """Whether CPU and memory agree, however they are spelt."""
    if one == other:
        return True
    return amounts(one.requests) == amounts(other.requests) and amounts(one.limits) == amounts(
        other.limits
    )


def changed(one: ResourceRequirements, other: ResourceRequirements) -> set[str]:
    """The names of the resources whose request or limit differs."""
    sides = (
        (amounts(one.requests), amounts(other.requests)),
        (amounts(one.limits), amounts(other.limits)),
    )
    return {name for name in _RESIZABLE for old, new in sides if old.get(name) != new.get(name)}


def memory_limit(resources: ResourceRequirements) -> int | None:
    """The memory limit in bytes; None is no limit."""
    return amounts(resources.limits).get("memory")


def cpu_limit(resources: ResourceRequirements) -> int | None:
    """The CPU limit in millicores; None is no limit."""
    return amounts(resources.limits).get("cpu")


def desired(spec: RunnablePodSpec, *, minor: int) -> dict[str, ResourceRequirements]:
    """The resources that a resize can change, by container; WHOLE_POD is the pod-level block.

    Plain init containers are resizable from Kubernetes 1.36 on (kubernetes-resize.md 0).
    """
    wanted = {
        one.name: one.wanted for one in spec.init_containers or () if one.is_sidecar or minor >= 36
    }
    wanted.update((one.name, one.wanted) for one in spec.containers)
    if spec.resources is not None:
        wanted[WHOLE_POD] = spec.resources
    return wanted


def total_requests(
    spec: RunnablePodSpec, overrides: Mapping[str, ResourceRequirements] | None = None
) -> Totals:
    """What the pod occupies; ``overrides`` replace the spec's resources by container.

    Containers and sidecars add up; a plain init container counts with the sidecars that
    started before it, and only if that is more. Where the pod has its own block, that decides.

    Source: ``PodRequests``, k8s.io/component-helpers/resource/helpers.go.
    """
    chosen = overrides or {}
    together = NOTHING
    for one in spec.containers:
        together += _requests(chosen.get(one.name, one.wanted))
    sidecars = initial = NOTHING
    for one in spec.init_containers or ():
        request = _requests(chosen.get(one.name, one.wanted))
        if one.is_sidecar:
            together += request
            sidecars += request
            initial = initial.highest(sidecars)
        else:
            initial = initial.highest(sidecars + request)
    total = together.highest(initial)
    if spec.resources is not None:
        block = amounts(chosen.get(WHOLE_POD, spec.resources).requests)
        total = Totals(block.get("cpu", total.cpu), block.get("memory", total.memory))
    return total + Totals.of(spec.overhead)


def occupied(
    spec: RunnablePodSpec,
    allocated: Mapping[str, ResourceRequirements],
    running: Mapping[str, ResourceRequirements],
) -> Totals:
    """What a pod counts on its node: what was granted, or what still runs where that is more."""
    granted = total_requests(spec, allocated)
    return granted.highest(total_requests(spec, {**allocated, **running}))


def _requests(resources: ResourceRequirements) -> Totals:
    """A limit without a request stands for both."""
    merged = {**amounts(resources.limits), **amounts(resources.requests)}
    return Totals(merged.get("cpu", 0), merged.get("memory", 0))


def qos_class(spec: RunnablePodSpec) -> str:
    """Guaranteed, Burstable or BestEffort (kubernetes-resize.md 1.4, last paragraph)."""
    if spec.resources is not None:
        blocks: list[ResourceRequirements] = [spec.resources]
    else:
        containers: tuple[ContainerSpec, ...] = (*spec.containers, *(spec.init_containers or ()))
        blocks = [one.resources or NO_RESOURCES for one in containers]
    limits = [amounts(block.limits) for block in blocks]
    requests = [amounts(block.requests) for block in blocks]
    if not any(limits) and not any(requests):
        return "BestEffort"
    guaranteed = all(
        limit.keys() == set(_RESIZABLE) and {**limit, **request} == limit
        for limit, request in zip(limits, requests, strict=True)
    )
    return "Guaranteed" if guaranteed else "Burstable"

"""Arithmetic over the resources of one pod, like that of scheduler and kubelet."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from common.api.base import QuantityJson
from common.api.core import ResourceRequirements
from common.quantity import ZERO, parse_milli, parse_value
from sandbox.kubelet.wire import RunnablePodSpec
from sandbox.objects.pod_resources import containers_of, pod_requests

WHOLE_POD = ""
"""The key of the pod-level block, beside the containers' names."""

_RESIZABLE = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Totals:
    """Requests of a pod, or the resources of a node."""

    cpu: int  # millicores
    memory: int  # bytes

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(self.cpu + other.cpu, self.memory + other.memory)

    def highest(self, other: "Totals") -> "Totals":
        return Totals(max(self.cpu, other.cpu), max(self.memory, other.memory))


NOTHING = Totals(0, 0)


def amounts(quantities: Mapping[str, QuantityJson] | None) -> dict[str, int]:
    """Return CPU in millicores and memory in bytes, if present."""
    found = quantities or {}
    parsed = {}
    if "cpu" in found:
        parsed["cpu"] = parse_milli(found["cpu"])
    if "memory" in found:
        parsed["memory"] = parse_value(found["memory"])
    return parsed


def same(one: ResourceRequirements, other: ResourceRequirements) -> bool:
    """Return True if CPU and memory are numerically equal."""
    return one == other or not changed(one, other)


def changed(one: ResourceRequirements, other: ResourceRequirements) -> set[str]:
    """Return the names of the resources whose request or limit differs."""
    sides = (
        (amounts(one.requests), amounts(other.requests)),
        (amounts(one.limits), amounts(other.limits)),
    )
    return {name for name in _RESIZABLE for old, new in sides if old.get(name) != new.get(name)}


def memory_limit(resources: ResourceRequirements) -> int | None:
    """Return the memory limit in bytes; None without a limit."""
    return amounts(resources.limits).get("memory")


def cpu_limit(resources: ResourceRequirements) -> int | None:
    """Return the CPU limit in millicores; None without a limit."""
    return amounts(resources.limits).get("cpu")


def desired(spec: RunnablePodSpec, *, minor: int) -> dict[str, ResourceRequirements]:
    """Return the resources that a resize can change, by container, and WHOLE_POD.

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
    """Return the requests of the pod; ``overrides`` replace the spec's resources by container."""
    raw = msgspec.to_builtins(spec)
    chosen = msgspec.to_builtins(overrides or {})
    for container in containers_of({"spec": raw}):
        container["resources"] = chosen.get(container["name"], container.get("resources"))
    if spec.resources is not None:
        raw["resources"] = chosen.get(WHOLE_POD, raw["resources"])
    total = pod_requests({"spec": raw})
    return Totals(total.get("cpu", ZERO).milli, total.get("memory", ZERO).value)


def occupied(
    spec: RunnablePodSpec,
    allocated: Mapping[str, ResourceRequirements],
    running: Mapping[str, ResourceRequirements],
) -> Totals:
    """Return what a pod counts on its node: the larger of allocated and running resources."""
    granted = total_requests(spec, allocated)
    return granted.highest(total_requests(spec, {**allocated, **running}))

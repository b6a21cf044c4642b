"""Nodes in the updater's cache: what decides on the pods that they can take."""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import force_setattr

from common.api.base import QuantityJson, Wire
from common.api.meta import ObjectMeta
from common.api.scheduling import Taint
from common.api.workloads import Condition
from common.quantity import QuantityError
from common.resources import (
    CPU,
    MEMORY,
    RESOURCES,
    ResourceQuantities,
    cpu_quantity,
    memory_quantity,
    parse_quantities,
)
from common.scheduling.eligibility import NodeTraits
from common.scheduling.room import Room

_COUNTED = (*RESOURCES, "pods")


class NodeSpec(Wire, frozen=True, kw_only=True):
    """``spec`` of a node: what keeps pods away."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] | None = None


class NodeStatus(Wire, frozen=True, kw_only=True):
    """The part of ``status`` that limits the requests of pods."""

    allocatable: Mapping[str, QuantityJson] | None = None
    conditions: tuple[Condition, ...] | None = None


class LiveNode(Wire, frozen=True, kw_only=True):
    """A node with its identity, labels, taints, allocatable cpu, memory and pods, and readiness."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    def __post_init__(self) -> None:
        meta, status = self.metadata, self.status
        kept = ObjectMeta(
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
            labels=meta.labels,
        )
        force_setattr(self, "metadata", kept)
        allocatable = status.allocatable or {}
        bounds = {name: allocatable[name] for name in _COUNTED if name in allocatable}
        ready = tuple(each for each in status.conditions or () if each.type == "Ready")
        force_setattr(self, "status", NodeStatus(allocatable=bounds, conditions=ready or None))

    @property
    def takes_pods(self) -> bool:
        """Return whether the node is Ready and not cordoned."""
        is_ready = any(each.status == "True" for each in self.status.conditions or ())
        return is_ready and not self.spec.unschedulable

    @property
    def traits(self) -> NodeTraits:
        """Return the labels and taints."""
        meta = self.metadata
        return NodeTraits(name=meta.name, labels=meta.labels or {}, taints=self.spec.taints or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCapacity:
    """The most that a pod can request on a node; remembered with a resize that did not fit."""

    node: str
    allocatable: ResourceQuantities  # cpu and memory, if reported

    def holds(self, room: Room) -> bool:
        """Return whether the capacity holds a pod; a resource that isn't reported has no bound."""
        taken = {CPU: cpu_quantity(room.cpu), MEMORY: memory_quantity(room.memory)}
        return all(taken[name] <= amount for name, amount in self.allocatable.items())


def node_capacity(node: LiveNode | None) -> NodeCapacity | None:
    """Return the capacity of a node; None: the node or one of its quantities is unknown."""
    if node is None:
        return None
    try:
        amounts = parse_quantities(node.status.allocatable)
    except QuantityError:
        return None
    allocatable = {name: amounts[name] for name in RESOURCES if name in amounts}
    return NodeCapacity(node=node.metadata.name, allocatable=allocatable)


def has_improved(then: NodeCapacity | None, now: NodeCapacity | None) -> bool:
    """Return whether a resize that did not fit ``then`` may fit ``now`` (X101).

    It may on another node, or on one with more of some resource. A capacity that became known
    counts as more, once: the next failure is remembered with it.

    Source: AEP-8818, "cluster conditions improve".
    """
    if now is None:
        return False
    if then is None or then.node != now.node:
        return True
    return any(
        name not in then.allocatable or amount > then.allocatable[name]
        for name, amount in now.allocatable.items()
    )

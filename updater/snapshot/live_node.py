"""Nodes in the updater's cache: their names and allocatable resources."""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import force_setattr

from common.api.base import QuantityJson, Wire
from common.api.meta import ObjectMeta
from common.quantity import QuantityError
from common.resources import RESOURCES, ResourceQuantities, parse_quantities


class NodeStatus(Wire, frozen=True, kw_only=True):
    """The part of ``status`` that limits the requests of a pod."""

    allocatable: Mapping[str, QuantityJson] | None = None


class LiveNode(Wire, frozen=True, kw_only=True):
    """A node with the identity from its metadata, and its allocatable cpu and memory."""

    metadata: ObjectMeta
    status: NodeStatus = NodeStatus()

    def __post_init__(self) -> None:
        meta = self.metadata
        kept = ObjectMeta(name=meta.name, uid=meta.uid, resource_version=meta.resource_version)
        force_setattr(self, "metadata", kept)
        allocatable = self.status.allocatable or {}
        bounds = {name: allocatable[name] for name in RESOURCES if name in allocatable}
        force_setattr(self, "status", NodeStatus(allocatable=bounds))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCapacity:
    """The most that a pod can request on a node; remembered with a resize that did not fit."""

    node: str
    allocatable: ResourceQuantities  # cpu and memory, if reported


def node_capacity(node: LiveNode | None) -> NodeCapacity | None:
    """Return the capacity of a node; None: the node or one of its quantities is unknown."""
    if node is None:
        return None
    try:
        allocatable = parse_quantities(node.status.allocatable)
    except QuantityError:
        return None
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

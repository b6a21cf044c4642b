"""A node as the updater keeps it: its name, and how much its pods may request."""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import force_setattr

from common.api.base import QuantityJson, Wire
from common.api.meta import ObjectMeta
from common.quantity import QuantityError
from common.resources import RESOURCES, ResourceQuantities, parse_quantities


class NodeStatus(Wire, frozen=True, kw_only=True):
    """The part of ``status`` that bounds the requests of one pod."""

    allocatable: Mapping[str, QuantityJson] | None = None


class LiveNode(Wire, frozen=True, kw_only=True):
    """A node; of its metadata only the identity stays, of its resources only cpu and memory."""

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
    """What one pod may request on a node at most; remembered with an attempt that did not fit."""

    node: str
    allocatable: ResourceQuantities  # cpu and memory, as far as the node reports them


def node_capacity(node: LiveNode | None) -> NodeCapacity | None:
    """Return the capacity of a node; None if the node, or one of its quantities, is unknown."""
    if node is None:
        return None
    try:
        allocatable = parse_quantities(node.status.allocatable)
    except QuantityError:
        return None
    return NodeCapacity(node=node.metadata.name, allocatable=allocatable)


class NodeCapacities:
    """The capacities of nodes by name; each is read once."""

    def __init__(self, nodes: Mapping[str, LiveNode]) -> None:
        self._nodes = nodes
        self._known: dict[str, NodeCapacity | None] = {}

    def of(self, name: str) -> NodeCapacity | None:
        """Return the capacity of a node, as ``node_capacity``."""
        if name not in self._known:
            self._known[name] = node_capacity(self._nodes.get(name))
        return self._known[name]


def has_improved(then: NodeCapacity | None, now: NodeCapacity | None) -> bool:
    """Return whether an attempt that failed ``then`` may succeed ``now`` (X101).

    It may on another node, and on one that has more of some resource. Capacity that was unknown
    when the attempt failed and is known now counts as more, once: the next failure is remembered
    with it.

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

"""The distinct shapes of nodes: room, taints, and the labels that some rule of pods names.

Thousands of nodes have a few dozen shapes, and only these are compared with the rules of pods.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from common.scheduling.eligibility import NodeTraits
from common.scheduling.room import Room
from recommender.nodes.cached_node import CachedNode

HOSTNAME = "kubernetes.io/hostname"
"""A label that differs between nodes, so that it isn't a part of their shape."""
INSTANCE_TYPE = "node.kubernetes.io/instance-type"

_MOST_SHAPES = 1 << 14  # kept for nodes that come back


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeShape:
    """Nodes with equal rooms, taints and labels, or nodes that an autoscaler could make."""

    traits: NodeTraits  # shared by shapes with equal ones
    room: Room  # of an empty node, without DaemonSets
    title: str  # orders shapes
    about: str  # what it is, to follow "the best node that the pod may run on"
    guess: str = ""  # why larger nodes are possible; empty: there are none


@dataclass(frozen=True, slots=True)
class _Seen:
    node: CachedNode
    shape: NodeShape | None  # None: its room is unknown


class NodeIndex:
    """The shapes of the nodes of a cluster; only new and changed nodes are processed.

    ``version`` changes with the set of nodes, and ``shapes`` is another object if a shape came or
    went.
    """

    def __init__(self) -> None:
        self.shapes: tuple[NodeShape, ...] = ()
        self.version = 0
        self._keys: frozenset[str] = frozenset()
        self._nodes: Mapping[str, CachedNode] = {}
        self._seen: dict[str, _Seen] = {}
        self._known: dict[object, NodeShape] = {}
        self._traits: dict[object, NodeTraits] = {}

    def update(self, nodes: Mapping[str, CachedNode]) -> None:
        """Follow the nodes of the cluster, by name."""
        if nodes is self._nodes:
            return
        seen, self._nodes = self._seen, nodes
        self._seen = {name: self._look(seen.get(name), node) for name, node in nodes.items()}
        present = dict.fromkeys(each.shape for each in self._seen.values() if each.shape)
        if self._seen.keys() != seen.keys() or set(present) != set(self.shapes):
            self.version += 1
        if set(present) != set(self.shapes):
            self.shapes = tuple(sorted(present, key=lambda shape: (shape.title, *_size(shape))))
        if len(self._known) > _MOST_SHAPES:
            self._known, self._traits = {}, {}
            self._nodes = {}

    def name_keys(self, keys: Collection[str]) -> None:
        """Distinguish nodes by these labels, too."""
        new = frozenset(keys) - self._keys - {HOSTNAME}
        if not new:
            return
        self._keys |= new
        nodes, self._nodes, self._seen = self._nodes, {}, {}
        self._known, self._traits = {}, {}
        self.update(nodes)

    def with_hosts(self, shape: NodeShape) -> NodeTraits:
        """Return the traits of a shape with the host names of its nodes.

        A node that an autoscaler could make has a name that no pod asks for.
        """
        hosts = frozenset(
            each.node.labels.get(HOSTNAME, "")
            for each in self._seen.values()
            if each.shape is shape
        )
        if hosts:
            return replace(shape.traits, choices={HOSTNAME: hosts})
        return replace(shape.traits, labels={**shape.traits.labels, HOSTNAME: ""})

    def _look(self, before: _Seen | None, node: CachedNode) -> _Seen:
        if before is not None and before.node is node:
            return before
        return _Seen(node, self._shape(node))

    def _shape(self, node: CachedNode) -> NodeShape | None:
        if node.room is None:
            return None
        labels = node.labels
        kind = labels.get(INSTANCE_TYPE, "")
        named = {key: labels[key] for key in sorted(self._keys & labels.keys())}
        what = (tuple(named.items()), node.taints)
        which = (what, kind, node.room)
        found = self._known.get(which)
        if found is None:
            traits = self._traits.setdefault(what, NodeTraits(labels=named, taints=node.taints))
            found = self._known[which] = NodeShape(
                traits=traits,
                room=node.room,
                title=kind,
                about=f"of type {kind}" if kind else "of the cluster",
            )
        return found


def _size(shape: NodeShape) -> tuple[int, int, int]:
    return (shape.room.cpu, shape.room.memory, shape.room.pods)

"""The distinct shapes of nodes: room, taints, and the labels that some rule of pods names.

Thousands of nodes have a few dozen shapes, and only these are compared with the rules of pods.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from common.scheduling.eligibility import NodeTraits
from common.scheduling.room import Room
from recommender.model.patience import PATIENCE
from recommender.nodes.cached_node import CachedNode

HOSTNAME = "kubernetes.io/hostname"
"""A label that differs between nodes, so that it isn't a part of their shape."""
INSTANCE_TYPE = "node.kubernetes.io/instance-type"

DEPARTURE = PATIENCE
"""For this time after its last node went, a shape may come back."""

_MOST_SHAPES = 1 << 14  # kept for nodes that come back
_GONE = "A node {about}was there until {at:%H:%M} UTC and may come back"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeShape:
    """Nodes with equal rooms, taints and labels, or nodes that an autoscaler could make."""

    traits: NodeTraits  # shared by shapes with equal ones
    room: Room  # of an empty node, without DaemonSets
    title: str  # orders shapes
    about: str  # what it is, such as "of type m5.large"; may be empty
    guess: str = ""  # why there may be one; empty: there is one, or one can be made
    has_departed: bool = False  # its last node has just gone


@dataclass(frozen=True, slots=True)
class _Seen:
    node: CachedNode
    shape: NodeShape | None  # None: its room is unknown


class NodeIndex:
    """The shapes of the nodes of a cluster; only new and changed nodes are processed.

    ``version`` changes with the set of nodes, and ``shapes`` is another object if a shape came or
    went. A shape stays for a time after its last node has gone, as a guess.
    """

    def __init__(self) -> None:
        self.shapes: tuple[NodeShape, ...] = ()
        self.version = 0
        self._keys: frozenset[str] = frozenset()
        self._nodes: Mapping[str, CachedNode] = {}
        self._now = datetime.min.replace(tzinfo=UTC)
        self._departed: dict[NodeShape, tuple[CachedNode, datetime, NodeShape]] = {}
        self._seen: dict[str, _Seen] = {}
        self._known: dict[object, NodeShape] = {}
        self._traits: dict[object, NodeTraits] = {}

    def update(self, nodes: Mapping[str, CachedNode], now: datetime) -> None:
        """Follow the nodes of the cluster, by name."""
        self._now = now
        outdated = [
            shape for shape, (_, at, _) in self._departed.items() if not at <= now < at + DEPARTURE
        ]
        if nodes is self._nodes and not outdated:
            return
        for shape in outdated:
            del self._departed[shape]
        seen, self._nodes = self._seen, nodes
        self._seen = {name: self._look(seen.get(name), node) for name, node in nodes.items()}
        if self._seen.keys() != seen.keys():
            self.version += 1
        self._arrange(seen)
        if len(self._known) > _MOST_SHAPES:
            self._known, self._traits = {}, {}

    def name_keys(self, keys: Collection[str]) -> None:
        """Distinguish nodes by these labels, too."""
        new = frozenset(keys) - self._keys - {HOSTNAME}
        if not new:
            return
        self._keys |= new
        self._known, self._traits = {}, {}
        seen = {name: one.node for name, one in self._seen.items()}
        self._seen = {name: _Seen(node, self._shape(node)) for name, node in seen.items()}
        gone = [(self._shape(node), node, at) for node, at, _ in self._departed.values()]
        self._departed = {
            shape: (node, at, _departed(shape, at)) for shape, node, at in gone if shape is not None
        }
        self.version += 1
        self._arrange({})

    def _arrange(self, before: Mapping[str, _Seen]) -> None:
        """Set the shapes to those of the nodes, and of nodes that were there before."""
        present = {each.shape for each in self._seen.values() if each.shape is not None}
        for one in before.values():
            shape = one.shape
            if shape is not None and shape not in present and shape not in self._departed:
                self._departed[shape] = (one.node, self._now, _departed(shape, self._now))
        for shape in present & self._departed.keys():
            del self._departed[shape]
        wanted = present.union(guess for _, _, guess in self._departed.values())
        if wanted != set(self.shapes):
            self.version += 1
            self.shapes = tuple(sorted(wanted, key=lambda shape: (shape.title, *_size(shape))))

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
                about=f"of type {kind}" if kind else "",
            )
        return found


def _departed(shape: NodeShape, at: datetime) -> NodeShape:
    about = f"{shape.about} " if shape.about else ""
    return replace(shape, guess=_GONE.format(about=about, at=at), has_departed=True)


def _size(shape: NodeShape) -> tuple[int, int, int]:
    return (shape.room.cpu, shape.room.memory, shape.room.pods)

"""The distinct shapes of nodes: room, taints, and the labels that some rule of pods names.

Thousands of nodes have a few dozen shapes, and only these are compared with the rules of pods.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from common.scheduling.eligibility import NodeTraits
from common.scheduling.room import Room
from recommender.model.patience import PATIENCE
from recommender.nodes.cached_node import CachedNode

HOSTNAME = "kubernetes.io/hostname"
"""A label that differs between nodes, so that it isn't a part of their shape."""
INSTANCE_TYPE = "node.kubernetes.io/instance-type"

DEPARTURE = PATIENCE
"""For this time after its last node went, a shape may come back: nodes are replaced in upgrades."""
ALIKE = 0.9
"""Nodes of one type that have at least so much of the room of another one are meant to be equal.

Their rooms differ by the version of the kernel and the reservations of the kubelet.
"""

_MOST_SHAPES = 1 << 14  # kept for nodes that come back
_GONE = "A node {about}was there until {at:%H:%M} UTC and may come back"
_CORDONED = "A node {about}takes no new pods, and no other node matches"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeShape:
    """Nodes with equal rooms, taints and labels, or nodes that an autoscaler could make."""

    traits: NodeTraits  # shared by shapes with equal ones
    room: Room  # of an empty node, without DaemonSets
    title: str  # orders shapes
    about: str  # what it is, such as "of type m5.large"; may be empty
    guess: str = ""  # why there may be one; empty: there is one, or one can be made
    has_departed: bool = False  # its last node has just gone
    is_cordoned: bool = False  # its last node went long ago, but still exists

    @property
    def was_there(self) -> bool:
        """Return whether there was a node that takes no new pods now."""
        return self.has_departed or self.is_cordoned


@dataclass(frozen=True, slots=True)
class _Seen:
    node: CachedNode
    taken: Room  # by its static pods
    host: str
    shape: NodeShape | None  # None: its room is unknown


@dataclass(frozen=True, slots=True)
class _Guess:
    """The shape of nodes that have gone."""

    at: datetime  # when the last one went
    shape: NodeShape


NO_STATIC_PODS: Mapping[str, Room] = {}


class NodeIndex:
    """The shapes of the nodes of a cluster; only new and changed nodes are processed.

    ``version`` changes with the set of nodes and with the keys of their labels, and ``shapes`` is
    another object if a shape came or went. A shape stays for a time after its last node has gone,
    as a guess. A node that is cordoned has gone, because pods that are drained from it find no
    place there. After this time it is the last resort of pods that no other node suits.
    """

    def __init__(self) -> None:
        self.shapes: tuple[NodeShape, ...] = ()
        self.label_keys: frozenset[str] = frozenset()  # of the nodes, and of those that have gone
        self.version = 0
        self._kinds: dict[int, tuple[str, ...]] = {}  # label keys by their identity
        self._keys: frozenset[str] = frozenset()
        self._nodes: Mapping[str, CachedNode] = {}
        self._static_pods = NO_STATIC_PODS
        self._seen: dict[str, _Seen] = {}
        self._gone: dict[tuple[str, NodeShape], tuple[_Seen, datetime]] = {}
        self._guesses: dict[NodeShape, _Guess] = {}
        self._cordoned: dict[tuple[str, NodeShape], _Seen] = {}  # for longer than DEPARTURE
        self._last_resorts: dict[NodeShape, NodeShape] = {}  # by the shape when they took pods
        self._by_host: Sequence[tuple[NodeShape, NodeTraits]] | None = None  # None: outdated
        self._known: dict[object, NodeShape] = {}
        self._traits: dict[object, NodeTraits] = {}

    def update(
        self,
        nodes: Mapping[str, CachedNode],
        now: datetime,
        static_pods: Mapping[str, Room] = NO_STATIC_PODS,
    ) -> None:
        """Follow the nodes of the cluster, and the room that static pods take, by node name."""
        expired = [key for key, (_, at) in self._gone.items() if not at <= now < at + DEPARTURE]
        if nodes is self._nodes and static_pods is self._static_pods and not expired:
            return
        for key in expired:
            self._cordoned[key] = self._gone.pop(key)[0]
        is_first = not self._nodes
        self._nodes, self._static_pods = nodes, static_pods
        before = self._seen
        if is_first:  # nodes that are cordoned already go now
            before = self._look({name: each for name, each in nodes.items() if each.is_leaving})
        self._seen = self._look({name: each for name, each in nodes.items() if not each.is_leaving})
        has_changed = self._depart(before, now) or bool(expired)
        ended = [key for key in self._cordoned if key[0] not in nodes or key[0] in self._seen]
        for key in ended:
            del self._cordoned[key]
        self._collect_keys()
        if has_changed or ended or self._seen.keys() != before.keys():
            self.version += 1
        if len(self._known) > _MOST_SHAPES:
            self._rebuild()
        self._arrange()

    def name_keys(self, keys: Collection[str]) -> None:
        """Distinguish nodes by these labels, too; those that no node has make no difference."""
        new = self.label_keys.intersection(keys) - self._keys
        if new:
            self._keys |= new
            self._rebuild()
            self._arrange()

    @property
    def by_host(self) -> Sequence[tuple[NodeShape, NodeTraits]]:
        """Return the shapes of all nodes, with traits that include the names of the hosts."""
        if self._by_host is None:
            hosts = defaultdict[NodeShape, set[str]](set)
            for each in self._seen.values():
                if each.shape is not None:
                    hosts[each.shape].add(each.host)
            for (_, shape), (gone, _) in self._gone.items():
                hosts[self._guesses[shape].shape].add(gone.host)
            for (_, shape), one in self._cordoned.items():
                hosts[self._last_resorts[shape]].add(one.host)
            self._by_host = [
                (shape, replace(shape.traits, choices={HOSTNAME: frozenset(names)}))
                for shape, names in hosts.items()
            ]
        return self._by_host

    def _look(self, nodes: Mapping[str, CachedNode]) -> dict[str, _Seen]:
        seen, taken = self._seen, self._static_pods
        found = {}
        for name, node in nodes.items():
            before, pods = seen.get(name), taken.get(name, _NOTHING)
            if before is None or before.node is not node or before.taken != pods:
                before = self._see(node, pods)
            found[name] = before
        return found

    def _depart(self, before: Mapping[str, _Seen], now: datetime) -> bool:
        """Update the nodes that have gone; return whether one went, came back, or changed."""
        back = [
            (name, shape)
            for name, shape in self._gone
            if name in self._seen and self._seen[name].shape is shape
        ]
        for key in back:
            del self._gone[key]
        known = len(self._gone)
        for name, one in before.items():
            there = self._seen.get(name)
            if there is one or one.shape is None:
                continue
            if there is None or there.shape is not one.shape:
                self._gone[name, one.shape] = (one, now)
        return bool(back) or len(self._gone) > known

    def _arrange(self) -> None:
        """Set the shapes to those of the nodes, and of nodes that were there before."""
        self._by_host = None
        present = {each.shape for each in self._seen.values() if each.shape is not None}
        went: dict[NodeShape, datetime] = {}
        for (_, shape), (_, at) in self._gone.items():
            went[shape] = max(at, went.get(shape, at))
        self._guesses = {shape: self._guess(shape, at) for shape, at in went.items()}
        self._last_resorts = {
            shape: self._last_resorts.get(shape) or _cordoned(shape) for _, shape in self._cordoned
        }
        missing = self._guesses.keys() - present
        wanted = _smallest(present) | {
            self._guesses[each].shape for each in _smallest(present, missing)
        }
        wanted |= set(self._last_resorts.values())
        if wanted != set(self.shapes):
            self.version += 1
            self.shapes = tuple(sorted(wanted, key=lambda shape: (shape.title, *_size(shape))))

    def _guess(self, shape: NodeShape, at: datetime) -> _Guess:
        known = self._guesses.get(shape)
        return known if known is not None and known.at == at else _Guess(at, _departed(shape, at))

    def _collect_keys(self) -> None:
        """Collect the keys of the nodes' labels; nodes share the tuples of their keys."""
        kinds = {id(each.label_keys): each.label_keys for each in self._nodes.values()}
        for one, _ in self._gone.values():
            kinds[id(one.node.label_keys)] = one.node.label_keys
        if kinds.keys() == self._kinds.keys():
            return
        self._kinds = kinds
        keys = frozenset[str]().union(*kinds.values()) - {HOSTNAME}
        if keys != self.label_keys:
            self.label_keys = keys
            self._keys &= keys
            self.version += 1

    def _rebuild(self) -> None:
        self._known, self._traits, self._guesses, self._last_resorts = {}, {}, {}, {}
        self._seen = {name: self._see(one.node, one.taken) for name, one in self._seen.items()}
        gone = [
            (name, self._see(one.node, one.taken), at)
            for (name, _), (one, at) in self._gone.items()
        ]
        self._gone = {
            (name, one.shape): (one, at) for name, one, at in gone if one.shape is not None
        }
        cordoned = [
            (name, self._see(each.node, each.taken)) for (name, _), each in self._cordoned.items()
        ]
        self._cordoned = {(name, one.shape): one for name, one in cordoned if one.shape is not None}
        self.version += 1

    def _see(self, node: CachedNode, taken: Room) -> _Seen:
        labels = node.labels
        shape = None if node.room is None else self._shape(node, labels, node.room - taken)
        return _Seen(node, taken, labels.get(HOSTNAME, ""), shape)

    def _shape(self, node: CachedNode, labels: Mapping[str, str], room: Room) -> NodeShape:
        kind = labels.get(INSTANCE_TYPE, "")
        named = {key: labels[key] for key in sorted(self._keys & labels.keys())}
        what = (tuple(named.items()), node.taints)
        which = (what, kind, room)
        found = self._known.get(which)
        if found is None:
            traits = self._traits.setdefault(what, NodeTraits(labels=named, taints=node.taints))
            found = self._known[which] = NodeShape(
                traits=traits,
                room=room,
                title=kind,
                about=f"of type {kind}" if kind else "",
            )
        return found


_NOTHING = Room()


def _smallest(
    present: Collection[NodeShape], shapes: Iterable[NodeShape] | None = None
) -> set[NodeShape]:
    """Return those of ``shapes``, or of the present ones, of which no smaller one is present.

    A pod that fits the largest of several nodes that are meant to be equal may fit none of the
    others when this node is full, or is drained.
    """
    groups = defaultdict[tuple[int, str], list[Room]](list)
    for each in present:
        groups[id(each.traits), each.title].append(each.room)
    return {
        each
        for each in (present if shapes is None else shapes)
        if not any(
            _is_slightly_smaller(room, each.room)
            for room in groups.get((id(each.traits), each.title), ())
        )
    }


def _is_slightly_smaller(one: Room, other: Room) -> bool:
    return (
        (one.cpu, one.memory) != (other.cpu, other.memory)
        and other.cpu * ALIKE <= one.cpu <= other.cpu
        and other.memory * ALIKE <= one.memory <= other.memory
    )


def _departed(shape: NodeShape, at: datetime) -> NodeShape:
    about = f"{shape.about} " if shape.about else ""
    return replace(shape, guess=_GONE.format(about=about, at=at), has_departed=True)


def _cordoned(shape: NodeShape) -> NodeShape:
    about = f"{shape.about} " if shape.about else ""
    return replace(shape, guess=_CORDONED.format(about=about), is_cordoned=True)


def _size(shape: NodeShape) -> tuple[int, int, int]:
    return (shape.room.cpu, shape.room.memory, shape.room.pods)

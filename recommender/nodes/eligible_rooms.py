"""The rooms that pods with some scheduling rules find on nodes beside the pods of DaemonSets."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from common.scheduling.eligibility import NodeTraits, SchedulingRules, is_eligible, keys_of
from common.scheduling.room import Room
from recommender.nodes.node_shapes import HOSTNAME, NodeIndex, NodeShape

DaemonSetKey = tuple[str, str]
"""Namespace and name of a DaemonSet."""

_MOST_PAIRS = 1 << 16  # of rules and traits that are cached, which takes some 10 MiB
_MOST_TRAITS = 1 << 12
_MOST_ROOMS = 1 << 16  # about the number of workloads in the largest clusters


@dataclass(frozen=True, slots=True)
class DaemonSetNeed:
    """The room that each pod of a DaemonSet takes, and the nodes that have one."""

    key: DaemonSetKey
    rules: SchedulingRules
    room: Room


@dataclass(frozen=True, slots=True)
class EligibleRoom:
    """The room for a pod on a node of a shape, beside the pods of DaemonSets."""

    shape: NodeShape
    room: Room


_SIZE_KEY = re.compile(r".+/(instance|sku|machine)-.+")
"""Labels of nodes that depend on their size: its type, family, number of cores and the like."""
_SIZE = "The size of the nodes of {title} with the {key} that the pods ask for is not known"

_Rooms = dict[tuple[int, DaemonSetKey | None], tuple[SchedulingRules, tuple[EligibleRoom, ...]]]
"""Rooms by the identity of the rules, which are kept with them, and a DaemonSet."""


class RoomFinder:
    """Finds the rooms for pods; cached while shapes and DaemonSets are unchanged.

    Eligibility is computed once for each pair of rules and traits of nodes.
    """

    def __init__(self) -> None:
        self._index = NodeIndex()
        self._makeable: Sequence[NodeShape] = ()
        self._daemon_sets: Sequence[DaemonSetNeed] = ()
        self._daemon_keys: frozenset[str] = frozenset()  # of labels that their rules name
        self._shapes: Sequence[NodeShape] | None = None  # of the rooms; None: outdated
        self._nodes = -1  # version of the index that rooms by host name were computed from
        self.version = 0  # incremented when rooms may have changed
        self._rooms = _Rooms()
        self._rooms_by_host = _Rooms()
        self._taken: dict[int, tuple[NodeTraits, tuple[DaemonSetNeed, ...]]] = {}
        self._eligible: dict[tuple[int, int], tuple[SchedulingRules, NodeTraits, bool]] = {}

    @property
    def index(self) -> NodeIndex:
        """Return the shapes of the nodes of the cluster."""
        return self._index

    def update(self, makeable: Sequence[NodeShape], daemon_sets: Sequence[DaemonSetNeed]) -> None:
        """Set the shapes of nodes that an autoscaler could make, and the DaemonSets."""
        if list(daemon_sets) != list(self._daemon_sets):
            self._daemon_sets = daemon_sets
            self._shapes, self._taken = None, {}
            self._daemon_keys = frozenset[str]().union(
                *(keys_of(each.rules) for each in daemon_sets)
            )
        if makeable is not self._makeable:
            self._makeable = makeable
            self._shapes = None
        self._index.name_keys(self._daemon_keys)
        self._drop_outdated()

    def rooms(
        self, rules: SchedulingRules, without: DaemonSetKey | None = None
    ) -> tuple[EligibleRoom, ...]:
        """Return the rooms on eligible nodes of which no other one is at least as large.

        The pods of the DaemonSet ``without`` are left out. Rooms on nodes that are only a guess
        don't replace others. Nodes that are cordoned for long count only if no other one that is
        or was there is eligible.
        """
        keys = keys_of(rules)
        self._index.name_keys(keys)
        self._drop_outdated()
        names_host = HOSTNAME in keys
        cached = self._rooms_by_host if names_host else self._rooms
        which = (id(rules), without)
        known = cached.get(which)
        if known is None:
            if len(cached) >= _MOST_ROOMS:
                cached.clear()
            fitting = self._with_hosts(rules) if names_host else self._without_hosts(rules)
            shapes = [_with_known_size(each, keys) for each in fitting]
            known = cached[which] = (rules, self._find(shapes, without))
        return known[1]

    def _drop_outdated(self) -> None:
        shapes, nodes = self._index.shapes, self._index.version
        if shapes is self._shapes and nodes == self._nodes:
            return
        self.version += 1
        self._rooms_by_host = {}
        if shapes is not self._shapes:
            self._rooms = {}
        self._shapes, self._nodes = shapes, nodes

    def _find(
        self, fitting: Iterable[NodeShape], without: DaemonSetKey | None
    ) -> tuple[EligibleRoom, ...]:
        found = [
            EligibleRoom(shape, shape.room - self._taken_on(shape.traits, without))
            for shape in fitting
        ]
        known = [each for each in found if not each.shape.guess]
        departed = [each for each in found if each.shape.has_departed]
        there = (*largest(known), *largest(departed))
        cordoned = [each for each in found if each.shape.is_cordoned and not there]
        guesses = [each for each in found if each.shape.guess and not each.shape.was_there]
        return (*there, *largest(cordoned), *largest(guesses))

    def _without_hosts(self, rules: SchedulingRules) -> Iterable[NodeShape]:
        shapes = (*self._index.shapes, *self._makeable)
        return (each for each in shapes if self._is_eligible(rules, each.traits))

    def _with_hosts(self, rules: SchedulingRules) -> Iterable[NodeShape]:
        """Compare the rules with the names of hosts, too.

        A node that an autoscaler could make has a name that no pod asks for.
        """
        for shape, traits in self._index.by_host:
            if is_eligible(rules, traits):
                yield shape
        for shape in self._makeable:
            labels = {**shape.traits.labels, HOSTNAME: ""}
            if is_eligible(rules, replace(shape.traits, labels=labels)):
                yield shape

    def _taken_on(self, traits: NodeTraits, without: DaemonSetKey | None) -> Room:
        known = self._taken.get(id(traits))
        if known is None:
            if len(self._taken) >= _MOST_TRAITS:
                self._taken = {}
            there = tuple(each for each in self._daemon_sets if is_eligible(each.rules, traits))
            known = self._taken[id(traits)] = (traits, there)
        return sum((each.room for each in known[1] if each.key != without), Room())

    def _is_eligible(self, rules: SchedulingRules, traits: NodeTraits) -> bool:
        key = (id(rules), id(traits))
        known = self._eligible.get(key)
        if known is None:
            if len(self._eligible) >= _MOST_PAIRS:
                self._eligible = {}
            known = self._eligible[key] = (rules, traits, is_eligible(rules, traits))
        return known[2]


def _with_known_size(shape: NodeShape, keys: Collection[str]) -> NodeShape:
    """Return the shape as a guess if pods ask for one of several sizes of its nodes.

    The room of a NodePool is that of its largest node, which may not have the value that they name.
    """
    for key in () if shape.guess else sorted(filter(_SIZE_KEY.fullmatch, keys)):
        possible = shape.traits.possible(key)
        if possible is None or len(possible) > 1:
            return replace(shape, guess=_SIZE.format(key=key, title=shape.title))
    return shape


def largest(rooms: Iterable[EligibleRoom]) -> tuple[EligibleRoom, ...]:
    """Return the rooms that no other one holds; of equal ones the first by title."""
    found: list[EligibleRoom] = []
    ordered = sorted(rooms, key=lambda each: (-each.room.cpu, -each.room.memory, each.shape.title))
    most = -1
    for each in ordered:  # CPU falls, so a room is of use only if it has more memory
        if each.room.pods >= 1 and each.room.memory > most:
            found.append(each)
            most = each.room.memory
    return tuple(found)

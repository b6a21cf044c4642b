"""The free room of nodes in a snapshot, less what planned actions take."""

from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from common.identity_cache import IdentityCache
from common.quantity import QuantityError
from common.scheduling.eligibility import NodeTraits, SchedulingRules, is_eligible
from common.scheduling.room import Room, room_of_pod, room_on
from updater.snapshot.live_node import LiveNode
from updater.snapshot.live_pod import LivePod

_STEP = 5000  # pods
MOST_KINDS = 1 << 16  # of pods; about the number of workloads in the largest clusters

Search = tuple[SchedulingRules, Room]


def room_taken_by(pod: LivePod) -> Room:
    """Return the room that a pod takes on its node: for a resize, the largest amounts.

    Raises:
        QuantityError: an amount is no quantity.
    """
    status = pod.status
    statuses = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    return room_of_pod(pod.spec, statuses)


@dataclass(frozen=True, slots=True)
class Place:
    """A node, and the room that it has for the replacement of one pod."""

    node: str
    free: Room


class NodeRooms:
    """The free room of each node, and the places that planned replacements take.

    A node whose allocatable can't be read has no room. A pod whose requests can't be read, which no
    API server stores, takes none.
    """

    def __init__(self, nodes: Mapping[str, LiveNode]) -> None:
        self._taken = IdentityCache[Room](MOST_KINDS)
        self._traits: dict[str, NodeTraits] = {}
        self._closed: set[str] = set()  # cordoned, or not Ready
        self._free: dict[str, Room] = {}
        for name, node in nodes.items():
            try:
                self._free[name] = room_on(node.status.allocatable)
            except QuantityError:
                continue
            self._traits[name] = node.traits
            if not node.takes_pods:
                self._closed.add(name)
        self._eligible: dict[SchedulingRules, tuple[str, ...]] = {}
        self._largest: dict[SchedulingRules, tuple[Place, ...]] = {}
        self._reached: defaultdict[Search, int] = defaultdict(int)

    @classmethod
    def measure(
        cls, nodes: Mapping[str, LiveNode], pods: Mapping[str, Mapping[str, LivePod]]
    ) -> Generator[None, None, "NodeRooms"]:
        """Return the free room beside these pods, with pauses."""
        rooms = cls(nodes)
        for number, pod in enumerate(chain.from_iterable(each.values() for each in pods.values())):
            if number % _STEP == _STEP - 1:
                yield
            rooms._occupy(pod)
        return rooms

    def _occupy(self, pod: LivePod) -> None:
        free = self._free.get(pod.node_name)
        if free is None:
            return
        try:
            self._free[pod.node_name] = free - self._taken_by(pod)
        except QuantityError:
            return

    def _taken_by(self, pod: LivePod) -> Room:
        """Return ``room_taken_by`` of the pod, once for all pods that share their parts."""
        status = pod.status
        parts = (pod.spec, status.container_statuses, status.init_container_statuses)
        return self._taken.get(parts, lambda: room_taken_by(pod))

    def free(self, node: str) -> Room | None:
        """Return the free room of a node; None: it is unknown."""
        return self._free.get(node)

    def eligible(self, rules: SchedulingRules) -> tuple[str, ...]:
        """Return the Ready, schedulable nodes on which pods with these rules may run.

        Those that had the most free CPU come first.
        """
        found = self._eligible.get(rules)
        if found is None:
            names = (
                name
                for name, traits in self._traits.items()
                if name not in self._closed and is_eligible(rules, traits)
            )
            found = tuple(sorted(names, key=lambda name: -self._free[name].cpu))
            self._eligible[rules] = found
        return found

    def find(self, pod: LivePod, needed: Room) -> str | None:
        """Return a node with room for the replacement of a pod; None: there is none.

        The place of the pod itself counts as free. Rooms only shrink: a need that is too much for
        the largest rooms of an earlier moment fits nowhere, and a node that was too full for the
        same need before isn't tried again.
        """
        own = self._own_place(pod)
        if own is not None and own.free.holds(needed):
            return own.node
        if pod.rules.own_node_only:
            return None
        if not any(place.free.holds(needed) for place in self._largest_rooms(pod.rules)):
            return None
        nodes = self.eligible(pod.rules)
        search = (pod.rules, needed)
        for index in range(self._reached[search], len(nodes)):
            if self._free[nodes[index]].holds(needed):
                return nodes[index]
            self._reached[search] = index + 1
        self._largest.pop(pod.rules, None)  # they have shrunk
        return None

    def largest_room(self, pod: LivePod, needed: Room) -> Place | None:
        """Return the eligible node that lacks least of the need; None: no node is eligible.

        The place of the pod itself counts as free.
        """
        own = self._own_place(pod)
        places = [] if own is None else [own]
        if not pod.rules.own_node_only:
            largest = self._largest_rooms(pod.rules)
            places += (Place(each.node, self._free[each.node]) for each in largest)
        return max(places, key=lambda place: _share(place.free, needed), default=None)

    def take(self, node: str, pod: LivePod, needed: Room) -> None:
        """Record that the replacement of a pod will be on a node.

        On the pod's own node only the difference is taken. The room that it leaves on its old node
        isn't used in this pass.
        """
        more = needed - self._taken_by(pod) if node == pod.node_name else needed
        self._free[node] -= more

    def shrink(self, node: str, by: Room) -> None:
        """Record that pods on the node take more."""
        if node in self._free:
            self._free[node] -= by

    def _own_place(self, pod: LivePod) -> Place | None:
        """Return the pod's node with the room without the pod; None: it isn't eligible any more.

        Taints alone keep the pod of a DaemonSet from its node, which may be cordoned.
        """
        traits, free = self._traits.get(pod.node_name), self._free.get(pod.node_name)
        if pod.node_name in self._closed and not pod.rules.own_node_only:
            return None
        if traits is None or free is None or not is_eligible(pod.rules, traits):
            return None
        return Place(pod.node_name, free + self._taken_by(pod))

    def _largest_rooms(self, rules: SchedulingRules) -> tuple[Place, ...]:
        """Return the eligible nodes of which none has less room than another in every respect."""
        found = self._largest.get(rules)
        if found is None:
            found = _without_smaller(Place(each, self._free[each]) for each in self.eligible(rules))
            self._largest[rules] = found
        return found


def _without_smaller(places: Iterable[Place]) -> tuple[Place, ...]:
    kept: list[Place] = []
    for place in sorted(places, key=lambda each: (-each.free.cpu, -each.free.memory)):
        free = place.free
        if not any(
            free.memory <= other.free.memory and free.pods <= other.free.pods for other in kept
        ):
            kept.append(place)
    return tuple(kept)


def _share(free: Room, needed: Room) -> float:
    """Return the part of the need that the room holds, of the resource that it lacks most."""
    amounts = (
        (free.cpu, needed.cpu),
        (free.memory, needed.memory),
        (free.pods, needed.pods),
    )
    return min((has / needs for has, needs in amounts if needs), default=1.0)

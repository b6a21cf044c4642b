"""The free room of nodes in one pass, which the plans of all its VPAs share."""

from collections import defaultdict
from collections.abc import Generator, Mapping
from datetime import datetime

from common.quantity import QuantityError
from common.scheduling.room import Room
from updater.capacity.reservations import Reservations, reserved_rooms, still_reserved
from updater.snapshot.cluster_snapshot import ClusterSnapshot
from updater.snapshot.live_node import LiveNode
from updater.snapshot.live_pod import LivePod
from updater.snapshot.node_rooms import NodeRooms, room_taken_by

_NONE: Reservations = {}


class PassRooms:
    """The rooms of nodes, measured when a plan first needs them, less what actions take.

    A failed action doesn't free its room in this pass; the next pass measures again.
    """

    def __init__(
        self,
        nodes: Mapping[str, LiveNode],
        pods: Mapping[str, Mapping[str, LivePod]],
        reserved: Reservations = _NONE,
    ) -> None:
        self.reserved = reserved  # by earlier passes
        self._nodes = nodes
        self._pods = pods
        self._rooms: NodeRooms | None = None
        self._grown: defaultdict[str, Room] = defaultdict(Room)  # by resizes, before the measuring

    @classmethod
    def of(
        cls, snapshot: ClusterSnapshot, reserved: Reservations = _NONE, *, now: datetime
    ) -> "PassRooms":
        """Return the rooms of a snapshot, not measured yet.

        ``reserved`` is the room for replacements of evicted pods; what is used by now doesn't
        count.
        """
        return cls(snapshot.nodes, snapshot.pods, still_reserved(reserved, snapshot, now=now))

    @property
    def are_known(self) -> bool:
        """Return whether there are nodes; otherwise no room can be checked."""
        return bool(self._nodes)

    def measured(self) -> Generator[None, None, NodeRooms]:
        """Return the rooms, which are measured at the first call, with pauses.

        If plans measure at the same time, the first result counts for all.
        """
        if self._rooms is None:
            found = yield from NodeRooms.measure(self._nodes, self._pods)
            if self._rooms is None:
                for node, room in reserved_rooms(self.reserved, self._pods):
                    found.shrink(node, room)
                for node, growth in self._grown.items():
                    found.shrink(node, growth)
                self._rooms = found
        return self._rooms

    def grow(self, pod: LivePod, after: Room) -> None:
        """Record that a resize makes a pod take ``after``; a decrease frees nothing."""
        try:
            growth = after - room_taken_by(pod)
        except QuantityError:
            return
        more = Room(max(growth.cpu, 0), max(growth.memory, 0))
        if self._rooms is None:
            self._grown[pod.node_name] += more
        else:
            self._rooms.shrink(pod.node_name, more)

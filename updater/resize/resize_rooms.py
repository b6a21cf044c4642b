"""The room that the kubelets of nodes have for resizes, less what planned resizes take."""

from collections import defaultdict
from collections.abc import Generator
from dataclasses import replace
from itertools import chain

from common.identity_cache import IdentityCache
from common.quantity import QuantityError
from common.resources import CPU, MEMORY, cpu_quantity, memory_quantity
from common.scheduling.room import Room, room_of_pod, room_on
from updater.resize.pending_resize import granted_resources, is_pending
from updater.snapshot.cluster_snapshot import ClusterSnapshot
from updater.snapshot.live_node import NodeCapacity
from updater.snapshot.live_pod import LivePod
from updater.snapshot.node_rooms import MOST_KINDS, room_taken_by

_STEP = 5000  # pods


class ResizeRooms:
    """The room for resizes on each node, which the plans of all VPAs in a pass share.

    A kubelet grants a resize if the pod fits into allocatable less the granted requests of the
    node's other pods. A pending resize takes nothing, although it counts for the scheduler; two
    pods that wait for room would otherwise block each other.

    Nodes are measured when a plan asks for them. The growth of a planned resize isn't free for
    others, and a decrease frees nothing in this pass. A failed resize keeps its room until the next
    pass.

    Source: ``canResizePod``, k8s.io/kubernetes pkg/kubelet/allocation/allocation_manager.go.
    """

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._pods: dict[str, list[LivePod]] | None = None  # by node; None: not indexed yet
        self._granted: dict[str, dict[str, Room]] = {}  # of measured nodes, by pod UID
        self._free: dict[str, Room | None] = {}  # of measured nodes; None: unknown
        self._after: dict[str, Room] = {}  # after planned resizes, by pod UID
        self._kinds = IdentityCache[Room](MOST_KINDS)

    def index(self) -> Generator[None, None, None]:
        """Find the pods of each node once, with pauses; ``of`` needs the result."""
        if self._pods is not None:
            return
        found: defaultdict[str, list[LivePod]] = defaultdict(list)
        every = chain.from_iterable(each.values() for each in self._snapshot.pods.values())
        for number, pod in enumerate(every, start=1):
            if number % _STEP == 0:
                yield
            found[pod.node_name].append(pod)
        if self._pods is None:
            self._pods = found

    def of(self, pod: LivePod) -> Room | None:
        """Return the most that the pod can request on its node; None: it is unknown."""
        if self._pods is None:
            return None
        free = self._measured(pod.node_name)
        if free is None:
            return None
        return free + self._granted[pod.node_name].get(pod.metadata.uid, Room())

    def capacity(self, pod: LivePod, node: NodeCapacity | None) -> NodeCapacity | None:
        """Return the most that the pod can request on its node as the node's capacity.

        ``node`` is the node's whole capacity. None: it is unknown.
        """
        room = self.of(pod)
        if node is None or room is None:
            return None
        most = {CPU: cpu_quantity(max(room.cpu, 0)), MEMORY: memory_quantity(max(room.memory, 0))}
        return replace(
            node,
            allocatable={name: min(each, most[name]) for name, each in node.allocatable.items()},
        )

    def take(self, pod: LivePod, after: Room) -> None:
        """Record that the pod will request ``after``, if it fits."""
        node, uid = pod.node_name, pod.metadata.uid
        if node not in self._free:
            self._after[uid] = after
            return
        free, granted = self._free[node], self._granted[node]
        if free is None or uid not in granted:
            return
        present = granted[uid]
        grown = _larger(present, after)
        if (free + present).holds(grown):
            granted[uid] = grown
            self._free[node] = free - (grown - present)

    def _measured(self, node: str) -> Room | None:
        if node not in self._free:
            self._measure(node)
        return self._free[node]

    def _measure(self, node: str) -> None:
        live, granted = self._snapshot.nodes.get(node), dict[str, Room]()
        self._granted[node], self._free[node] = granted, None
        if live is None:
            return
        pods = (self._pods or {}).get(node, ())
        try:
            free = room_on(live.status.allocatable)
        except QuantityError:
            return
        for pod in pods:
            try:
                granted[pod.metadata.uid] = self._granted_to(pod)
            except QuantityError:
                continue  # no API server stores it
        for room in granted.values():
            free -= room
        self._free[node] = free
        for pod in pods:
            after = self._after.pop(pod.metadata.uid, None)
            if after is not None:
                self.take(pod, after)

    def _granted_to(self, pod: LivePod) -> Room:
        """Return ``_granted_room`` of the pod, once for all pods that share their parts."""
        status = pod.status
        parts = (
            *(pod.spec, status.container_statuses, status.init_container_statuses),
            is_pending(pod),
        )
        return self._kinds.get(parts, lambda: _granted_room(pod))


def _granted_room(pod: LivePod) -> Room:
    """Return the room of a pod, without what a pending resize would add.

    Raises:
        QuantityError: an amount is no quantity.
    """
    if is_pending(pod):
        return room_of_pod(pod.spec, changed=granted_resources(pod))
    return room_taken_by(pod)


def _larger(one: Room, other: Room) -> Room:
    return Room(max(one.cpu, other.cpu), max(one.memory, other.memory), one.pods)

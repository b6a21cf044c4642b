"""The room that is kept for replacements of evicted pods until they are on a node."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from common.quantity import QuantityError
from common.scheduling.room import Room
from common.target.owners import Controller
from updater.snapshot.cluster_snapshot import AutoscaledPods, ClusterSnapshot
from updater.snapshot.live_pod import LivePod
from updater.snapshot.node_rooms import room_taken_by

LONGEST = timedelta(minutes=10)  # a controller waits for the end of a pod, with its grace period


@dataclass(frozen=True, slots=True)
class FoundRoom:
    """The node on which a replacement has room, and the room that it needs."""

    node: str
    need: Room


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """The room for the replacement of one evicted pod."""

    room: FoundRoom
    namespace: str  # of the evicted pod
    name: str
    vpa: str  # UID
    workload: Controller
    known: frozenset[str]  # UIDs of the workload's pods at the eviction
    at: datetime


_NONE: frozenset[str] = frozenset()
Reservations = Mapping[str, Reservation]
"""Reservations by the UID of the evicted pod, oldest first."""


def pods_by_workload(scaled: AutoscaledPods) -> Mapping[Controller, frozenset[str]]:
    """Return the UIDs of a VPA's pods by workload."""
    found: defaultdict[Controller, set[str]] = defaultdict(set)
    for pod in scaled.pods:
        workload = scaled.workload_of(pod)
        if workload is not None:
            found[workload].add(pod.metadata.uid)
    return {workload: frozenset(uids) for workload, uids in found.items()}


def still_reserved(
    reservations: Reservations, snapshot: ClusterSnapshot, *, now: datetime
) -> dict[str, Reservation]:
    """Return the reservations whose replacement is on no node yet.

    Each new pod of a workload ends the oldest of its reservations. After ten minutes a reservation
    ends, too, because its workload may have fewer replicas now.
    """
    if not reservations:
        return {}
    vpas = {each.vpa for each in reservations.values()}
    present = {
        each.vpa.metadata.uid: pods_by_workload(each)
        for each in snapshot.autoscaled
        if each.vpa.metadata.uid in vpas
    }
    used: set[str] = set()
    new: dict[tuple[Controller, int], Iterator[str]] = {}  # reservations of a pass share ``known``
    left = {}
    for uid, each in reservations.items():
        if not timedelta() <= now - each.at < LONGEST:
            continue
        pods = present.get(each.vpa, {}).get(each.workload, _NONE)
        key = (each.workload, id(each.known))
        unknown = new.setdefault(key, iter(pods - each.known))
        replacement = next((one for one in unknown if one not in used), None)
        if replacement is None:
            left[uid] = each
        else:
            used.add(replacement)
    return left


def reserved_rooms(
    reservations: Reservations, pods: Mapping[str, Mapping[str, LivePod]]
) -> Iterable[tuple[str, Room]]:
    """Yield the nodes and the room on them that is kept beside the pods on the nodes.

    While an evicted pod is still on the node of its replacement, its own room is a part of it.
    """
    for uid, each in reservations.items():
        pod = pods.get(each.namespace, {}).get(each.name)
        node, need = each.room.node, each.room.need
        if pod is None or pod.metadata.uid != uid or pod.node_name != node:
            yield node, need
            continue
        try:
            yield node, need - room_taken_by(pod)
        except QuantityError:
            yield node, need

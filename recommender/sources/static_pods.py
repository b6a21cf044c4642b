"""The room that static pods take on each node: those of the kubelet, such as kube-proxy."""

from collections.abc import Mapping

from common.api.core import Pod
from common.kube.cache import Change
from common.quantity import QuantityError
from common.scheduling.room import Room, room_of_pod
from recommender.sources.cached_pod import CachedPod


class StaticPods:
    """Follows the watch of pods; no other pod is kept."""

    def __init__(self) -> None:
        self._rooms: dict[str, dict[tuple[str, str], Room]] = {}  # by node, namespace and name
        self._sums: dict[str, Room] = {}
        self._taken: Mapping[str, Room] | None = None  # None: outdated

    @property
    def taken(self) -> Mapping[str, Room]:
        """Return the room by node; the same object until it changes."""
        if self._taken is None:
            self._taken = dict(self._sums)
        return self._taken

    def on_pod(self, change: Change[Pod]) -> None:
        """Follow a change of the cache of pods."""
        old, new = _static(change.old), _static(change.new)
        if old is not None and (new is None or new.static_on != old.static_on):
            self._put(old, None)
        if new is not None:
            self._put(new, _room(new))

    def _put(self, pod: CachedPod, room: Room | None) -> None:
        node, key = pod.static_on, (pod.metadata.namespace, pod.metadata.name)
        rooms = self._rooms.setdefault(node, {})
        if rooms.get(key) == room:
            return
        self._taken = None
        if room is None:
            del rooms[key]
        else:
            rooms[key] = room
        self._sums[node] = sum(rooms.values(), Room())
        if not rooms:
            del self._rooms[node], self._sums[node]


def _static(pod: Pod | None) -> CachedPod | None:
    return pod if isinstance(pod, CachedPod) and pod.static_on else None


def _room(pod: CachedPod) -> Room:
    try:
        return room_of_pod(pod.whole_spec)
    except QuantityError:  # which no API server stores
        return Room()

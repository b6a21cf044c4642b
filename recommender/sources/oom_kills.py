"""Out-of-memory kills, read from two versions of a pod or from an eviction Event.

Source: recommender.md 12.4; vertical-pod-autoscaler/pkg/recommender/input/oom/observer.go.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from common.api.core import ContainerStateTerminated, ContainerStatus, Event, Pod
from common.quantity import QuantityError, parse_value
from common.recommendation.actual import actual_requests
from common.recommendation.scaled_containers import scaled_statuses
from common.resources import MEMORY
from recommender.model.keys import PodKey

OOM_KILLED = "OOMKilled"
UNDATED = datetime.min.replace(tzinfo=UTC)
"""The time of a kill without one in the kubelet's report; Go's zero time."""

_CONTAINERS = "offending_containers"
_USAGE = "offending_containers_usage"
_STARVED = "starved_resource"
_LEFT = 10_000  # pods and Events that are gone, and whose kills are remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class OomEvent:
    """A container was killed, or its pod evicted, because memory ran out."""

    pod: PodKey
    pod_uid: str  # empty: unknown, from an Event
    uid: str  # of the pod, or of the eviction Event; distinguishes kills
    container: str
    at: datetime
    memory: int  # bytes: the request at that time, or what an evicted container used
    initial: bool = False  # seen before we went live: it may have been learnt already


def kills_between(old: Pod, new: Pod, *, initial: bool = False) -> tuple[OomEvent, ...]:
    """Return the kills that an update of a pod shows.

    Either a container has just been killed and stands there terminated, or it was killed
    and runs again. The request that counts is the one it was killed with: for the latter
    that of the old version.
    """
    before = {status.name: status for status in scaled_statuses(old)}
    found = []
    for status in scaled_statuses(new):
        previous = before.get(status.name)
        if previous is None:
            continue
        ended = _ended(previous, status)
        if ended is not None:
            found.append(_kill(status.name, ended, requested_by=new, initial=initial))
        again = _runs_again(previous, status)
        if again is not None:
            found.append(_kill(status.name, again, requested_by=old, initial=initial))
    return tuple(found)


def kills_in(pod: Pod, *, initial: bool) -> tuple[OomEvent, ...]:
    """Return all kills that one version of a pod still shows.

    It is what counts for a pod that is seen for the first time, so that one that dies and
    goes within a second teaches as well; and after a gap in the watch.
    """
    return tuple(
        _kill(status.name, terminated, requested_by=pod, initial=initial)
        for status in scaled_statuses(pod)
        for terminated in _terminations(status)
        if terminated.reason == OOM_KILLED
    )


def kills_of_eviction(event: Event, *, initial: bool = False) -> tuple[OomEvent, ...]:
    """Return the containers that an eviction for lack of memory names.

    The three annotations are lists of one length, else the Event says nothing. What can't
    be read of a container costs that container.
    """
    if event.reason != "Evicted" or event.involved_object.kind != "Pod":
        return ()
    at = event.metadata.creation_timestamp
    annotations = event.metadata.annotations or {}
    if at is None or not all(name in annotations for name in (_CONTAINERS, _USAGE, _STARVED)):
        return ()
    containers, usage, starved = (
        annotations[name].split(",") for name in (_CONTAINERS, _USAGE, _STARVED)
    )
    if not len(containers) == len(usage) == len(starved):
        return ()
    pod = PodKey(event.involved_object.namespace, event.involved_object.name)
    found = []
    for container, used, resource in zip(containers, usage, starved, strict=True):
        if resource != MEMORY:
            continue
        try:
            memory = parse_value(used)
        except QuantityError:
            continue
        found.append(
            OomEvent(
                pod=pod,
                pod_uid=event.involved_object.uid,
                uid=event.metadata.uid,
                container=container,
                at=at,
                memory=memory,
                initial=initial,
            )
        )
    return tuple(found)


class SeenOomEvents:
    """Remembers which kills have been seen, for longer than they can be reported again.

    A pod that couldn't be read for a moment comes back with its last kill. So the kills of the
    last pods and Events that are gone are remembered, too.
    """

    def __init__(self) -> None:
        self._by_uid: dict[str, set[tuple[str, datetime]]] = {}
        self._left: dict[str, None] = {}  # uids, in the order in which they went

    def is_new(self, kill: OomEvent) -> bool:
        """Return whether this is the first time; from now on it isn't."""
        self._left.pop(kill.uid, None)
        known = self._by_uid.setdefault(kill.uid, set())
        if (kill.container, kill.at) in known:
            return False
        known.add((kill.container, kill.at))
        return True

    def leave(self, uid: str) -> None:
        """The pod or the Event is gone; should it come back soon, its kills aren't new."""
        if uid not in self._by_uid:
            return
        self._left.pop(uid, None)
        self._left[uid] = None
        if len(self._left) > _LEFT:
            first = next(iter(self._left))
            del self._left[first], self._by_uid[first]


def _ended(old: ContainerStatus, new: ContainerStatus) -> ContainerStateTerminated | None:
    terminated = new.state.terminated if new.state is not None else None
    if terminated is None or terminated.reason != OOM_KILLED:
        return None
    stood_there = old.state is not None and old.state.terminated is not None
    if stood_there and new.restart_count <= old.restart_count:
        return None
    return terminated


def _runs_again(old: ContainerStatus, new: ContainerStatus) -> ContainerStateTerminated | None:
    both_run = (
        new.state is not None
        and new.state.running is not None
        and old.state is not None
        and old.state.running is not None
    )
    if not both_run or new.restart_count <= old.restart_count or new.last_state is None:
        return None
    terminated = new.last_state.terminated
    if terminated is None or terminated.reason != OOM_KILLED:
        return None
    return terminated


def _terminations(status: ContainerStatus) -> Iterator[ContainerStateTerminated]:
    for state in (status.last_state, status.state):
        if state is not None and state.terminated is not None:
            yield state.terminated


def _kill(
    container: str,
    terminated: ContainerStateTerminated,
    *,
    requested_by: Pod,
    initial: bool,
) -> OomEvent:
    try:
        request = actual_requests(requested_by, container).get(MEMORY)
    except QuantityError:
        request = None  # a strange request costs the request, not the kill
    meta = requested_by.metadata
    return OomEvent(
        pod=PodKey(meta.namespace, meta.name),
        pod_uid=meta.uid,
        uid=meta.uid,
        container=container,
        at=terminated.finished_at or UNDATED,
        memory=0 if request is None else request.value,
        initial=initial,
    )

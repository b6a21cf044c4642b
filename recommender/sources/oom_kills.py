"""Detection of OOM kills in two versions of a pod, or in an eviction Event.

Source: recommender.md 12.4; vertical-pod-autoscaler/pkg/recommender/input/oom/observer.go.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from common.api.core import ContainerStateTerminated, ContainerStatus, Event, Pod
from common.quantity import QuantityError, parse_value
from common.recommendation.actual_resources import actual_requests
from common.recommendation.scaled_containers import scaled_statuses
from common.resources import MEMORY
from recommender.model.keys import PodKey

OOM_KILLED = "OOMKilled"
UNDATED = datetime.min.replace(tzinfo=UTC)
"""The time of a kill for which the kubelet reports none; Go's zero time."""

_CONTAINERS = "offending_containers"
_USAGE = "offending_containers_usage"
_STARVED = "starved_resource"
_LEFT = 10_000  # deleted pods and Events whose kills are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class OomEvent:
    """An OOM kill of a container, or an eviction of its pod for lack of memory."""

    pod: PodKey
    pod_uid: str  # empty: unknown, from an Event
    uid: str  # of the pod, or of the eviction Event; distinguishes kills
    container: str
    at: datetime
    memory: int  # bytes: the request at that time, or the usage of an evicted container
    initial: bool = False  # it may have been recorded before a restart


def kills_between(old: Pod, new: Pod, *, initial: bool = False) -> tuple[OomEvent, ...]:
    """Return the kills in an update of a pod.

    A killed container is either terminated in the new version, or it runs again. The request at the
    time of the kill counts: that of the new version, or of the old one if the container runs again.
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
    """Return all kills in one version of a pod.

    They count in the first version of a pod, so that a kill in a short-lived pod isn't lost,
    and after a gap in the watch.
    """
    return tuple(
        _kill(status.name, terminated, requested_by=pod, initial=initial)
        for status in scaled_statuses(pod)
        for terminated in _terminations(status)
        if terminated.reason == OOM_KILLED
    )


def kills_of_eviction(event: Event, *, initial: bool = False) -> tuple[OomEvent, ...]:
    """Return the containers in the Event of an eviction for lack of memory.

    The Event is ignored unless its three annotations are lists of the same length. A container
    whose usage can't be parsed is left out.
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
    """The kills that were seen, kept for longer than they can be reported again.

    The kills of the last deleted pods and Events are kept, too. A pod that can't be decoded for
    some time appears as deleted, and later again with its last kill.
    """

    def __init__(self) -> None:
        self._by_uid: dict[str, set[tuple[str, datetime]]] = {}
        self._left: dict[str, None] = {}  # uids, in the order of deletion

    def is_new(self, kill: OomEvent) -> bool:
        """Record a kill; return True if it was not recorded before."""
        self._left.pop(kill.uid, None)
        known = self._by_uid.setdefault(kill.uid, set())
        if (kill.container, kill.at) in known:
            return False
        known.add((kill.container, kill.at))
        return True

    def leave(self, uid: str) -> None:
        """Record that a pod or Event is gone; its kills are kept for some time."""
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
    was_terminated = old.state is not None and old.state.terminated is not None
    if was_terminated and new.restart_count <= old.restart_count:
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
        request = None  # the kill counts without a valid request, too
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

"""How long the kubelet has had for a pod's present resize, by our memory and the pod's status."""

from datetime import datetime, timedelta

from common.api.core import Pod
from updater.decision import Decision
from updater.resize.resize_state import ResizeStatus, Timeouts, resize_status, unfinished
from updater.resize.resize_state import resizing_since as since_of
from updater.state import PodMemory


def wait_for_resize(
    pod: Pod, memory: PodMemory, *, timeouts: Timeouts, interval: timedelta, now: datetime
) -> Decision | None:
    """Return the wait for the pod's present resize, unless it has had its time."""
    status = resize_status(pod)
    if status is ResizeStatus.NONE:
        return None
    sent, since = memory.sent, resizing_since(pod, memory)
    if sent is not None and sent.pending_since is not None and since is not None:
        since = max(since, sent.at + interval - timeouts.deferred)
    return unfinished(status, since=since, timeouts=timeouts, now=now)


def resizing_since(pod: Pod, memory: PodMemory) -> datetime | None:
    """Return when the clock of the pod's present resize started.

    A resize that replaced a pending one doesn't restart it, or a recommendation that falls in
    small steps would postpone an eviction indefinitely. The kubelet has at least an interval
    for the new size (X100).
    """
    sent = memory.sent
    sent_at = None if sent is None else sent.pending_since or sent.at
    return since_of(pod, sent_at=sent_at, first_seen=memory.resizing_seen_at)


def has_had_its_time(
    pod: Pod, memory: PodMemory, *, timeouts: Timeouts, interval: timedelta, now: datetime
) -> bool:
    """Return whether the resize that replaced a pending one is the last that did so (X100)."""
    sent, since = memory.sent, resizing_since(pod, memory)
    if sent is None or sent.pending_since is None or since is None:
        return False
    if sent.at - since >= timeouts.deferred:
        return True
    waiting = wait_for_resize(pod, memory, timeouts=timeouts, interval=interval, now=now)
    return waiting is None

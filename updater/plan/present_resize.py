"""The time-outs of a pod's present resize, by the updater's state and the pod's status."""

from datetime import datetime

from common.api.core import Pod
from updater.decision import Decision
from updater.pass_context import Rules
from updater.resize.resize_status import ResizeStatus, resize_status
from updater.resize.resize_status import resizing_since as since_of
from updater.resize.resize_timeouts import unfinished
from updater.state import PodMemory


def wait_for_resize(pod: Pod, memory: PodMemory, rules: Rules, *, now: datetime) -> Decision | None:
    """Return the wait for the pod's present resize; None: there is none, or its time-out passed.

    A resize that replaced a pending one gets at least an interval (X100).
    """
    status = resize_status(pod)
    if status is ResizeStatus.NONE:
        return None
    sent, since = memory.sent, resizing_since(pod, memory)
    if sent is not None and sent.pending_since is not None and since is not None:
        since = max(since, sent.at + rules.interval - rules.timeouts.deferred)
    return unfinished(status, since=since, timeouts=rules.timeouts, now=now)


def resizing_since(pod: Pod, memory: PodMemory) -> datetime | None:
    """Return the start of the pod's present resize, from which its time-out counts.

    A resize that replaced a pending one doesn't restart the time-out; otherwise a recommendation
    that falls in small steps would postpone an eviction indefinitely.
    """
    sent = memory.sent
    sent_at = None if sent is None else sent.pending_since or sent.at
    return since_of(pod, sent_at=sent_at, first_seen=memory.resizing_seen_at)


def has_timed_out(pod: Pod, memory: PodMemory, rules: Rules, *, now: datetime) -> bool:
    """Return whether no further resize may replace a pending one: its time-out passed (X100)."""
    sent, since = memory.sent, resizing_since(pod, memory)
    if sent is None or sent.pending_since is None or since is None:
        return False
    if sent.at - since >= rules.timeouts.deferred:
        return True
    return wait_for_resize(pod, memory, rules, now=now) is None

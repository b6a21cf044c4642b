"""The last finished resize of a pod, which restarts the pod's age (D18, D28)."""

from dataclasses import replace
from datetime import datetime

from common.api.core import Pod
from updater.evaluate.quick_oom_kills import ContainerOomKill
from updater.resize.pending_resize import is_pending
from updater.resize.resize_status import ResizeStatus, resize_status
from updater.snapshot.live_pod import LivePod, resized_at
from updater.state import PodMemory


def last_resize(pod: Pod, memory: PodMemory) -> datetime | None:
    """Return the time of the updater's last resize, by the state or the managed fields.

    A withdrawal and the pending resize that it withdrew don't count; the resize before them does.
    After a restart that one is unknown, because the managed fields have only the last time, which
    may be that of the pending resize.
    """
    sent, reported = memory.sent, resized_at(pod) if isinstance(pod, LivePod) else None
    if sent is None:
        return reported
    if sent.withdraws:
        return memory.resized_at
    return sent.at if reported is None else max(reported, sent.at)


def answered_ooms(pod: Pod, memory: PodMemory) -> frozenset[ContainerOomKill]:
    """Return the OOM kills that finished resizes answered."""
    sent = memory.sent
    if sent is None or sent.withdraws or resize_status(pod) is not ResizeStatus.NONE:
        return memory.spent_ooms
    return memory.spent_ooms | sent.ooms


def before_next_resize(pod: Pod, memory: PodMemory) -> PodMemory:
    """Return the memory of a pod before its next resize, with the result of the last one.

    A pending resize has no result: the next one replaces it.
    """
    if is_pending(pod):
        return memory
    return replace(
        memory, resized_at=last_resize(pod, memory), spent_ooms=answered_ooms(pod, memory)
    )

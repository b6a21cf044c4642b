"""The last resize of a pod that was carried out: it starts the pod's age anew (D18, D28)."""

from dataclasses import replace
from datetime import datetime

from common.api.core import Pod
from updater.evaluate.update_order import ContainerOomKill
from updater.resize.pending_resize import is_pending
from updater.resize.resize_state import ResizeStatus, resize_status
from updater.snapshot.live_pod import LivePod, resized_at
from updater.state import PodMemory


def last_resize(pod: Pod, memory: PodMemory) -> datetime | None:
    """Return when we last resized the pod, by our own memory or by that of the API server.

    A withdrawal isn't a resize, and neither is the pending one that it took back. So the one
    before them counts, if this process knows of it. After a restart it may not: of our resizes the
    API server keeps the last time alone, which may be that of the pending one. Withdrawals have a
    manager of their own there.
    """
    sent, reported = memory.sent, resized_at(pod) if isinstance(pod, LivePod) else None
    if sent is None:
        return reported
    if sent.withdraws:
        return memory.resized_at
    return sent.at if reported is None else max(reported, sent.at)


def answered_ooms(pod: Pod, memory: PodMemory) -> frozenset[ContainerOomKill]:
    """Return the OOM kills that resizes answered, without those of one that still goes on."""
    sent = memory.sent
    if sent is None or sent.withdraws or resize_status(pod) is not ResizeStatus.NONE:
        return memory.spent_ooms
    return memory.spent_ooms | sent.ooms


def before_next_resize(pod: Pod, memory: PodMemory) -> PodMemory:
    """Return the memory of a pod that is resized again, with what the last resize came to.

    A pending one comes to nothing: the next one replaces it.
    """
    if is_pending(pod):
        return memory
    return replace(
        memory, resized_at=last_resize(pod, memory), spent_ooms=answered_ooms(pod, memory)
    )

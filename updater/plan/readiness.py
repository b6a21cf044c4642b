"""Pods that need a moment, where passes may follow each other at once (``--event-driven``)."""

from datetime import datetime, timedelta

from common.api.core import Pod
from common.quantity import QuantityError
from common.recommendation.actual import actual_requests
from updater.resize.resize_state import ResizeStatus, resize_status, spec_requests
from updater.state import PodMemory


def is_becoming_ready(pod: Pod, memory: PodMemory, *, within: timedelta, now: datetime) -> bool:
    """Return whether the pod comes up, or carries out a resize of ours, and not for long yet.

    Passes that are an interval apart leave a pod that much time before its neighbours' turn.
    Where news wakes them, the budget does: such a pod counts as out of service ``within`` that
    time, and afterwards as the reference counts it, so that one that never gets Ready stops
    nobody. Zero: no pod does.
    """
    started = pod.status.start_time
    if started is not None and now - started < within and not is_ready(pod):
        return True
    sent = memory.sent
    if sent is None or now - sent.at >= within:
        return False
    return not memory.shows(pod) or not _is_done(pod)


def is_ready(pod: Pod) -> bool:
    """Return the kubelet's word."""
    return any(
        condition.type == "Ready" and condition.status == "True"
        for condition in pod.status.conditions or ()
    )


def _is_done(pod: Pod) -> bool:
    """Return whether the kubelet has carried out, or dropped, what the spec asks for."""
    status = resize_status(pod)
    if status is not ResizeStatus.NONE:
        return status is ResizeStatus.INFEASIBLE
    try:
        return all(
            actual_requests(pod, name) == asked for name, asked in spec_requests(pod).items()
        )
    except QuantityError:
        return False

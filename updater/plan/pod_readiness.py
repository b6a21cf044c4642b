"""Pods that become ready, for passes that follow each other at once (``--event-driven``)."""

from datetime import datetime, timedelta

from common.api.core import Pod
from common.quantity import QuantityError
from common.recommendation.actual_resources import actual_requests
from updater.resize.infeasible_resize import spec_requests
from updater.resize.resize_status import ResizeStatus, resize_status
from updater.state import PodMemory


def is_becoming_ready(pod: Pod, memory: PodMemory, *, within: timedelta, now: datetime) -> bool:
    """Return whether the pod started or was resized less than ``within`` ago, and isn't done.

    Without ``--event-driven`` a pod has an interval before the next pass updates other pods. With
    it, a starting or resizing pod counts as out of service for ``within`` and afterwards as in the
    reference, so that a pod that never becomes Ready doesn't block others.
    """
    started = pod.status.start_time
    if started is not None and now - started < within and not is_ready(pod):
        return True
    sent = memory.sent
    if sent is None or now - sent.at >= within:
        return False
    if not memory.shows(pod):
        return True
    return resize_status(pod) is not ResizeStatus.INFEASIBLE and not has_finished_resize(pod)


def is_ready(pod: Pod) -> bool:
    """Return whether the condition Ready is True."""
    return any(
        condition.type == "Ready" and condition.status == "True"
        for condition in pod.status.conditions or ()
    )


def has_finished_resize(pod: Pod) -> bool:
    """Return whether the kubelet has applied all of the spec."""
    if resize_status(pod) is not ResizeStatus.NONE:
        return False
    try:
        return all(
            actual_requests(pod, name) == amounts for name, amounts in spec_requests(pod).items()
        )
    except QuantityError:
        return False

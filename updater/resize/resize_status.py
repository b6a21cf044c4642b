"""The status of an in-place resize, as the kubelet reports it in the pod's conditions."""

import enum
from datetime import datetime

from common.api.core import Pod, PodCondition

_PENDING = "PodResizePending"
_IN_PROGRESS = "PodResizeInProgress"


class ResizeStatus(enum.StrEnum):
    """The kubelet's report on a resize of the pod."""

    NONE = "none"
    DEFERRED = "deferred"  # does not fit now; the kubelet tries again
    INFEASIBLE = "infeasible"  # never fits; the kubelet waits for another spec
    IN_PROGRESS = "in_progress"
    ERROR = "error"  # admitted, but it failed; the kubelet tries again
    UNKNOWN = "unknown"  # with a reason that this version doesn't know


def resize_condition(pod: Pod) -> PodCondition | None:
    """Return the condition of an unfinished resize; PodResizePending takes precedence.

    Both conditions may be True: a newer resize is pending while an older one is in progress.
    """
    in_progress = None
    for condition in pod.status.conditions or ():
        if condition.status != "True":
            continue
        if condition.type == _PENDING:
            return condition
        if condition.type == _IN_PROGRESS and in_progress is None:
            in_progress = condition
    return in_progress


def resize_status(pod: Pod) -> ResizeStatus:
    """Return the state of the pod's resize by its conditions.

    Source: updater.md 10.1, kubernetes-resize.md 3.1; ``getInPlaceResizeStatus``.
    """
    condition = resize_condition(pod)
    if condition is None:
        return ResizeStatus.NONE
    if condition.type == _PENDING:
        return {"Deferred": ResizeStatus.DEFERRED, "Infeasible": ResizeStatus.INFEASIBLE}.get(
            condition.reason, ResizeStatus.UNKNOWN
        )
    if condition.reason == "Error":
        return ResizeStatus.ERROR
    if condition.reason or condition.message:
        return ResizeStatus.UNKNOWN
    return ResizeStatus.IN_PROGRESS


def resizing_since(
    pod: Pod, *, sent_at: datetime | None, first_seen: datetime | None
) -> datetime | None:
    """Return the start of an unfinished resize, from which time-outs count.

    It is the later of the updater's last resize call and the condition's last transition, which
    the kubelet keeps when only the generation changes. If neither is known, it is ``first_seen``.

    Source: updater.md 10.4 and D17.
    """
    condition = resize_condition(pod)
    transition = None if condition is None else condition.last_transition_time
    known = [time for time in (sent_at, transition) if time is not None]
    return max(known) if known else first_seen

"""The time that the kubelet has for a resize before the pod is evicted instead."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from updater.decision import Decision, Reason, ending, evict, wait
from updater.resize.resize_status import ResizeStatus

WAITING_REASONS: Mapping[ResizeStatus, Reason] = {
    ResizeStatus.DEFERRED: Reason.RESIZE_DEFERRED,
    ResizeStatus.INFEASIBLE: Reason.RESIZE_INFEASIBLE,
    ResizeStatus.IN_PROGRESS: Reason.RESIZE_IN_PROGRESS,
    ResizeStatus.ERROR: Reason.RESIZE_ERROR,
    ResizeStatus.UNKNOWN: Reason.RESIZE_UNKNOWN,
}
WAITED_TOO_LONG: Mapping[ResizeStatus, Reason] = {
    ResizeStatus.DEFERRED: Reason.RESIZE_DEFERRED_TOO_LONG,
    ResizeStatus.INFEASIBLE: Reason.RESIZE_INFEASIBLE,
    ResizeStatus.IN_PROGRESS: Reason.RESIZE_IN_PROGRESS_TOO_LONG,
    ResizeStatus.ERROR: Reason.RESIZE_ERROR_TOO_LONG,
    ResizeStatus.UNKNOWN: Reason.RESIZE_UNKNOWN_TOO_LONG,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """The times after which a pod is evicted because its resize is unfinished."""

    deferred: timedelta = timedelta(minutes=5)
    in_progress: timedelta = timedelta(hours=1)


def unfinished(
    status: ResizeStatus, *, since: datetime | None, timeouts: Timeouts, now: datetime
) -> Decision | None:
    """Return the wait for a resize; None: there is none, or its time-out has passed.

    An infeasible resize times out at once. Error and unknown states have the time-out of a deferred
    resize, because the kubelet retries them by itself (D19).

    Source: updater.md 10.4; ``CanEvictInPlacingPod``.
    """
    if status in (ResizeStatus.NONE, ResizeStatus.INFEASIBLE):
        return None
    limit = timeouts.in_progress if status is ResizeStatus.IN_PROGRESS else timeouts.deferred
    if since is not None and now - since > limit:
        return None
    return wait(WAITING_REASONS[status], until=ending(since, limit))


def overdue(status: ResizeStatus, unfinished: Decision | None, *, allowed: bool) -> Decision:
    """Return the wait for a resize; after its time-out the eviction, if ``allowed``."""
    if unfinished is not None:
        return unfinished
    return evict(WAITED_TOO_LONG[status]) if allowed else wait(Reason.BUDGET_EXHAUSTED)

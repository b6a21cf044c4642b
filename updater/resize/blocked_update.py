"""The reason that an in-place update of a pod is blocked."""

from collections.abc import Mapping

from updater.decision import Action, Decision, Reason
from updater.resize.resize_status import ResizeStatus

_BY_KUBELET: Mapping[ResizeStatus, Reason] = {
    ResizeStatus.DEFERRED: Reason.RESIZE_DEFERRED,
    ResizeStatus.INFEASIBLE: Reason.RESIZE_INFEASIBLE,
    ResizeStatus.ERROR: Reason.RESIZE_ERROR,
}
_BY_API_SERVER: Mapping[Reason, Reason] = {
    Reason.RESIZE_INFEASIBLE: Reason.RESIZE_INFEASIBLE,
    Reason.INFEASIBLE_CACHED: Reason.RESIZE_INFEASIBLE,
    Reason.RESIZE_REFUSED: Reason.RESIZE_REFUSED,
    Reason.REPLACEMENT_WOULD_BE_REFUSED: Reason.RESIZE_REFUSED,
    Reason.RESIZE_FAILED_REPEATEDLY: Reason.RESIZE_FAILED_REPEATEDLY,
    Reason.QUOTA_EXCEEDED: Reason.QUOTA_EXCEEDED,
    Reason.QOS_WOULD_CHANGE: Reason.QOS_WOULD_CHANGE,
}
_REFUSALS = frozenset(_BY_API_SERVER.values())


def blocked_by(decision: Decision, status: ResizeStatus, before: Reason | None) -> Reason | None:
    """Return the reason that blocks the in-place update of a pod; None if it isn't blocked (X114).

    ``status`` is the kubelet's report, and ``before`` the reason so far. A new resize that was
    sent while the kubelet reports a block keeps ``before`` until the kubelet reports again. A
    refusal by the API server also stays after a decision about something else, such as the wait
    for a budget, and after a partial resize (X102). The rest of a deferred resize is blocked until
    it is sent (X138).
    """
    if decision.needs_nothing or decision.reason is Reason.NOTHING_TO_DO:
        return None
    partial = decision.reason is Reason.RESIZE_PARTIAL
    sent = decision.action is Action.RESIZE and not partial
    by_kubelet = _BY_KUBELET.get(status)
    if by_kubelet is not None:
        return before if sent else by_kubelet
    if sent or status is ResizeStatus.IN_PROGRESS:
        return None
    if decision.reason is Reason.RESIZE_DEFERRED:
        return Reason.RESIZE_DEFERRED  # the rest of a resize waits for room
    if partial and before is Reason.RESIZE_DEFERRED:
        return before
    return _BY_API_SERVER.get(decision.reason, before if before in _REFUSALS else None)

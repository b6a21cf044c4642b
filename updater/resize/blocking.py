"""Whether an in-place update of a pod is blocked, and by what."""

from collections.abc import Mapping

from updater.decision import Action, Decision, Reason
from updater.resize.resize_state import ResizeStatus

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
    """Return what blocks the in-place update of a pod from now on; None if nothing does (X114).

    ``status`` is the kubelet's word about the pod's present resize, and ``before`` what blocked
    it so far. A new size that was sent while the kubelet reports the last one as blocked changes
    nothing until the kubelet has looked at it. A decision that says nothing about the resize,
    such as the wait for a budget, doesn't end what the API server refused, and neither does a part
    of what is wanted (X102).
    """
    if decision.needs_nothing or decision.reason is Reason.NOTHING_TO_DO:
        return None
    sent = decision.action is Action.RESIZE and decision.reason is not Reason.RESIZE_PARTIAL
    by_kubelet = _BY_KUBELET.get(status)
    if by_kubelet is not None:
        return before if sent else by_kubelet
    if sent or status is ResizeStatus.IN_PROGRESS:
        return None
    return _BY_API_SERVER.get(decision.reason, before if before in _REFUSALS else None)

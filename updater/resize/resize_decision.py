"""The decision on a pod that needs an in-place resize: resize, evict or wait."""

from dataclasses import dataclass
from datetime import datetime

from common.api.autoscaling import UpdateMode
from common.api.core import Pod
from common.recommendation.preflight import Check, Refusal
from updater.decision import Decision, Reason, evict, leave, resize, wait
from updater.eviction.disruption_budget import ReplicaGroup, group_closed
from updater.resize.infeasible_resize import (
    Infeasible,
    lower_somewhere,
    spec_requests,
    still_infeasible,
)
from updater.resize.resize_plan import ResizePlan
from updater.resize.resize_status import ResizeStatus, resize_status
from updater.resize.resize_timeouts import WAITED_TOO_LONG, WAITING_REASONS, overdue
from updater.snapshot.live_node import NodeCapacity


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The circumstances of a resize call that its result depends on."""

    node: NodeCapacity | None = None  # of the pod
    rest: Infeasible | None = None  # left out because it doesn't fit
    may_evict: bool = True  # a refusal may lead to an eviction
    pending_since: datetime | None = None  # start of the pending resize that it replaces


WHOLE = Attempt()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeDecision:
    """The decision, and the requests to remember as infeasible."""

    decision: Decision
    infeasible: Infeasible | None = None


def decide_resize(
    why: Reason,
    pod: Pod,
    *,
    mode: UpdateMode,
    group: ReplicaGroup | None,
    plan: ResizePlan,
    unfinished: Decision | None,
    held: Decision | None,
    infeasible: Infeasible | None,
    skip_budget: bool,
    refused: Refusal | None = None,
) -> ResizeDecision:
    """Decide whether a pod that needs an update is resized, evicted instead, or waits.

    Mode InPlace never evicts: it waits for the kubelet, remembers infeasible requests, and
    retries when an amount is lower. Mode InPlaceOrRecreate waits for the time-out and then
    decides on an eviction, which has further conditions. ``unfinished`` is the wait for the
    present resize, None without one or after its time-out; ``held`` is the wait for the next call
    after a failed one, and ``refused`` the reason that the API server would refuse the resize. A
    resize that would be refused isn't sent: mode InPlace leaves the pod, and mode
    InPlaceOrRecreate evicts it unless the replacement would
    be refused too (X110).

    Source: updater.md 10.2-10.5; ``CanInPlaceUpdate``,
    vertical-pod-autoscaler/pkg/updater/restriction/pods_inplace_restriction.go.
    """
    closed = why_closed(pod, group)
    if closed is not None or group is None:
        return ResizeDecision(decision=wait(closed or Reason.NO_CONTROLLER), infeasible=infeasible)
    status = resize_status(pod)
    room = group.allows(pod)
    free = skip_budget and not plan.restarts
    if mode is UpdateMode.IN_PLACE:
        remembered = still_infeasible(infeasible, status)
        if remembered is not None and not lower_somewhere(plan.targets, remembered.targets):
            return ResizeDecision(decision=leave(Reason.INFEASIBLE_CACHED), infeasible=remembered)
        if status is ResizeStatus.INFEASIBLE and remembered is None:
            failed = spec_requests(pod)
            if not lower_somewhere(plan.targets, failed):
                return ResizeDecision(
                    decision=leave(Reason.RESIZE_INFEASIBLE),
                    infeasible=Infeasible(targets=failed, reported=True),
                )
        if status not in (ResizeStatus.NONE, ResizeStatus.INFEASIBLE):
            return ResizeDecision(decision=wait(WAITING_REASONS[status]))
    elif status is not ResizeStatus.NONE:
        return ResizeDecision(decision=overdue(status, unfinished, allowed=room))
    decision = _decide_now(why, plan, mode=mode, refused=refused, held=held, allowed=room or free)
    return ResizeDecision(decision=decision)


def why_closed(pod: Pod, group: ReplicaGroup | None) -> Reason | None:
    """Return the reason that the pod can't be resized, budget aside; None if it can."""
    pending = Reason.POD_PENDING if pod.status.phase == "Pending" else None
    return group_closed(group) or pending


def rollout_holds(pod: Pod, plan: ResizePlan, group: ReplicaGroup | None) -> bool:
    """Return whether a rollout in progress forbids the resize, which restarts containers (X105)."""
    return plan.restarts and group is not None and not group.rollout_allows_restart(pod)


def not_sent(refused: Refusal) -> Decision:
    """Return the decision on a resize that would be refused, if no eviction follows."""
    if refused.check is Check.UNREADABLE:
        return leave(Reason.UNREADABLE)
    if refused.check is Check.QOS_CLASS:
        return leave(Reason.QOS_WOULD_CHANGE, detail=refused.message)
    return leave(Reason.REPLACEMENT_WOULD_BE_REFUSED, detail=refused.message)


def instead_of_eviction(decision: Decision) -> Decision:
    """Return the decision on a pod whose resize failed or waits, and that isn't evicted for it."""
    if decision.reason is Reason.RESIZE_INFEASIBLE:
        return leave(Reason.INFEASIBLE_CACHED)
    return wait(_STILL_WAITING.get(decision.reason, decision.reason), detail=decision.detail)


def _decide_now(
    why: Reason,
    plan: ResizePlan,
    *,
    mode: UpdateMode,
    refused: Refusal | None,
    held: Decision | None,
    allowed: bool,
) -> Decision:
    if not plan.changes:
        return leave(Reason.NOTHING_TO_DO)
    evicts = mode is not UpdateMode.IN_PLACE
    if refused is not None:
        if not evicts or refused.check is Check.UNREADABLE:
            return not_sent(refused)
        is_qos = refused.check is Check.QOS_CLASS
        reason = Reason.QOS_WOULD_CHANGE if is_qos else Reason.RESIZE_REFUSED
        return evict(reason, detail=refused.message)
    if held is not None:
        return evict(held.reason) if evicts and held.reason not in _NEVER_EVICT else held
    return resize(why) if allowed else wait(Reason.BUDGET_EXHAUSTED)


_STILL_WAITING = {too_long: WAITING_REASONS[status] for status, too_long in WAITED_TOO_LONG.items()}
# The replacement would be refused too, or the next call may succeed.
_NEVER_EVICT = frozenset({Reason.QUOTA_EXCEEDED, Reason.RESIZE_RETRY})

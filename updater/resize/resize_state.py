"""Where an in-place resize of a pod stands, and what follows from it."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from common.api.autoscaling import UpdateMode
from common.api.core import Pod, PodCondition
from common.recommendation.preflight import Check, Refusal
from common.recommendation.scaled_containers import scaled_specs
from common.resources import ResourceQuantities, parse_quantities
from updater.decision import Decision, Reason, ending, evict, leave, resize, wait
from updater.eviction.disruption import GroupStanding, ReplicaGroup
from updater.resize.resize_plan import ResizePlan
from updater.snapshot.live_node import NodeCapacity

_PENDING = "PodResizePending"
_IN_PROGRESS = "PodResizeInProgress"

Targets = Mapping[str, ResourceQuantities]
"""Requests by container name."""


class ResizeStatus(enum.StrEnum):
    """What the kubelet says about a resize of the pod."""

    NONE = "none"
    DEFERRED = "deferred"  # does not fit now; the kubelet tries again
    INFEASIBLE = "infeasible"  # never fits; the kubelet waits for another spec
    IN_PROGRESS = "in_progress"
    ERROR = "error"  # admitted, but it failed; the kubelet tries again
    UNKNOWN = "unknown"  # a reason that we don't know


_WAITING: Mapping[ResizeStatus, Reason] = {
    ResizeStatus.DEFERRED: Reason.RESIZE_DEFERRED,
    ResizeStatus.INFEASIBLE: Reason.RESIZE_INFEASIBLE,
    ResizeStatus.IN_PROGRESS: Reason.RESIZE_IN_PROGRESS,
    ResizeStatus.ERROR: Reason.RESIZE_ERROR,
    ResizeStatus.UNKNOWN: Reason.RESIZE_UNKNOWN,
}
_WAITED_TOO_LONG: Mapping[ResizeStatus, Reason] = {
    ResizeStatus.DEFERRED: Reason.RESIZE_DEFERRED_TOO_LONG,
    ResizeStatus.INFEASIBLE: Reason.RESIZE_INFEASIBLE,
    ResizeStatus.IN_PROGRESS: Reason.RESIZE_IN_PROGRESS_TOO_LONG,
    ResizeStatus.ERROR: Reason.RESIZE_ERROR_TOO_LONG,
    ResizeStatus.UNKNOWN: Reason.RESIZE_UNKNOWN_TOO_LONG,
}


def resize_condition(pod: Pod) -> PodCondition | None:
    """Return the condition that tells about an unfinished resize; a pending one goes first.

    Both may be True at once: a newer resize is pending while an older one is carried out.
    A condition that is False hides nothing.
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
    """Read the pod's conditions.

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
    """Return when the clock of an unfinished resize started.

    The later of our last resize call and the condition's last transition, which the kubelet
    keeps when only the generation changes; where neither is known, when we first saw it.

    Source: updater.md 10.4 and D17.
    """
    condition = resize_condition(pod)
    transition = None if condition is None else condition.last_transition_time
    known = [time for time in (sent_at, transition) if time is not None]
    return max(known) if known else first_seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long the kubelet may take before a pod is evicted instead."""

    deferred: timedelta = timedelta(minutes=5)
    in_progress: timedelta = timedelta(hours=1)


def unfinished(
    status: ResizeStatus, *, since: datetime | None, timeouts: Timeouts, now: datetime
) -> Decision | None:
    """Return the wait for a resize; None if there is none, or if its time is up.

    Infeasible is up at once. Error and unknown states wait as long as a deferred resize,
    because the kubelet tries them again by itself (D19).

    Source: updater.md 10.4; ``CanEvictInPlacingPod``.
    """
    if status in (ResizeStatus.NONE, ResizeStatus.INFEASIBLE):
        return None
    limit = timeouts.in_progress if status is ResizeStatus.IN_PROGRESS else timeouts.deferred
    if since is not None and now - since > limit:
        return None
    return wait(_WAITING[status], until=ending(since, limit))


class Part(enum.Enum):
    """What became of the changes that a node could hold of a resize that it couldn't (X102)."""

    UNTRIED = enum.auto()
    SENT = enum.auto()  # what is remembered is the rest
    REFUSED = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasible:
    """Requests that did not fit, by container."""

    targets: Targets
    reported: bool  # by the kubelet in the pod's status; otherwise by a refused call
    node: NodeCapacity | None = None  # at that time; None: not known
    part: Part = Part.UNTRIED


def lower_somewhere(current: Targets, than: Targets) -> bool:
    """Return whether some resource of some container is lower now; names on one side don't count.

    Source: updater.md 9.
    """
    return any(
        amount < than[name][resource]
        for name, resources in current.items()
        if name in than
        for resource, amount in resources.items()
        if resource in than[name]
    )


def spec_requests(pod: Pod) -> dict[str, ResourceQuantities]:
    """Return what the pod's spec asks for, by container: the values that a resize failed with."""
    return {
        container.name: parse_quantities(
            None if container.resources is None else container.resources.requests
        )
        for container in scaled_specs(pod)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """How a resize is sent, and what may follow from it."""

    node: NodeCapacity | None = None  # on which the pod is
    rest: Infeasible | None = None  # what it leaves out, for want of room
    may_evict: bool = True  # a refusal may lead to an eviction
    pending_since: datetime | None = None  # the start of the wait for a resize that it replaces


WHOLE = Attempt()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeDecision:
    """What to do, and what to remember as infeasible from then on."""

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
    """Return whether a pod that is worth it is resized now, evicted instead, or left to wait.

    Mode InPlace never evicts: it waits for the kubelet, remembers what is infeasible, and
    tries again when something is lower. Mode InPlaceOrRecreate gives the kubelet its time
    and then asks for an eviction, which has gates of its own. ``unfinished`` is the answer
    of the function of that name, ``held`` the wait for the next try after one that failed, and
    ``refused`` why the API server would refuse the resize. It isn't sent then: mode InPlace leaves
    the pod, and mode InPlaceOrRecreate evicts it if the replacement is not refused as well (X110).

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
        remembered = _still_infeasible(infeasible, status)
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
            return ResizeDecision(decision=wait(_WAITING[status]))
        return ResizeDecision(
            decision=_in_place_only(why, plan, refused=refused, held=held, allowed=room or free)
        )
    if status is not ResizeStatus.NONE:
        return ResizeDecision(decision=_overdue(status, unfinished, allowed=room))
    return ResizeDecision(
        decision=_or_recreate(why, plan, refused=refused, held=held, allowed=room or free)
    )


def why_closed(pod: Pod, group: ReplicaGroup | None) -> Reason | None:
    """Return why nothing may be done to the pod in place, whatever its budget; None if it may."""
    if group is None:
        return Reason.NO_CONTROLLER
    if group.standing is GroupStanding.CONTROLLER_UNKNOWN:
        return Reason.CONTROLLER_UNKNOWN
    if group.standing is GroupStanding.BELOW_MIN_REPLICAS:
        return Reason.BELOW_MIN_REPLICAS
    return Reason.POD_PENDING if pod.status.phase == "Pending" else None


def _still_infeasible(remembered: Infeasible | None, status: ResizeStatus) -> Infeasible | None:
    """Forget what the kubelet reported once it reports it no longer."""
    if remembered is None or not remembered.reported:
        return remembered
    return remembered if status is ResizeStatus.INFEASIBLE else None


def not_sent(refused: Refusal) -> Decision:
    """Return the decision on a resize that would be refused, where no eviction follows."""
    if refused.check is Check.UNREADABLE:
        return leave(Reason.UNREADABLE)
    if refused.check is Check.QOS_CLASS:
        return leave(Reason.QOS_WOULD_CHANGE, detail=refused.message)
    return leave(Reason.REPLACEMENT_WOULD_BE_REFUSED, detail=refused.message)


def _in_place_only(
    why: Reason,
    plan: ResizePlan,
    *,
    refused: Refusal | None,
    held: Decision | None,
    allowed: bool,
) -> Decision:
    if not plan.changes:
        return leave(Reason.NOTHING_TO_DO)
    if refused is not None:
        return not_sent(refused)
    if held is not None:
        return held
    return resize(why) if allowed else wait(Reason.BUDGET_EXHAUSTED)


def _overdue(status: ResizeStatus, unfinished: Decision | None, *, allowed: bool) -> Decision:
    if unfinished is not None:
        return unfinished
    return evict(_WAITED_TOO_LONG[status]) if allowed else wait(Reason.BUDGET_EXHAUSTED)


def _or_recreate(
    why: Reason,
    plan: ResizePlan,
    *,
    refused: Refusal | None,
    held: Decision | None,
    allowed: bool,
) -> Decision:
    if not plan.changes:
        return leave(Reason.NOTHING_TO_DO)
    if refused is not None:
        if refused.check is Check.UNREADABLE:
            return not_sent(refused)
        is_qos = refused.check is Check.QOS_CLASS
        reason = Reason.QOS_WOULD_CHANGE if is_qos else Reason.RESIZE_REFUSED
        return evict(reason, detail=refused.message)
    if held is not None:
        return held if held.reason in _NEVER_EVICT else evict(held.reason)
    return resize(why) if allowed else wait(Reason.BUDGET_EXHAUSTED)


# The replacement would be refused as well, or the next try may simply succeed.
_NEVER_EVICT = frozenset({Reason.QUOTA_EXCEEDED, Reason.RESIZE_RETRY})

"""What it means when the API server refuses a resize or an eviction."""

import enum
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from common.api.autoscaling import UpdateMode
from common.errors import (
    ConflictError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    NotLeadingError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
)
from updater.decision import Action, Decision, Reason, evict, leave, pause_after, wait
from updater.resize.resize_state import WHOLE, Attempt, Infeasible, Part, Targets
from updater.state import PodMemory, ResizeRefusal


class ResizeFailure(enum.Enum):
    """What a refused resize call means."""

    TRANSIENT = enum.auto()
    QUOTA = enum.auto()
    NODE_CAPACITY = enum.auto()
    REFUSED = enum.auto()
    GONE = enum.auto()
    NOT_SERVED = enum.auto()  # no resize subresource: Kubernetes before 1.33


def classify(error: KubeError) -> ResizeFailure:
    """Tell a hiccup from a verdict.

    Infeasible is a 403 with the cause NodeCapacity and nothing else. A 404 that names the
    pod means that it is gone; one that names nothing comes from the router. A 401, or a Lease
    that may have run out, says nothing about the pod, and an eviction would meet it too.

    Source: updater.md 9 and 10.3, kubernetes-resize.md 2.
    """
    if isinstance(error, NotFoundError):
        named = error.kind == "pods" and error.name
        return ResizeFailure.GONE if named else ResizeFailure.NOT_SERVED
    if isinstance(
        error,
        ConflictError
        | TooManyRequestsError
        | ServerError
        | UnreachableError
        | UnauthorizedError
        | NotLeadingError,
    ):
        return ResizeFailure.TRANSIENT
    if isinstance(error, ForbiddenError):
        if error.reason == "Forbidden" and error.has_cause("NodeCapacity"):
            return ResizeFailure.NODE_CAPACITY
        if "exceeded quota" in str(error):
            return ResizeFailure.QUOTA
    return ResizeFailure.REFUSED


_HELD: Mapping[ResizeFailure, Reason] = {
    ResizeFailure.TRANSIENT: Reason.RESIZE_RETRY,
    ResizeFailure.QUOTA: Reason.QUOTA_EXCEEDED,
    ResizeFailure.NODE_CAPACITY: Reason.RESIZE_INFEASIBLE,
    ResizeFailure.REFUSED: Reason.RESIZE_REFUSED,
    ResizeFailure.NOT_SERVED: Reason.RESIZE_NOT_SERVED,
}
_TRANSIENT_TRIES = 3


def after_failure(failure: ResizeFailure, *, mode: UpdateMode, tries: int) -> Decision:
    """Return what follows from a refused resize call; ``tries`` counts failed ones in a row.

    One hiccup of the API server must not evict a fleet, so transient errors are tried again,
    pass after pass, and count as refusals after the third. A quota that refuses the
    resize would refuse the replacement too, and all the more where only a part was asked for: the
    replacement requests at least as much (X102).

    Source: updater.md 10.3 and D29.
    """
    if failure is ResizeFailure.GONE:
        return leave(Reason.GONE)
    reason = _HELD[failure]
    if mode is UpdateMode.IN_PLACE:
        return leave(reason) if failure is ResizeFailure.NODE_CAPACITY else wait(reason)
    if failure is ResizeFailure.QUOTA:
        return wait(reason)
    if failure is ResizeFailure.TRANSIENT:
        if tries < _TRANSIENT_TRIES:
            return wait(reason)
        return evict(Reason.RESIZE_FAILED_REPEATEDLY)
    return evict(reason)


def is_infeasible(error: KubeError, *, mode: UpdateMode) -> bool:
    """Return whether the wanted size never fits, which mode InPlace remembers."""
    return mode is UpdateMode.IN_PLACE and classify(error) is ResizeFailure.NODE_CAPACITY


def after_refused_resize(
    error: KubeError,
    memory: PodMemory,
    *,
    mode: UpdateMode,
    targets: Targets,
    interval: timedelta,
    pace: timedelta = timedelta(),
    attempt: Attempt = WHOLE,
    now: datetime,
) -> tuple[Decision, PodMemory]:
    """Return what follows from a refused resize call, and what to remember of it.

    ``targets`` are what was asked for. An ``attempt`` that must not lead to an eviction has the
    consequences of mode InPlace, whatever the mode. ``pace`` is the time to leave between hiccups
    where passes may follow each other at once: three within seconds are one.
    """
    if not attempt.may_evict:
        mode = UpdateMode.IN_PLACE
    tries = 1 if memory.refusal is None else memory.refusal.tries + 1
    decision = after_failure(classify(error), mode=mode, tries=tries)
    if is_infeasible(error, mode=mode):
        infeasible = Infeasible(
            targets=targets,
            reported=False,
            node=attempt.node,
            part=Part.UNTRIED if attempt.rest is None else Part.REFUSED,
        )
        return decision, replace(memory, infeasible=infeasible, refusal=None)
    if decision.reason is Reason.GONE:
        return decision, replace(memory, refusal=None)  # nobody refused anything
    pause = back_off(decision, tries=tries, interval=interval) or pace
    refusal = ResizeRefusal(
        reason=decision.reason,
        tries=tries,
        until=now + pause,
        targets=targets,
        node=attempt.node,
    )
    if decision.action is Action.WAIT and pause:
        decision = replace(decision, until=refusal.until)
    return decision, replace(memory, refusal=refusal)


def back_off(decision: Decision, *, tries: int, interval: timedelta) -> timedelta:
    """Return how long to leave the API server alone after a refused resize.

    A transient error is tried again in the next pass, three times; after that the pause grows as
    with other refusals.
    """
    if decision == wait(Reason.RESIZE_RETRY) and tries <= _TRANSIENT_TRIES:
        return timedelta()
    return pause_after(tries, interval=interval)


def after_refused_eviction(error: KubeError) -> Decision:
    """Return what follows from a refused eviction: the next pass decides anew, in any case.

    Source: updater.md 6.3, kubernetes-resize.md 5.
    """
    if isinstance(error, NotFoundError) or _is_about_another_pod(error):
        return leave(Reason.GONE)
    if isinstance(error, TooManyRequestsError):
        return wait(Reason.EVICTION_REFUSED)
    return wait(Reason.EVICTION_FAILED)


def _is_about_another_pod(error: KubeError) -> bool:
    """Return whether the pod of that name is the next one; any other conflict is a hiccup."""
    return isinstance(error, ConflictError) and "UID in the precondition" in str(error)


def may_have_happened(error: KubeError) -> bool:
    """No answer, or none of etcd, or the server's own time-out: it may have been carried out."""
    return isinstance(error, UnreachableError) or (
        isinstance(error, ServerError)
        and (error.status in (502, 504) or "etcdserver" in str(error))
    )

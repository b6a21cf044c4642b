"""Decisions after refused resizes and evictions."""

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
from updater.resize.infeasible_resize import Infeasible, Part, Targets
from updater.resize.resize_decision import WHOLE, Attempt
from updater.state import PodMemory, ResizeRefusal


def classify(error: KubeError) -> Reason:
    """Return the reason for a refused resize call.

    It is infeasible only after a 403 with the cause NodeCapacity. After a 404 that names the pod,
    the pod is gone; other 404s mean that resizes aren't served. A 401, or a Lease that may have
    expired, is transient: an eviction would fail too.

    Source: updater.md 9 and 10.3, kubernetes-resize.md 2.
    """
    if isinstance(error, NotFoundError):
        named = error.kind == "pods" and error.name
        return Reason.GONE if named else Reason.RESIZE_NOT_SERVED
    if isinstance(
        error,
        ConflictError
        | TooManyRequestsError
        | ServerError
        | UnreachableError
        | UnauthorizedError
        | NotLeadingError,
    ):
        return Reason.RESIZE_RETRY
    if isinstance(error, ForbiddenError):
        if error.reason == "Forbidden" and error.has_cause("NodeCapacity"):
            return Reason.RESIZE_INFEASIBLE
        if "exceeded quota" in str(error):
            return Reason.QUOTA_EXCEEDED
    return Reason.RESIZE_REFUSED


_TRANSIENT_TRIES = 3


def after_failure(reason: Reason, *, mode: UpdateMode, tries: int) -> Decision:
    """Return the decision after a refused resize call; ``tries`` counts failures in a row.

    A transient error is retried in the next passes, and leads to an eviction only after the third,
    so that an outage doesn't evict many pods. A quota that refuses a resize, or a part of it, would
    refuse the replacement too (X102).

    Source: updater.md 10.3 and D29.
    """
    if reason is Reason.GONE:
        return leave(reason)
    if mode is UpdateMode.IN_PLACE:
        return leave(reason) if reason is Reason.RESIZE_INFEASIBLE else wait(reason)
    if reason is Reason.QUOTA_EXCEEDED:
        return wait(reason)
    if reason is Reason.RESIZE_RETRY:
        if tries < _TRANSIENT_TRIES:
            return wait(reason)
        return evict(Reason.RESIZE_FAILED_REPEATEDLY)
    return evict(reason)


def is_infeasible(error: KubeError, *, mode: UpdateMode) -> bool:
    """Return whether mode InPlace remembers the refused requests as infeasible."""
    return mode is UpdateMode.IN_PLACE and classify(error) is Reason.RESIZE_INFEASIBLE


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
    """Return the decision after a refused resize call, and the pod's next memory.

    ``targets`` are the requested amounts. An ``attempt`` that must not lead to an eviction is
    handled as in mode InPlace. ``pace`` is the pause after a transient error if passes can follow
    each other at once, because three errors within seconds count as one.
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
        return decision, replace(memory, refusal=None)  # this is no refusal
    # A transient error is tried again in the next pass, three times.
    again = decision == wait(Reason.RESIZE_RETRY) and tries <= _TRANSIENT_TRIES
    pause = pace if again else pause_after(tries, interval=interval)
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


def after_refused_eviction(error: KubeError) -> Decision:
    """Return the decision after a refused eviction; the next pass decides again.

    Source: updater.md 6.3, kubernetes-resize.md 5.
    """
    # Any other conflict is transient.
    replaced = isinstance(error, ConflictError) and "UID in the precondition" in str(error)
    if replaced or isinstance(error, NotFoundError):
        return leave(Reason.GONE)
    if isinstance(error, TooManyRequestsError):
        return wait(Reason.EVICTION_REFUSED)
    return wait(Reason.EVICTION_FAILED)


def may_have_happened(error: KubeError) -> bool:
    """Return whether a failed call may have been carried out (no answer, time-out, etcd error)."""
    return isinstance(error, UnreachableError) or (
        isinstance(error, ServerError)
        and (error.status in (502, 504) or "etcdserver" in str(error))
    )

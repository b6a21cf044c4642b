"""What the updater does about one pod in one pass, and why."""

import enum
from dataclasses import dataclass, field
from datetime import datetime, timedelta


class Action(enum.StrEnum):
    """What happens to the pod."""

    EVICT = "evict"
    RESIZE = "resize"
    WAIT = "wait"  # it should change, and something holds that up
    LEAVE = "leave"  # it need not, or must not, change


class Reason(enum.StrEnum):
    """Why; the closed list. Log key, metric label, and the end of an event's message.

    The values of ``update_order.Verdict`` come back here word for word.
    """

    # Worth an update.
    OUTSIDE_RANGE = "outside_range"  # a request is outside [lower bound, upper bound]
    OOMED_QUICKLY = "oomed_quickly"  # OOM-killed soon after its start
    DRIFTED = "drifted"  # old enough, and far enough from the target
    STARTUP_BOOST_OVER = "startup_boost_over"  # the CPU for the start is taken back
    # In place did not work, so the pod is to be replaced.
    RESIZE_INFEASIBLE = "resize_infeasible"  # the kubelet says that it never fits
    RESIZE_DEFERRED_TOO_LONG = "resize_deferred_too_long"
    RESIZE_IN_PROGRESS_TOO_LONG = "resize_in_progress_too_long"
    RESIZE_ERROR_TOO_LONG = "resize_error_too_long"
    RESIZE_UNKNOWN_TOO_LONG = "resize_unknown_too_long"
    RESIZE_REFUSED = "resize_refused"  # by the API server, for good
    RESIZE_FAILED_REPEATEDLY = "resize_failed_repeatedly"  # transient errors, pass after pass
    RESIZE_NOT_SERVED = "resize_not_served"  # the API server has no resize subresource
    QOS_WOULD_CHANGE = "qos_would_change"  # which the API server forbids in place
    # Not worth an update.
    NO_CHANGE = "no_change"
    NOT_STARTED = "not_started"
    TOO_YOUNG = "too_young"
    TOO_SMALL = "too_small"
    NO_RECOMMENDATION = "no_recommendation"
    NOTHING_TO_DO = "nothing_to_do"  # the spec already says what is wanted
    INFEASIBLE_CACHED = "infeasible_cached"  # nothing is lower than what failed before
    GONE = "gone"  # somebody else was faster
    UNREADABLE = "unreadable"  # a quantity or an annotation is not what it should be
    # Held up.
    NO_CONTROLLER = "no_controller"  # nobody would replace the pod
    CONTROLLER_UNKNOWN = "controller_unknown"  # not found, or it asks for no replicas
    BELOW_MIN_REPLICAS = "below_min_replicas"
    BUDGET_EXHAUSTED = "budget_exhausted"
    POD_PENDING = "pod_pending"  # too early for a resize
    STARTUP_BOOSTED = "startup_boosted"  # left alone until the boost is over
    REQUIREMENTS_NOT_MET = "requirements_not_met"
    ADMISSION_NOT_READY = "admission_not_ready"  # a replacement would come up unpatched
    REPLACEMENT_WOULD_BE_REFUSED = "replacement_would_be_refused"  # by a LimitRange
    REPLACEMENT_UNVERIFIED = "replacement_unverified"  # three out, none seen right yet
    ACTUATION_SUSPENDED = "actuation_suspended"  # three came up wrong; one probe an hour
    VPA_CHANGED = "vpa_changed"  # since the pass began, or it was deleted
    RESIZE_DEFERRED = "resize_deferred"
    RESIZE_IN_PROGRESS = "resize_in_progress"
    RESIZE_ERROR = "resize_error"
    RESIZE_UNKNOWN = "resize_unknown"
    # Tried without success.
    QUOTA_EXCEEDED = "quota_exceeded"
    RESIZE_RETRY = "resize_retry"  # a hiccup of the API server
    UNBOOST_FAILED = "unboost_failed"
    EVICTION_REFUSED = "eviction_refused"  # by a PodDisruptionBudget, as a rule
    EVICTION_FAILED = "eviction_failed"
    RATE_LIMITED = "rate_limited"  # no turn before the pass was over
    NO_TURN = "no_turn"  # the pass was over before anything was tried; the next one looks again
    # Done, and the caches have yet to show it.
    RESIZE_SENT = "resize_sent"


@dataclass(frozen=True, slots=True)
class Decision:
    """One per pod and pass: the action, and the reason for it.

    Until ``until`` time alone changes nothing about it; None: that isn't known, or it is not for
    time to change it. It does not tell decisions apart: a pod that waits on has decided nothing
    new.
    """

    action: Action
    reason: Reason
    until: datetime | None = field(default=None, compare=False)

    @property
    def needs_nothing(self) -> bool:
        """Whether the pod is no candidate at all, as most pods are most of the time."""
        return self.reason in _NEED_NOTHING


_NEED_NOTHING = frozenset(
    {
        Reason.NO_CHANGE,
        Reason.NOT_STARTED,
        Reason.TOO_YOUNG,
        Reason.TOO_SMALL,
        Reason.NO_RECOMMENDATION,
    }
)


def ending(since: datetime | None, pause: timedelta) -> datetime | None:
    """When a pause is over; None if its start isn't known, or if it outlasts the calendar."""
    try:
        return None if since is None else since + pause
    except OverflowError:
        return None


def evict(reason: Reason) -> Decision:
    """The pod is to be replaced."""
    return Decision(Action.EVICT, reason)


def resize(reason: Reason) -> Decision:
    """The pod is to be resized in place."""
    return Decision(Action.RESIZE, reason)


def wait(reason: Reason, *, until: datetime | None = None) -> Decision:
    """The pod has to wait."""
    return Decision(Action.WAIT, reason, until)


def leave(reason: Reason, *, until: datetime | None = None) -> Decision:
    """The pod stays as it is."""
    return Decision(Action.LEAVE, reason, until)

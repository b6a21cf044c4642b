"""Decisions on a pod in a pass, and the reasons for them."""

import enum
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from common.codes import Code

_MOST_DOUBLINGS = 5


class Action(enum.StrEnum):
    """The action on a pod."""

    EVICT = "evict"
    RESIZE = "resize"
    WAIT = "wait"  # an update is due, but not possible now
    LEAVE = "leave"  # no update is needed or allowed


class Reason(Code):
    """The reason for a decision, also a log key, a metric label and a part of Events.

    The texts are those of the documentation and of ``GET /debug/plan``.
    """

    # An update is due.
    OUTSIDE_RANGE = "outside_range", "A request is outside lower and upper bound."
    OOMED_QUICKLY = "oomed_quickly", "OOM-killed soon after its start."
    DRIFTED = "drifted", "Old enough, and far enough from the target."
    STARTUP_BOOST_OVER = "startup_boost_over", "The CPU for the start is taken back."
    # A resize failed, so an eviction is due.
    RESIZE_INFEASIBLE = "resize_infeasible", "The node can never hold what is wanted."
    RESIZE_DEFERRED_TOO_LONG = (
        "resize_deferred_too_long",
        "No room on the node for longer than --in-place-deferred-timeout.",
    )
    RESIZE_IN_PROGRESS_TOO_LONG = (
        "resize_in_progress_too_long",
        "Going on for more than --in-place-in-progress-timeout.",
    )
    RESIZE_ERROR_TOO_LONG = (
        "resize_error_too_long",
        "The kubelet's error lasts for longer than --in-place-deferred-timeout.",
    )
    RESIZE_UNKNOWN_TOO_LONG = (
        "resize_unknown_too_long",
        "An unknown state lasts for longer than --in-place-deferred-timeout.",
    )
    RESIZE_REFUSED = "resize_refused", "The API server refuses the resize, or would refuse it."
    RESIZE_FAILED_REPEATEDLY = "resize_failed_repeatedly", "The API server failed pass after pass."
    RESIZE_NOT_SERVED = "resize_not_served", "The API server has no resize: Kubernetes before 1.33."
    QOS_WOULD_CHANGE = (
        "qos_would_change",
        "The pod's QoS class would change, which no resize may do.",
    )
    # A pending resize is replaced, or only a part of one is sent.
    RESIZE_WITHDRAWN = (
        "resize_withdrawn",
        "A pending resize is taken back: it isn't wanted any more, or is to be tried again.",
    )
    RESIZE_LOWERED = (
        "resize_lowered",
        "A pending resize asks for more than is recommended now, and is replaced.",
    )
    RESIZE_PARTIAL = (
        "resize_partial",
        "The node can't hold all that is wanted; the largest step that it can hold is sent.",
    )
    # No update is due.
    NO_CHANGE = "no_change", "Nothing differs from what is recommended."
    NOT_STARTED = "not_started", "The pod has no start time yet."
    TOO_YOUNG = "too_young", "In its range, and younger than the lifetime threshold."
    TOO_SMALL = "too_small", "In its range, and closer to the target than --pod-update-threshold."
    NO_RECOMMENDATION = "no_recommendation", "The VPA has no recommendation yet."
    NOTHING_TO_DO = "nothing_to_do", "The pod's spec says already what is wanted."
    INFEASIBLE_CACHED = (
        "infeasible_cached",
        "The same resize did not fit before, and no requested amount is lower now.",
    )
    GONE = "gone", "The pod is gone."
    UNREADABLE = "unreadable", "A quantity or an annotation can't be read."
    # An update is due, but has to wait.
    NO_CONTROLLER = "no_controller", "No controller would replace the pod."
    CONTROLLER_UNKNOWN = (
        "controller_unknown",
        "The controller is not found, is being deleted, or asks for no replicas.",
    )
    BELOW_MIN_REPLICAS = "below_min_replicas", "Fewer live replicas than the minimum."
    BUDGET_EXHAUSTED = (
        "budget_exhausted",
        "As many replicas are down as --eviction-tolerance allows.",
    )
    ROLLOUT_IN_PROGRESS = (
        "rollout_in_progress",
        "A rollout has left as few replicas available as its strategy allows.",
    )
    POD_PENDING = "pod_pending", "Too early for a resize."
    STARTUP_BOOSTED = "startup_boosted", "Left alone until its start-up boost is over."
    REQUIREMENTS_NOT_MET = "requirements_not_met", "The VPA's evictionRequirements don't hold."
    ADMISSION_NOT_READY = (
        "admission_not_ready",
        "Admission shows no sign of life: a replacement would stay as is.",
    )
    OOM_NOT_LEARNT_YET = (
        "oom_not_learnt_yet",
        "OOM-killed, and the memory target is not above what killed it: for a day at most.",
    )
    OOM_AFTER_DECREASE = (
        "oom_after_decrease",
        "A memory limit stays: a container of this name was OOM-killed after a decrease in place.",
    )
    MEMORY_IN_USE = (
        "memory_in_use",
        "A memory limit stays: live usage with its margin is above the next lower one.",
    )
    MEMORY_USAGE_UNKNOWN = (
        "memory_usage_unknown",
        "A memory limit stays: there is no usage of the last two minutes.",
    )
    MEMORY_DECREASE_PAUSED = (
        "memory_decrease_paused",
        "A memory limit is to go down; usage is observed for a while before each step.",
    )
    REPLACEMENT_WOULD_BE_REFUSED = (
        "replacement_would_be_refused",
        "The API server would refuse the pod that follows.",
    )
    REPLACEMENT_LACKS_RECOMMENDATION = (
        "replacement_lacks_recommendation",
        "Created in a dry run, the pod that follows does not have the recommended requests.",
    )
    POD_LEVEL_RESOURCES_EXHAUSTED = (
        "pod_level_resources_exhausted",
        "The pod's spec.resources leave no room for what is recommended.",
    )
    REPLACEMENT_UNVERIFIED = (
        "replacement_unverified",
        "Evicted or missing pods still lack a correct replacement, three at most.",
    )
    ACTUATION_SUSPENDED = (
        "actuation_suspended",
        "Replacements came up wrong, or not at all; one probe an hour.",
    )
    NO_CAPACITY = (
        "no_capacity",
        "No Ready, eligible node has room for the pod that follows (--capacity-check).",
    )
    CAPACITY_REQUESTED = (
        "capacity_requested",
        "Room for the pod that follows is requested from the cluster's autoscaler.",
    )
    CAPACITY_REFUSED = (
        "capacity_refused",
        "The request for room was refused, or timed out; it is made again later.",
    )
    VPA_CHANGED = "vpa_changed", "The VPA was changed or deleted while the pass went on."
    RESIZE_DEFERRED = "resize_deferred", "The node has no room now; it is tried again."
    RESIZE_IN_PROGRESS = "resize_in_progress", "The kubelet is applying the resize."
    RESIZE_ERROR = "resize_error", "The kubelet reports an error, and tries again."
    RESIZE_UNKNOWN = "resize_unknown", "The kubelet reports something unknown."
    # Tried without success.
    QUOTA_EXCEEDED = (
        "quota_exceeded",
        "A quota refuses the resize; it would refuse a replacement, too.",
    )
    RESIZE_RETRY = "resize_retry", "The API server failed; the next pass tries again."
    UNBOOST_FAILED = (
        "unboost_failed",
        "Taking back a start-up boost failed; the next pass tries again.",
    )
    EVICTION_REFUSED = "eviction_refused", "Refused, as a rule by a PodDisruptionBudget."
    EVICTION_FAILED = "eviction_failed", "The API server failed; the next pass decides again."
    RATE_LIMITED = "rate_limited", "No turn before the end of the pass."
    NO_TURN = "no_turn", "The pass ended before it was tried; the next one looks again."
    # Done, but not in the caches yet.
    RESIZE_SENT = "resize_sent", "Resized; the cache has yet to show it."


@dataclass(frozen=True, slots=True)
class Decision:
    """The action on a pod in a pass, and the reason for it.

    Before ``until`` the decision doesn't change by itself; None: unknown, or independent of time.
    ``detail`` is a sentence with the numbers of the reason, or empty. Decisions that differ only
    in these two are equal.
    """

    action: Action
    reason: Reason
    until: datetime | None = field(default=None, compare=False)
    detail: str = field(default="", compare=False)

    @property
    def is_preflight(self) -> bool:
        """Return whether the replacement would be refused, or lack the recommendation."""
        return self.reason in _PREFLIGHT

    @property
    def is_refused_eviction(self) -> bool:
        """Return whether an eviction, or the dry run before it, was refused or failed."""
        return self.reason in (Reason.EVICTION_REFUSED, Reason.EVICTION_FAILED)

    @property
    def is_about_room(self) -> bool:
        """Return whether the pod waits for room for its replacement."""
        return self.reason in _ABOUT_ROOM

    @property
    def needs_nothing(self) -> bool:
        """Return whether the pod needs no update."""
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
_PREFLIGHT = frozenset(
    {Reason.REPLACEMENT_WOULD_BE_REFUSED, Reason.REPLACEMENT_LACKS_RECOMMENDATION}
)
_ABOUT_ROOM = frozenset({Reason.NO_CAPACITY, Reason.CAPACITY_REQUESTED, Reason.CAPACITY_REFUSED})


def ending(since: datetime | None, pause: timedelta) -> datetime | None:
    """Return the end of a pause; None: its start is unknown, or its end is out of range."""
    try:
        return None if since is None else (since + pause).astimezone(UTC)
    except OverflowError:
        return None


def pause_after(tries: int, *, interval: timedelta) -> timedelta:
    """Return the pause after a refusal: an interval, doubled by each further try up to 32."""
    return interval * float(2 ** min(max(tries - 1, 0), _MOST_DOUBLINGS))


def evict(reason: Reason, *, detail: str = "") -> Decision:
    """Return the decision to replace the pod."""
    return Decision(Action.EVICT, reason, detail=detail)


def resize(reason: Reason, *, detail: str = "") -> Decision:
    """Return the decision to resize the pod in place."""
    return Decision(Action.RESIZE, reason, detail=detail)


def wait(reason: Reason, *, until: datetime | None = None, detail: str = "") -> Decision:
    """Return the decision that the pod waits."""
    return Decision(Action.WAIT, reason, until, detail)


def leave(reason: Reason, *, until: datetime | None = None, detail: str = "") -> Decision:
    """Return the decision that the pod stays as it is."""
    return Decision(Action.LEAVE, reason, until, detail)

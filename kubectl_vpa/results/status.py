"""What ``kubectl vpa status`` prints."""

import enum
from datetime import datetime

from kubectl_vpa.results.lists import Result


class State(enum.StrEnum):
    """The state of a VPA, the worst first."""

    BLOCKED = "blocked"  # an update is due, or a recommendation, and something prevents it
    CONFLICTING = "conflicting"  # another VPA or an HPA acts on the same workload
    NO_DATA = "no data"  # there is no recommendation yet
    WAITING = "waiting"  # an update is due, or will be
    OK = "ok"


class StatusReason(enum.StrEnum):
    """Why a VPA has its state."""

    # blocked
    UNSUPPORTED_TARGET = "unsupported_target"
    UNREADABLE = "unreadable"
    NO_ROOM_IN_POD = "no_room_in_pod"
    RESIZE_INFEASIBLE = "resize_infeasible"
    RESIZE_ERROR = "resize_error"
    BELOW_MIN_REPLICAS = "below_min_replicas"
    REQUIREMENTS_NOT_MET = "requirements_not_met"
    DISRUPTION_BUDGET = "disruption_budget"
    HELD_UP = "held_up"
    # conflicting
    OTHER_VPA = "other_vpa"
    AUTOSCALED_HORIZONTALLY = "autoscaled_horizontally"
    # no data
    NOT_PROCESSED = "not_processed"
    NEW = "new"
    NO_PODS = "no_pods"
    FETCHING_HISTORY = "fetching_history"
    NO_SAMPLES = "no_samples"
    PODS_NOT_SEEN = "pods_not_seen"
    # waiting
    UPDATE_DUE = "update_due"
    RESIZE_DEFERRED = "resize_deferred"
    RESIZE_IN_PROGRESS = "resize_in_progress"
    TOO_YOUNG = "too_young"
    NEXT_POD = "next_pod"
    POSTPONED = "postponed"
    # ok
    RECOMMENDATION_ONLY = "recommendation_only"
    NOTHING_SCALED = "nothing_scaled"
    NO_PODS_NOW = "no_pods_now"
    CLOSE_TO_TARGET = "close_to_target"
    AT_TARGET = "at_target"


class ResourceStatus(Result, frozen=True, kw_only=True):
    """One resource of a pod: the sums over the containers that have a recommendation."""

    request: str | None = None  # a quantity; null if no container requests it, or there is no pod
    target: str | None = None  # a quantity; null without a recommendation
    drift: float | None = None  # relative: -0.9 means that the target is a tenth of the request


class VpaResult(Result, frozen=True, kw_only=True):
    """The status of one VPA."""

    namespace: str
    name: str
    workload_kind: str
    workload_name: str
    mode: str
    state: State
    reason: StatusReason
    message: str  # the reason in words
    cpu: ResourceStatus
    memory: ResourceStatus
    drift: float | None  # of the resource that differs most
    pods: int | None  # null if they could not be read
    pods_due: int  # those that an update is due for, now or later
    since: datetime | None = None  # of the condition or the pod that explains the state
    until: datetime | None = None  # before this time the state doesn't change by itself
    updater_reason: str | None = None  # of the updater's last pass, if it explains the state
    unblock: str | None = None  # what would end the wait, as the updater says

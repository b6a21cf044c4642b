"""The answers of the updater's read API."""

import enum
from collections.abc import Mapping
from typing import TypeAlias

from common.api.base import Time, Wire
from common.read_model.page import HistoryEntry, ListMetadata

PLAN_PATH = "/api/v1/plan"
ACTIONS_PATH = "/api/v1/actions"

Amounts: TypeAlias = Mapping[str, str]
"""Quantities by resource."""


class ContainerNumbers(Wire, frozen=True, kw_only=True):
    """The requests of a container, and its processed recommendation."""

    name: str
    requests: Amounts
    target: Amounts
    lower_bound: Amounts
    upper_bound: Amounts


class PodLevelNumbers(Wire, frozen=True, kw_only=True):
    """The pod-level resources of a pod, now and after an update; empty: unchanged."""

    requests: Amounts
    limits: Amounts
    new_requests: Amounts
    new_limits: Amounts


class WorkloadReference(Wire, frozen=True, kw_only=True):
    """A workload: a Deployment, or else the pods' direct controller; in the pod's namespace."""

    api_version: str
    kind: str
    name: str


class PlannedPod(Wire, frozen=True, kw_only=True):
    """The decision of the last pass on a pod, and the numbers behind it.

    ``decision`` is evict, resize, wait or leave; docs/reasons.md lists the reasons. ``detail`` has
    the numbers of the reason, or is null. ``since`` is the time of the first pass in a row with
    this decision, and ``until`` that before which it doesn't change by itself; null: unknown, or
    independent of time. ``unblock`` says what would end the wait, or is null. ``resource_diff`` is
    relative: 0.5 is half of the request. The numbers compare the pod of the pass with the
    recommendation of the pass.
    """

    name: str
    node: str
    owner: WorkloadReference | None
    decision: str
    reason: str
    meaning: str
    detail: str | None
    since: Time | None
    until: Time | None
    unblock: str | None
    resource_diff: float | None
    outside_range: bool | None
    containers: tuple[ContainerNumbers, ...]
    pod_level: PodLevelNumbers | None


class PlannedVpaHead(Wire, frozen=True, kw_only=True):
    """A VPA; ``why`` is the reason that there are no decisions on its pods, or null."""

    namespace: str
    name: str
    mode: str
    why: str | None


class PlannedVpa(PlannedVpaHead, frozen=True, kw_only=True):
    """A VPA and its pods, sorted by name; the pods of a large one continue on the next page."""

    pods: tuple[PlannedPod, ...]


class PlanList(Wire, frozen=True, kw_only=True):
    """The answer of ``/api/v1/plan``, sorted by namespace and name.

    ``limit`` and ``remaining_item_count`` count pods, and VPAs without pods.
    """

    metadata: ListMetadata
    items: tuple[PlannedVpa, ...]


class ActionOutcome(enum.StrEnum):
    """What is known about an eviction or a resize."""

    ACCEPTED = "accepted"  # by the API server; the result isn't known yet
    REFUSED = "refused"  # by the API server, or not answered
    RESIZED = "resized"  # the kubelet has finished the resize
    REPLACED_RIGHT = "replaced_right"  # the replacement has the recommendation
    REPLACED_WRONG = "replaced_wrong"  # the replacement doesn't have it
    NOT_REPLACED = "not_replaced"  # no replacement was created within two minutes
    UNKNOWN = "unknown"  # no replacement is wanted any more, or it can't be judged


class PastAction(HistoryEntry, frozen=True, kw_only=True):
    """An eviction or a resize that was sent to the API server.

    ``action`` is evict or resize. ``changes`` is text: ``app cpu 100m -> 250m``. ``status`` (HTTP),
    ``error_reason`` and ``error`` belong to a refusal, and ``replacement`` is the name of the pod
    that replaced an evicted one; otherwise they are null. ``settled_at`` is the time at which the
    outcome became known; null while it is ``accepted``.
    """

    action: str
    pod: str
    uid: str
    node: str
    owner: WorkloadReference | None
    reason: str
    meaning: str
    changes: str
    outcome: ActionOutcome
    settled_at: Time | None
    status: int | None
    error_reason: str | None
    error: str | None
    replacement: str | None


class ActionList(Wire, frozen=True, kw_only=True):
    """The answer of ``/api/v1/actions``, newest first; the process keeps the last 1,000."""

    metadata: ListMetadata
    items: tuple[PastAction, ...]

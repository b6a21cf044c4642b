"""What ``kubectl vpa plan`` prints."""

import enum
from datetime import datetime

from kubectl_vpa.results.lists import Result, ResultList
from kubectl_vpa.results.status import ResourceStatus


class PlanResult(Result, frozen=True, kw_only=True):
    """What the next pass of the updater would do with a pod.

    The fields of the pod are null for a VPA without pods to decide on.
    """

    namespace: str
    vpa: str
    mode: str
    workload_kind: str
    workload_name: str
    pod: str | None
    node: str | None  # null also if it isn't known
    decision: str  # evict, resize, wait or leave
    reason: str | None  # a reason of the updater
    message: str  # the reason in words
    unblock: str | None  # what would end the wait
    since: datetime | None  # the first pass in a row with this decision
    until: datetime | None  # before this time the decision doesn't change by itself
    cpu: ResourceStatus
    memory: ResourceStatus


class PlanSource(enum.StrEnum):
    """The origin of a plan."""

    UPDATER = "updater"  # its last pass
    DERIVED = "derived"  # from the objects, by the updater's rules


class PlanResultList(ResultList, frozen=True, kw_only=True):
    """The plan, and where it comes from."""

    source: PlanSource
    pass_at: datetime | None  # the start of the updater's pass; null if derived

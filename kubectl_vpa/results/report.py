"""What ``kubectl vpa report`` prints."""

import enum
from datetime import datetime

from kubectl_vpa.results.lists import Result, ResultList


class Source(enum.StrEnum):
    """The basis of a recommendation in a report."""

    VPA = "vpa"  # the status of a VPA
    CHECKPOINTS = "checkpoints"  # estimated from the checkpoints of a VPA
    PROMETHEUS = "prometheus"  # estimated from the history in Prometheus
    NONE = "none"  # nothing is recommended: requests stay as they are


class Change(Result, frozen=True, kw_only=True):
    """One resource of a container: quantities; null: no request, or nothing recommended."""

    request: str | None
    recommended: str | None


class ContainerReport(Result, frozen=True, kw_only=True):
    """The requests of one container, now and recommended."""

    container: str
    cpu: Change
    memory: Change


class WorkloadResource(Change, frozen=True, kw_only=True):
    """One resource of a workload: of one pod, and in all pods.

    What one container lacks isn't offset by what another gives back. Nothing recommended means
    that the requests stay.
    """

    total_request: str
    total_recommended: str
    given_back: str  # in all pods, as the next one
    lacking: str


class Cost(Result, frozen=True, kw_only=True):
    """The cost of requests per month of 730 hours."""

    request: float
    recommended: float
    change: float


class WorkloadReport(Result, frozen=True, kw_only=True):
    """The requests of one workload, now and recommended."""

    context: str  # of the kubeconfig; empty in a pod
    namespace: str
    kind: str
    name: str
    pods: int
    vpa: str | None  # that controls the workload
    mode: str | None  # of the VPA
    source: Source
    message: str  # why nothing, or not everything, is recommended; may be empty
    cpu: WorkloadResource
    memory: WorkloadResource
    cost: Cost | None  # null without prices
    containers: tuple[ContainerReport, ...]  # of the most frequent pods


class TotalResource(Result, frozen=True, kw_only=True):
    """One resource of all pods of many workloads."""

    request: str
    recommended: str
    given_back: str
    lacking: str


class ReportTotal(Result, frozen=True, kw_only=True):
    """The sums over workloads; one without a recommendation counts with its requests."""

    context: str | None  # null: of all contexts
    namespace: str | None  # null: of all namespaces
    workloads: int
    pods: int
    without_recommendation: int  # workloads with pods
    cpu: TotalResource
    memory: TotalResource
    cost: Cost | None


class Prices(Result, frozen=True, kw_only=True):
    """What requests cost; null: unknown."""

    cpu: float | None  # of a core for an hour
    memory: float | None  # of a GiB for an hour
    currency: str


class Report(ResultList, frozen=True, kw_only=True):
    """The answer of ``report``: workloads, those with the largest effect first, and sums."""

    items: tuple[WorkloadReport, ...]
    time: datetime
    contexts: tuple[str, ...]
    prices: Prices | None
    totals: tuple[ReportTotal, ...]  # by context and namespace
    total: ReportTotal

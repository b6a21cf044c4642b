"""The objects that commands print: the schema of ``-o json`` and ``-o yaml``.

docs/kubectl-vpa.md documents the fields. Every field is always written, so that a script can rely
on it. Fields may be added; none changes its meaning or disappears without another ``apiVersion``.
"""

import enum
from collections.abc import Mapping
from datetime import datetime

import msgspec

API_VERSION = "cli.vpa/v1"
"""The version of the schema."""


class Result(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of every object that is printed."""


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


class ResultList(Result, frozen=True, kw_only=True):
    """The answer of a command: its results, and what it could not see."""

    api_version: str = API_VERSION
    kind: str
    items: tuple[Mapping[str, object] | Result, ...]
    notes: tuple[str, ...] = ()


class RecommendationResult(Result, frozen=True, kw_only=True):
    """The recommendation of one container, as quantities by resource."""

    namespace: str
    name: str  # of the VPA
    workload_kind: str
    workload_name: str
    container: str
    target: Mapping[str, str]
    lower_bound: Mapping[str, str]
    upper_bound: Mapping[str, str]
    uncapped_target: Mapping[str, str]


class Severity(enum.StrEnum):
    """The severity of a finding, the worst first."""

    ERROR = "error"
    WARNING = "warning"
    SKIPPED = "skipped"  # the check could not be made
    OK = "ok"


class Finding(Result, frozen=True, kw_only=True):
    """The result of a check, about one object or about the cluster."""

    check: str
    severity: Severity
    about: str  # an object, such as a namespace and a name; may be empty
    message: str
    remedy: str  # what to do; empty if nothing has to be done


class EventResult(Result, frozen=True, kw_only=True):
    """An Event about the subject of an explanation."""

    time: str
    reason: str
    message: str


class Explanation(Result, frozen=True, kw_only=True):
    """Why a VPA, a pod or a workload has its state; every text is one or more sentences."""

    subject: str  # such as ``Pod shop/web-1``
    status: VpaResult | None  # null if no VPA is concerned
    wanted: str
    because: str
    remedy: str  # what would change the state; empty if nothing has to
    command: str  # what to run; may be empty
    events: tuple[EventResult, ...] = ()
    history: str = ""  # what the recommender's numbers rest on; empty if it is not known


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


class UsageResult(Result, frozen=True, kw_only=True):
    """The usage of a resource beside its request and recommendation.

    The amounts are those of one pod: the mean of the pods, unless ``pod`` names one.
    """

    namespace: str
    vpa: str
    workload_kind: str
    workload_name: str
    pod: str | None  # null: all pods
    container: str | None  # null: the sum of the containers
    pods: int  # whose usage is known
    resource: str  # cpu or memory
    usage: str
    request: str | None
    target: str | None
    lower_bound: str | None
    upper_bound: str | None
    used: float | None  # usage relative to the request: 0.1 is ten percent


class HistoryResult(Result, frozen=True, kw_only=True):
    """Something that the updater did with a pod or a VPA, or did not do."""

    time: datetime | None
    namespace: str
    vpa: str | None  # null if it isn't known, as the next one
    pod: str | None
    action: str  # evict, resize, blocked, unblocked, skipped, suspended or resumed
    reason: str | None  # a reason of the updater
    changes: str  # such as ``app cpu 100m -> 250m``; may be empty
    outcome: str | None  # of evict and resize; null if only an Event is known
    message: str  # the reason, or the text of the Event


class ResourceHistory(Result, frozen=True, kw_only=True):
    """The usage of one resource in a checkpoint, and the recommendation that follows from it.

    The percentiles are those of the weighted samples, without margin, bounds and policy; null
    without samples.
    """

    weight: float  # of all samples at the time of the checkpoint's reference
    p50: str | None
    p90: str | None
    p95: str | None
    p100: str | None
    target: str | None
    lower_bound: str | None
    upper_bound: str | None
    confidence: float | None  # null if the recommender can't be asked


class ContainerHistory(Result, frozen=True, kw_only=True):
    """What the checkpoint of a container says about its usage."""

    container: str
    samples: int  # of CPU
    first_sample: datetime | None
    last_sample: datetime | None
    saved_at: datetime | None
    cpu: ResourceHistory
    memory: ResourceHistory


class HistoryResultList(ResultList, frozen=True, kw_only=True):
    """What was done, the newest first; with a VPA also its usage."""

    usage: tuple[ContainerHistory, ...] = ()


class NumberSource(enum.StrEnum):
    """The origin of an explanation of numbers."""

    RECOMMENDER = "recommender"  # its read API
    CHECKPOINTS = "checkpoints"  # computed from them as the recommender does


class NumberStep(Result, frozen=True, kw_only=True):
    """A number before and after a step, as quantities."""

    step: str
    by: str  # the operand, such as a factor or a bound; empty if there is none
    before: str | None
    after: str | None
    meaning: str


class ComputedNumber(Result, frozen=True, kw_only=True):
    """One number of a recommendation, as quantities."""

    amount: str  # target, lowerBound, upperBound or uncappedTarget
    value: str | None  # the result; null if nothing is recommended
    published: str | None  # in the status of the VPA
    steps: tuple[NumberStep, ...]


class CurvePoint(Result, frozen=True, kw_only=True):
    """A point of a percentile curve: this fraction of the usage is at most the amount."""

    fraction: float
    amount: int  # millicores or bytes


class ComputedResource(Result, frozen=True, kw_only=True):
    """How the numbers of one resource of a container are computed."""

    resource: str
    request: str | None  # the present request in most pods; null if there is none
    confidence: float | None  # the length of the history, in confidence intervals
    weight: float | None  # the present weight of all samples
    numbers: tuple[ComputedNumber, ...]
    curve: tuple[CurvePoint, ...]


class ComputedContainer(Result, frozen=True, kw_only=True):
    """How the numbers of one container are computed."""

    container: str
    samples: int  # of CPU
    first_sample: datetime | None
    last_sample: datetime | None
    excluded: str | None  # why the container gets no recommendation
    resources: tuple[ComputedResource, ...]


class ComputedVpa(Result, frozen=True, kw_only=True):
    """How the numbers of a VPA are computed."""

    namespace: str
    name: str
    workload_kind: str
    workload_name: str
    mode: str
    source: NumberSource
    flags_of: str | None  # the pod whose flags apply; null: the defaults are assumed
    held_up: str | None  # why the numbers aren't published at present
    containers: tuple[ComputedContainer, ...]


class NowAndSimulated(Result, frozen=True, kw_only=True):
    """A number with the present settings and with the simulated ones, as quantities."""

    now: str | None
    simulated: str | None


class SimulatedNumbers(Result, frozen=True, kw_only=True):
    """One resource of a container with other settings."""

    namespace: str
    name: str  # of the VPA
    workload_kind: str
    workload_name: str
    container: str
    resource: str
    target: NowAndSimulated
    lower_bound: NowAndSimulated
    upper_bound: NowAndSimulated
    change: float | None  # of the target, relative: 0.5 means half as much again
    pods: int | None  # null if they could not be read
    difference: str | None  # of the targets of all pods, as a quantity


class SimulatedTotal(Result, frozen=True, kw_only=True):
    """The targets of all pods together, as quantities."""

    resource: str
    now: str
    simulated: str
    difference: str
    change: float | None


class SimulationList(ResultList, frozen=True, kw_only=True):
    """The numbers with other settings, and the sums over the present pods."""

    settings: Mapping[str, str]  # that were changed, as flags
    flags_of: str | None  # the pod whose flags apply otherwise; null: the defaults are assumed
    totals: tuple[SimulatedTotal, ...]


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

"""The decision about a VPA's status: its contents, and whether it is written now.

Source: recommender.md sections 8 and 9; docs/deviations.md X72 and X80.
"""

import enum
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler, VpaStatus
from common.resources import CPU
from common.scheduling.room import Room
from recommender.estimate.estimation import EstimationSettings
from recommender.estimate.post_processing import PostProcessed, PostProcessingSettings, post_process
from recommender.estimate.quota_bounds import QuotaBound
from recommender.estimate.quota_patience import QuotaState
from recommender.estimate.step_reasons import StepReason
from recommender.estimate.vpa_estimates import QUARTERS, ContainerEstimate, VpaEstimate
from recommender.model.autoscalers import EVERY_OTHER, HistoryFlags
from recommender.model.keys import VpaKey
from recommender.model.usage import Usage
from recommender.publish.limited_targets import within_all_limits
from recommender.publish.pod_limits import Limited, VpaLimits
from recommender.publish.published_amounts import current_recommendation
from recommender.publish.status import (
    ConditionType,
    LittleHistory,
    StatusFindings,
    is_provided,
    is_true,
    kept_status,
    next_status,
    open_status,
)
from recommender.publish.status_decision_cache import CachedDecision, DecisionInputs, tolerance
from recommender.publish.status_difference import MAX_DELAY, is_due, status_difference
from recommender.sources.conversion import vpa_key, written_mode
from recommender.sources.target_resolution import LoadedVpa

_ABSENCE_REPORTED_EVERY = timedelta(minutes=30)

StatusLabels = tuple[str, bool, bool, bool]
"""Update mode, and whether it has a recommendation, pods, and an unsupported configuration."""


class WriteDecision(enum.StrEnum):
    """The decision whether a status is written."""

    EQUAL = "equal"  # nothing to write
    WAITS = "waits"  # the difference is small, and not due yet
    WRITTEN = "written"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishingSettings:
    """The flags that concern recommendations."""

    estimation: EstimationSettings = field(default_factory=EstimationSettings)
    publication: PostProcessingSettings = field(default_factory=PostProcessingSettings)
    workers: int = 10
    interval: timedelta = timedelta(minutes=1)  # between cycles


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionContext:
    """The inputs of a decision besides the estimate and the VPA."""

    usage: Usage
    settings: PublishingSettings
    fetching_history: bool  # a part of the VPA's history is still being fetched
    now: datetime
    quotas: tuple[QuotaBound, ...] = ()  # bounds on the VPA's pods
    limits: VpaLimits | None = None  # on the VPA's pods; None: there are none


@dataclass(frozen=True, slots=True, kw_only=True)
class VpaRecord:
    """The state of a VPA that is kept between cycles."""

    last_write: datetime
    is_assumed: bool  # this process has not written the status yet, and the time is assumed
    cached: CachedDecision | None = None
    compared: Mapping[str, int] = field(default_factory=dict)
    """The number of aggregates with a recommendation, by resource."""
    absent_since: datetime | None = None  # start of the absence, or its last report
    quota_states: Mapping[str, QuotaState] = field(default_factory=dict)
    """The states of targets that quotas bound, by resource."""


def record_of(key: VpaKey, record: VpaRecord | None, now: datetime) -> VpaRecord:
    """Return a VPA's record; the last write is assumed if it is unknown or in the future.

    The assumed time is within the last ten minutes and differs between VPAs, so that not all of
    them are due in the same cycle.
    """
    if record is not None and record.last_write <= now:
        return record
    since = now - MAX_DELAY * key.phase
    if record is None:
        return VpaRecord(last_write=since, is_assumed=True)
    return replace(record, last_write=since, is_assumed=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusDecision:
    """A decision about a VPA's status; without ``post_processed`` if a cached one holds."""

    vpa: VerticalPodAutoscaler
    inputs: DecisionInputs
    record: VpaRecord  # to keep; ``after_write`` replaces it
    labels: StatusLabels  # of the stored status, for the metric
    post_processed: PostProcessed | None = None
    wanted: VpaStatus | None = None  # None: a cached decision holds
    writing: WriteDecision = WriteDecision.EQUAL
    kept: StepReason | None = None  # why the status keeps its recommendation
    admitted: Room | None = None  # what the pod needs, if all limits admit it
    caches: bool = False  # the decision may be cached when the status is as wanted
    is_absence_due: bool = False  # report that there has been no recommendation for long

    @property
    def is_first(self) -> bool:
        """Return True if the wanted status provides the VPA's first recommendation."""
        provides = self.wanted is not None and is_provided(self.wanted)
        return provides and not is_provided(self.vpa.status)


def decide(
    loaded: LoadedVpa, estimate: VpaEstimate, record: VpaRecord, context: DecisionContext
) -> StatusDecision:
    """Decide about a VPA's status, or that a cached decision still holds.

    Raises:
        QuantityError: a bound of the VPA's policy is not a quantity.
    """
    vpa, usage, now = loaded.vpa, context.usage, context.now
    key = vpa_key(vpa)
    pods = usage.pod_count(key)
    inputs = DecisionInputs(
        version=vpa.metadata.resource_version,
        unsupported=loaded.resolution.message,
        controlled_by=loaded.controlled_by,
        groups=estimate.groups,
        has_pods=pods > 0,
        controls=loaded.controls,
        known_quarters=estimate.known_quarters,
        targets=array("q", estimate.targets.tobytes()),
        bounds=array("q", estimate.bounds.tobytes()),
        quotas=context.quotas,
        limits=context.limits,
    )
    is_passing = loaded.resolution.open or context.fetching_history
    if record.cached is not None and not is_passing and record.cached.holds(inputs, now):
        labels = (shown_mode(vpa), True, pods > 0, bool(inputs.unsupported))
        return StatusDecision(vpa=vpa, inputs=inputs, record=record, labels=labels)
    return _decide_again(loaded, estimate, inputs, record, context)


def after_write(
    decision: StatusDecision,
    written: VerticalPodAutoscaler,
    record: VpaRecord,
    *,
    now: datetime,
    settings: PublishingSettings,
) -> VpaRecord:
    """Return the record after a write of the status; ``written`` is the VPA in the response."""
    since, wanted = now, decision.wanted
    if record.is_assumed:
        since -= MAX_DELAY * vpa_key(decision.vpa).phase
    cached = None
    if decision.caches and wanted is not None and not status_difference(written.status, wanted):
        inputs = replace(decision.inputs, version=written.metadata.resource_version)
        cached = _cached(
            inputs,
            settings,
            difference=0.0,
            since=since,
            admitted=decision.admitted,
        )
    return replace(record, last_write=since, is_assumed=False, cached=cached)


def labels_of_unreadable(loaded: LoadedVpa, pods: int) -> StatusLabels:
    """Return the metric's labels for a VPA whose policy can't be parsed."""
    vpa = loaded.vpa
    unsupported = bool(loaded.resolution.message)
    return (shown_mode(vpa), is_provided(vpa.status), pods > 0, unsupported)


def clear_history_flags(decision: StatusDecision, history_flags: HistoryFlags) -> None:
    """Clear the flags of containers whose estimate is based on enough samples."""
    vpa, processed = decision.vpa, decision.post_processed
    if processed is None:
        return
    if vpa.status.observed_generation == vpa.metadata.generation:
        history_flags.outdated.discard(EVERY_OTHER)
    fresh = {one.name for one in processed.amounts}
    fresh -= {*processed.selected.stale, *processed.selected.unknown}
    history_flags.expired -= fresh
    history_flags.outdated -= fresh


def _decide_again(
    loaded: LoadedVpa,
    estimate: VpaEstimate,
    inputs: DecisionInputs,
    record: VpaRecord,
    context: DecisionContext,
) -> StatusDecision:
    vpa, settings, now = loaded.vpa, context.settings, context.now
    estimated, pods = estimate.containers, context.usage.pod_count(vpa_key(vpa))
    processed = post_process(
        estimated,
        settings.publication,
        annotations=vpa.metadata.annotations or {},
        policy=vpa.spec.resource_policy,
        current=current_recommendation(
            loaded,
            estimated,
            context.usage,
            publishes_without_samples=settings.publication.without_samples,
        ),
    )
    limited, states = within_all_limits(
        processed,
        vpa,
        limits=context.limits,
        quotas=context.quotas,
        states=record.quota_states,
        estimation=settings.estimation,
        now=now,
    )
    processed = limited.processed
    findings = _findings(loaded, estimated, limited, pods, context)
    wanted, kept = _wanted(loaded, findings, now)
    difference = status_difference(vpa.status, wanted)
    writing = WriteDecision.EQUAL if not difference else WriteDecision.WAITS
    waited = now - record.last_write
    if is_due(difference, waited=waited, interval=settings.interval):
        writing = WriteDecision.WRITTEN
    if kept is None and writing is WriteDecision.WAITS:
        kept = StepReason.TOO_CLOSE
    is_plain = not (processed.selected.stale or processed.selected.unknown)
    caches = bool(processed.amounts) and not context.fetching_history and is_plain and not states
    cached = None
    if caches and writing is not WriteDecision.WRITTEN:
        cached = _cached(
            inputs,
            settings,
            difference=difference,
            since=record.last_write,
            admitted=limited.admitted,
        )
    absent_since, is_absence_due = _absence(vpa, processed, record, now)
    matches = not is_true(wanted, ConditionType.NO_PODS_MATCHED)
    return StatusDecision(
        vpa=vpa,
        inputs=inputs,
        record=replace(record, cached=cached, absent_since=absent_since, quota_states=states),
        labels=(shown_mode(vpa), is_provided(vpa.status), matches, bool(inputs.unsupported)),
        post_processed=processed,
        wanted=wanted,
        writing=writing,
        kept=kept,
        admitted=limited.admitted,
        caches=caches,
        is_absence_due=is_absence_due,
    )


def _findings(
    loaded: LoadedVpa,
    estimated: Sequence[ContainerEstimate],
    limited: Limited,
    pods: int,
    context: DecisionContext,
) -> StatusFindings:
    processed = limited.processed
    names = {one.name for one in processed.amounts}
    return StatusFindings(
        recommendation=processed.amounts,
        pods=pods,
        unsupported=loaded.resolution.message,
        controlled_by=loaded.controlled_by,
        controls=loaded.controls,
        little_history=_little_history(
            [one for one in estimated if one.container in names], context.settings.estimation
        ),
        fetching_history=context.fetching_history,
        unknown=processed.selected.unknown,
        stale=processed.selected.stale,
        limits=limited.findings,
    )


def _little_history(
    published: Sequence[ContainerEstimate], settings: EstimationSettings
) -> LittleHistory | None:
    """Return the containers with less than one confidence interval of usage; None if none has."""
    little = [
        (confidence, resource, one.container)
        for one in published
        for resource, confidence in one.confidence.items()
        if confidence < 1
    ]
    if not little:
        return None
    least, resource, _ = min(little)
    interval = settings.cpu_confidence if resource == CPU else settings.memory_confidence
    return LittleHistory(
        containers=tuple(sorted({container for _, _, container in little})),
        quarters=int(least * QUARTERS),
        interval=interval,
    )


def _wanted(
    loaded: LoadedVpa, findings: StatusFindings, now: datetime
) -> tuple[VpaStatus, StepReason | None]:
    """Return the status for these findings, and the reason if it keeps the old recommendation."""
    vpa = loaded.vpa
    if loaded.resolution.open:
        return open_status(vpa, findings.unsupported, now), StepReason.TARGET_UNKNOWN
    # The published recommendation is based on all history, which is still being fetched; the new
    # one on a few live samples (X72).
    if (
        findings.fetching_history
        and findings.little_history is not None
        and findings.recommendation
        and is_provided(vpa.status)
    ):
        return kept_status(vpa, findings, now), StepReason.HISTORY_MISSING
    return next_status(vpa, findings, now), None


def _cached(
    inputs: DecisionInputs,
    settings: PublishingSettings,
    *,
    difference: float,
    since: datetime,
    admitted: Room | None,
) -> CachedDecision:
    """Return a cached decision not to write, for a status with this difference."""
    return CachedDecision(
        inputs=inputs,
        tolerance=tolerance(difference) if settings.publication.is_plain else 0.0,
        due=since + MAX_DELAY - settings.interval,
        is_equal=not difference,
        admitted=admitted,
    )


def _absence(
    vpa: VerticalPodAutoscaler, processed: PostProcessed, record: VpaRecord, now: datetime
) -> tuple[datetime | None, bool]:
    """Return the start of the absence of a recommendation, and True if it is reported now."""
    if processed.amounts:
        return None, False
    since = record.absent_since or vpa.metadata.creation_timestamp or now
    is_due = now - since > _ABSENCE_REPORTED_EVERY
    return (now if is_due else since), is_due


def shown_mode(vpa: VerticalPodAutoscaler) -> str:
    """Return the update mode as written, or the default."""
    return written_mode(vpa) or UpdateMode.RECREATE.value

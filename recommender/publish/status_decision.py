"""What a VPA's status should say, and whether it is written now.

Source: recommender.md sections 8 and 9; docs/deviations.md X72 and X80.
"""

import enum
from array import array
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from msgspec import structs

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler, VpaStatus
from recommender.estimate.amount_selection import CurrentRecommendation, idle_containers
from recommender.estimate.estimation import EstimationSettings
from recommender.estimate.post_processing import PostProcessed, PostProcessingSettings, post_process
from recommender.estimate.step_reasons import StepReason
from recommender.estimate.vpa_estimates import ContainerEstimate, VpaEstimate
from recommender.model.autoscalers import EVERY_OTHER, HistoryFlags
from recommender.model.keys import VpaKey
from recommender.model.usage import Usage
from recommender.publish.status import (
    MAX_DELAY,
    ConditionType,
    StatusFindings,
    is_due,
    is_provided,
    is_true,
    next_status,
    open_status,
    recommended_amounts,
    stale_containers,
    status_difference,
)
from recommender.publish.status_decision_cache import CachedDecision, DecisionInputs, tolerance
from recommender.sources.conversion import vpa_key, written_mode
from recommender.sources.target_resolution import LoadedVpa

_ABSENCE_REPORTED_EVERY = timedelta(minutes=30)

StatusLabels = tuple[str, bool, bool, bool]
"""Update mode, has a recommendation, matches pods, has an unsupported configuration."""


class WriteDecision(enum.StrEnum):
    """Whether a status is written."""

    EQUAL = "equal"  # it says what it should
    WAITS = "waits"  # it nearly does
    WRITTEN = "written"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishingSettings:
    """What the flags say about recommendations."""

    estimation: EstimationSettings = field(default_factory=EstimationSettings)
    publication: PostProcessingSettings = field(default_factory=PostProcessingSettings)
    workers: int = 10
    interval: timedelta = timedelta(minutes=1)  # between cycles


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionContext:
    """What a status depends on besides the estimate and the VPA."""

    usage: Usage
    settings: PublishingSettings
    fetching_history: bool  # some of the VPA's history is still being loaded
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class VpaRecord:
    """What is remembered of a VPA from cycle to cycle."""

    last_write: datetime
    is_assumed: bool  # this process has not written the status yet, and the time is made up
    cached: CachedDecision | None = None
    compared: Mapping[str, int] = field(default_factory=dict)
    """By resource, the aggregates whose recommendation this is."""
    absent_since: datetime | None = None  # without a recommendation, since the last report


def record_of(key: VpaKey, record: VpaRecord | None, now: datetime) -> VpaRecord:
    """Return a VPA's record; the last write is assumed if it is unknown, or in the future.

    The assumed time is in the last ten minutes, and a different one for each VPA, so that not all
    of them are due in the same cycle.
    """
    if record is not None and record.last_write <= now:
        return record
    since = now - MAX_DELAY * key.phase
    if record is None:
        return VpaRecord(last_write=since, is_assumed=True)
    return replace(record, last_write=since, is_assumed=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusDecision:
    """What was decided about a VPA's status.

    A decision that nothing changed since a cached one has neither ``post_processed`` nor
    ``wanted``.
    """

    vpa: VerticalPodAutoscaler
    inputs: DecisionInputs
    record: VpaRecord  # to be remembered; ``after_write`` says what replaces it then
    labels: StatusLabels  # by which the VPA is counted, for the status that is stored
    post_processed: PostProcessed | None = None
    wanted: VpaStatus | None = None
    writing: WriteDecision = WriteDecision.EQUAL
    kept: StepReason | None = None  # why the status keeps what it recommends
    caches: bool = False  # once the status is as wanted, the decision may be cached
    is_absence_due: bool = False  # to be reported: there is no recommendation for long

    @property
    def is_first(self) -> bool:
        """Return whether the wanted status provides a recommendation where there was none."""
        provides = self.wanted is not None and is_provided(self.wanted)
        return provides and not is_provided(self.vpa.status)


def decide(
    loaded: LoadedVpa, estimate: VpaEstimate, record: VpaRecord, context: DecisionContext
) -> StatusDecision:
    """Decide about a VPA's status, or that a cached decision still holds.

    Raises:
        QuantityError: a bound of the VPA's policy is no quantity.
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
        is_confident=estimate.is_confident,
        targets=array("q", estimate.targets.tobytes()),
        bounds=array("q", estimate.bounds.tobytes()),
    )
    is_passing = loaded.resolution.open or context.fetching_history
    if record.cached is not None and not is_passing and record.cached.holds(inputs, now):
        labels = (_mode(vpa), True, pods > 0, bool(inputs.unsupported))
        return StatusDecision(vpa=vpa, inputs=inputs, record=record, labels=labels)
    return _decide_again(loaded, estimate, inputs, record, context)


def after_write(
    decision: StatusDecision,
    written: VerticalPodAutoscaler,
    record: VpaRecord,
    context: DecisionContext,
) -> VpaRecord:
    """Return what to remember once the status was written; ``written`` is the VPA since then."""
    since, wanted = context.now, decision.wanted
    if record.is_assumed:
        since -= MAX_DELAY * vpa_key(decision.vpa).phase
    cached = None
    if decision.caches and wanted is not None and not status_difference(written.status, wanted):
        inputs = replace(decision.inputs, version=written.metadata.resource_version)
        cached = _cached(inputs, context.settings, difference=0.0, since=since)
    return replace(record, last_write=since, is_assumed=False, cached=cached)


def labels_of_unreadable(loaded: LoadedVpa, pods: int) -> StatusLabels:
    """Return the labels by which a VPA is counted whose policy can't be read."""
    vpa = loaded.vpa
    unsupported = bool(loaded.resolution.message)
    return (_mode(vpa), is_provided(vpa.status), pods > 0, unsupported)


def clear_history_flags(decision: StatusDecision, history_flags: HistoryFlags) -> None:
    """Drop the marks of containers of which enough is known, now that their status is decided."""
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
        current=_current_recommendation(loaded, estimated, context),
    )
    findings = _findings(loaded, estimated, processed, pods, context)
    wanted, kept = _wanted(loaded, findings, now)
    difference = status_difference(vpa.status, wanted)
    writing = WriteDecision.EQUAL if not difference else WriteDecision.WAITS
    waited = now - record.last_write
    if is_due(difference, waited=waited, interval=settings.interval):
        writing = WriteDecision.WRITTEN
    if kept is None and writing is WriteDecision.WAITS:
        kept = StepReason.TOO_CLOSE
    is_plain = not (processed.selected.stale or processed.selected.unknown)
    caches = bool(processed.amounts) and not context.fetching_history and is_plain
    cached = None
    if caches and writing is not WriteDecision.WRITTEN:
        cached = _cached(inputs, settings, difference=difference, since=record.last_write)
    absent_since, is_absence_due = _absence(vpa, processed, record, now)
    matches = not is_true(wanted, ConditionType.NO_PODS_MATCHED)
    return StatusDecision(
        vpa=vpa,
        inputs=inputs,
        record=replace(record, cached=cached, absent_since=absent_since),
        labels=(_mode(vpa), is_provided(vpa.status), matches, bool(inputs.unsupported)),
        post_processed=processed,
        wanted=wanted,
        writing=writing,
        kept=kept,
        caches=caches,
        is_absence_due=is_absence_due,
    )


def _findings(
    loaded: LoadedVpa,
    estimated: Sequence[ContainerEstimate],
    processed: PostProcessed,
    pods: int,
    context: DecisionContext,
) -> StatusFindings:
    names = {one.name for one in processed.amounts}
    return StatusFindings(
        recommendation=processed.amounts,
        pods=pods,
        unsupported=loaded.resolution.message,
        controlled_by=loaded.controlled_by,
        low_confidence=any(
            confidence < 1
            for one in estimated
            if one.container in names
            for confidence in one.confidence.values()
        ),
        fetching_history=context.fetching_history,
        unknown=processed.selected.unknown,
        stale=processed.selected.stale,
    )


def _wanted(
    loaded: LoadedVpa, findings: StatusFindings, now: datetime
) -> tuple[VpaStatus, StepReason | None]:
    """Return the status for these findings, and why it keeps the present recommendation, if so."""
    vpa = loaded.vpa
    if loaded.resolution.open:
        return open_status(vpa, findings.unsupported, now), StepReason.TARGET_UNKNOWN
    wanted = next_status(vpa, findings, now)
    # A few live samples know less than what was published with all the history, which comes
    # soon (X72).
    if (
        findings.fetching_history
        and findings.low_confidence
        and findings.recommendation
        and is_provided(vpa.status)
    ):
        kept = structs.replace(wanted, recommendation=vpa.status.recommendation)
        return kept, StepReason.HISTORY_MISSING
    return wanted, None


def _current_recommendation(
    loaded: LoadedVpa, estimated: Sequence[ContainerEstimate], context: DecisionContext
) -> CurrentRecommendation:
    """Return what is published, where it matters: mostly usage decides everything."""
    vpa, usage = loaded.vpa, context.usage
    history_flags = usage.autoscalers[vpa_key(vpa)].history_flags
    stale: AbstractSet[str] = frozenset()
    idle: Mapping[str, AbstractSet[str]] = {}
    if not context.settings.publication.without_samples:
        stale = stale_containers(vpa.status) | history_flags.expired
        if not loaded.resolution.unsupported:
            idle = idle_containers(usage, vpa, {one.container for one in estimated})
    is_known = all(set(one.target) <= one.observed for one in estimated)
    if is_known and not (stale or idle):
        return CurrentRecommendation()
    is_current = vpa.status.observed_generation == vpa.metadata.generation
    if EVERY_OTHER in history_flags.outdated and not is_current:
        return CurrentRecommendation()
    amounts = {
        name: one
        for name, one in recommended_amounts(vpa.status).items()
        if name not in history_flags.outdated
    }
    idle = {name: controlled for name, controlled in idle.items() if name in amounts}
    return CurrentRecommendation(
        amounts=amounts, stale=stale, killed=history_flags.killed, idle=idle
    )


def _cached(
    inputs: DecisionInputs,
    settings: PublishingSettings,
    *,
    difference: float,
    since: datetime,
) -> CachedDecision:
    """Cache that nothing is to be written: so far is the status from what is wanted."""
    return CachedDecision(
        inputs=inputs,
        tolerance=tolerance(difference) if settings.publication.is_plain else 0.0,
        due=since + MAX_DELAY - settings.interval,
        is_equal=not difference,
    )


def _absence(
    vpa: VerticalPodAutoscaler, processed: PostProcessed, record: VpaRecord, now: datetime
) -> tuple[datetime | None, bool]:
    """Return since when there is no recommendation, and whether that is to be reported now."""
    if processed.amounts:
        return None, False
    since = record.absent_since or vpa.metadata.creation_timestamp or now
    is_due = now - since > _ABSENCE_REPORTED_EVERY
    return (now if is_due else since), is_due


def _mode(vpa: VerticalPodAutoscaler) -> str:
    return written_mode(vpa) or UpdateMode.RECREATE.value

"""The trace of each number of a recommendation, from percentiles to the status."""

from collections.abc import Iterable, Sequence
from itertools import repeat

from common.quantity import Quantity
from common.recommendation.decision_trace import Amount, DecisionTrace
from common.resources import CPU, MEMORY
from recommender.estimate.estimation import EstimationSettings, ResourceEstimates
from recommender.estimate.post_processing import PostProcessed, quantity
from recommender.estimate.step_reasons import StepReason
from recommender.estimate.vpa_estimates import Estimates
from recommender.model.autoscalers import rule_for
from recommender.model.column_table import Ints
from recommender.model.keys import VpaKey
from recommender.publish.status import recommended_amounts
from recommender.publish.status_decision import StatusDecision

_PUBLISHED = (Amount.TARGET, Amount.LOWER_BOUND, Amount.UPPER_BOUND, Amount.UNCAPPED_TARGET)
_CAPPED = _PUBLISHED[:3]
_CAPS = (StepReason.MIN_ALLOWED, StepReason.MAX_ALLOWED, StepReason.GLOBAL_MAX)
_LIMITS = (StepReason.NODES, StepReason.QUOTA)
_WITHOUT_UNCAPPED = (StepReason.ROUNDING, StepReason.HUMANIZED, *_CAPS, *_LIMITS)


def recommendation_trace(
    key: VpaKey, estimates: Estimates, decision: StatusDecision, estimation: EstimationSettings
) -> DecisionTrace:
    """Record the steps that lead to the numbers of a VPA's status."""
    trace = DecisionTrace()
    estimate, rows = estimates.of(key), estimates.rows(key)
    names = [group.container for group in estimate.groups]
    for resource, columns in estimates.by_resource.items():
        _record_estimate(trace, resource, names, rows=rows, columns=columns, estimation=estimation)
    for name in names:
        for resource in {CPU, MEMORY} - set(rule_for(estimate.rules, name).controlled):
            trace.record_dropped(name, StepReason.NOT_CONTROLLED, resource)
    processed = decision.post_processed
    if processed is None:
        return trace
    _record_post_processing(trace, processed)
    if decision.kept is not None:
        kept = recommended_amounts(decision.vpa.status).values()
        trace.record_changes(_PUBLISHED, processed.amounts, kept, decision.kept)
    return trace


def _record_estimate(
    trace: DecisionTrace,
    resource: str,
    names: Sequence[str],
    *,
    rows: slice,
    columns: ResourceEstimates,
    estimation: EstimationSettings,
) -> None:
    """Record the estimation of one resource of the containers in these rows."""
    percentiles = estimation.cpu if resource == CPU else estimation.memory
    minimums = [str(quantity(resource, each)) for each in columns.minimums[rows].tolist()]
    factors = (None, columns.lower_factors, columns.upper_factors)
    for place, amount in enumerate(_CAPPED):
        steps: list[tuple[StepReason, Iterable[str], Ints]] = [
            (
                StepReason.PERCENTILE,
                repeat(f"{percentiles.fractions[place]:g}"),
                columns.percentiles,
            ),
            (StepReason.MARGIN, repeat(f"{estimation.margin:g}"), columns.with_margin),
        ]
        factor = factors[place]
        if factor is not None:
            texts = [f"{each:.6g}" for each in factor[rows].tolist()]
            steps.append((StepReason.CONFIDENCE, texts, columns.with_confidence))
        steps.append((StepReason.MINIMUM, minimums, columns.amounts))
        before: list[Quantity | None] = [None] * len(names)
        for reason, by, column in steps:
            after = [_number(resource, value) for value in column[rows, place].tolist()]
            for name, text, old, new in zip(names, by, before, after, strict=False):
                trace.record(name, amount, resource, reason, by=text, before=old, after=new)
            before = after


def _number(resource: str, value: int) -> Quantity | None:
    """Return the quantity; None for a negative value, which stands for NaN (see ``scaled``)."""
    return None if value < 0 else quantity(resource, value)


def _record_post_processing(trace: DecisionTrace, processed: PostProcessed) -> None:
    before = processed.estimated
    for stage in processed.stages:
        if stage.reason is StepReason.UNOBSERVED:
            for one in before:
                uncapped = one.uncapped_target
                trace.record_values(
                    one.name, Amount.UNCAPPED_TARGET, uncapped, StepReason.BEFORE_CAPS
                )
        trace.record_changes(
            _CAPPED if stage.reason in _WITHOUT_UNCAPPED else _PUBLISHED,
            before,
            stage.amounts,
            stage.reason,
            by=stage.by,
            with_unchanged=stage.reason in _CAPS,
        )
        before = stage.amounts

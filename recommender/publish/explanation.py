"""The explanation of a VPA's recommendation, for users and programs.

It decides nothing: the numbers come from the functions that compute a status.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from common.codes import Code
from common.labels import NOTHING
from common.quantity import Quantity
from common.read_model.explanation import (
    ExcludedContainer,
    ExplainedContainer,
    ExplainedNumber,
    ExplainedStep,
    RecommendationExplanation,
)
from common.recommendation.amounts import ContainerAmounts
from common.recommendation.decision_trace import Amount, TraceStep
from common.resources import CPU, MEMORY, RESOURCES
from recommender.estimate.step_reasons import StepReason
from recommender.estimate.vpa_estimates import Estimates, active_groups
from recommender.model.histograms import Histograms
from recommender.model.keys import VpaKey
from recommender.model.timestamps import instant, moment, span
from recommender.publish.recommendation_trace import recommendation_trace
from recommender.publish.status import recommended_amounts
from recommender.publish.status_decision import DecisionContext, StatusDecision, WriteDecision
from recommender.publish.status_difference import MAX_DELAY
from recommender.sources.conversion import vpa_key
from recommender.sources.target_resolution import LoadedVpa

_MOST_DOUBLINGS = 900.0  # of a weight; more could overflow a float


class ExclusionReason(Code):
    """The reason why a container with history gets no recommendation."""

    OFF = "off", "its policy has mode Off"
    EXPIRED = "expired", "no pod has it, and its checkpoint is older than history is kept"
    NATIVE_SIDECAR = "native_sidecar", "it is a native sidecar, and the gate NativeSidecar is off"


def exclusion_reason(
    container: str, *, alive: Collection[str], sidecars: Collection[str]
) -> ExclusionReason:
    """Return why a container gets no recommendation; the gate excludes ``sidecars``."""
    if container not in alive:
        return ExclusionReason.EXPIRED
    return ExclusionReason.NATIVE_SIDECAR if container in sidecars else ExclusionReason.OFF


@dataclass(frozen=True, slots=True)
class Unexplained:
    """The reason why there is no explanation, with its HTTP status."""

    status: int
    error: str


def explanation(
    loaded: LoadedVpa,
    estimates: Estimates,
    decision: StatusDecision,
    context: DecisionContext,
    *,
    held_up: str = "",
) -> RecommendationExplanation:
    """Explain a decision; ``held_up`` is the reason why nothing is written at present."""
    vpa, resolution, ref = loaded.vpa, loaded.resolution, loaded.vpa.spec.target_ref
    key, settings = vpa_key(vpa), context.settings
    trace = recommendation_trace(key, estimates, decision, settings.estimation)
    status = vpa.status
    if decision.wanted is not None and decision.writing is WriteDecision.WRITTEN:
        status = decision.wanted
    due = decision.record.last_write + MAX_DELAY - settings.interval
    recommended = recommended_amounts(status)
    numbers = {name: _numbers(trace.of(name), recommended.get(name)) for name in trace.containers}
    return RecommendationExplanation(
        namespace=vpa.metadata.namespace,
        name=vpa.metadata.name,
        generation=vpa.metadata.generation,
        at=context.now,
        target=None if ref is None else f"{ref.api_version} {ref.kind} {ref.name}".strip(),
        selector=None if resolution.selector == NOTHING else str(resolution.selector),
        pods=context.usage.pod_count(key),
        unsupported=resolution.message or None,
        status=decision.writing,
        due=due if decision.writing is WriteDecision.WAITS else None,
        held_up=held_up or None,
        containers=tuple(_containers(key, estimates, numbers, context)),
        left_out=tuple(
            ExcludedContainer(name=name, reason=reason, why=reason.meaning)
            for name, reason in sorted(_left_out(key, estimates, context).items())
        ),
    )


def _containers(
    key: VpaKey,
    estimates: Estimates,
    numbers: Mapping[str, tuple[ExplainedNumber, ...]],
    context: DecisionContext,
) -> Iterator[ExplainedContainer]:
    """Explain the containers, sorted by name, with the history behind their estimates."""
    at = instant(context.now)
    estimate, merged = estimates.of(key), estimates.merged
    first = estimates.rows(key).start
    rows = {group.container: first + number for number, group in enumerate(estimate.groups)}
    for name in sorted(rows.keys() | numbers.keys()):
        row = rows.get(name)
        if row is None:  # it has no estimate, and the published amounts stay
            yield ExplainedContainer(
                name=name,
                samples=0,
                oldest_sample=None,
                newest_sample=None,
                weight={},
                confidence={},
                sharing=0,
                numbers=numbers[name],
            )
            continue
        cpu, memory = estimate.confidence[row - first].tolist()
        yield ExplainedContainer(
            name=name,
            samples=int(merged.samples[row]),
            oldest_sample=moment(int(merged.first_sample[row])),
            newest_sample=moment(int(merged.last_sample[row])),
            weight={
                CPU: present_weight(merged.cpu, row, at),
                MEMORY: present_weight(merged.memory, row, at),
            },
            confidence={CPU: cpu, MEMORY: memory},
            sharing=len(estimate.groups),
            numbers=numbers.get(name, ()),
        )


def present_weight(histograms: Histograms, row: int, at: int) -> float:
    """Return the total weight of a container's samples at an instant."""
    total = float(histograms.total[row])
    if not total:
        return 0.0  # an empty histogram has no reference time
    age = (at - int(histograms.reference[row])) / span(histograms.half_life)
    return total * math.pow(2.0, min(-age, _MOST_DOUBLINGS))


def _left_out(
    key: VpaKey, estimates: Estimates, context: DecisionContext
) -> dict[str, ExclusionReason]:
    """Return the containers with history but without a recommendation, with the reason."""
    usage = context.usage
    alive = {group.container for group in active_groups(usage, key, instant(context.now))}
    sidecars = usage.sidecars.left_out(key, usage.matching)
    estimated = estimates.of(key).groups
    return {
        group.container: exclusion_reason(group.container, alive=alive, sidecars=sidecars)
        for group in usage.groups(key)
        if group not in estimated
    }


def _numbers(
    steps: Iterable[TraceStep], recommended: ContainerAmounts | None
) -> tuple[ExplainedNumber, ...]:
    by_number: dict[tuple[str, Amount], list[TraceStep]] = {}
    for step in steps:
        by_number.setdefault((step.resource, step.amount), []).append(step)
    return tuple(
        ExplainedNumber(
            resource=resource,
            amount=amount,
            published=_text(amount.of(recommended).get(resource)),
            steps=tuple(map(_explained_step, by_number[resource, amount])),
        )
        for resource, amount in sorted(by_number, key=_place)
    )


def _place(number: tuple[str, Amount]) -> tuple[int, str, int]:
    resource, amount = number
    rank = RESOURCES.index(resource) if resource in RESOURCES else len(RESOURCES)
    return (rank, resource, list(Amount).index(amount))


def _explained_step(step: TraceStep) -> ExplainedStep:
    reason = StepReason(step.reason)
    return ExplainedStep(
        step=reason,
        by=step.by,
        before=_text(step.before),
        after=_text(step.after),
        meaning=reason.meaning,
    )


def _text(value: Quantity | None) -> str | None:
    return None if value is None else str(value)

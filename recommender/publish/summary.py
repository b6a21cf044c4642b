"""Summaries and histograms of VPAs for the read API; they decide nothing."""

from collections.abc import Mapping
from datetime import datetime

import numpy as np

from common.api.autoscaling import ContainerRecommendation, VerticalPodAutoscaler, VpaCondition
from common.api.base import QuantityJson
from common.read_model.recommender import (
    Amounts,
    Bucket,
    ConditionSummary,
    ContainerHistograms,
    ContainerSummary,
    PercentilePoint,
    UsageHistogram,
    VpaSummary,
)
from common.resources import CPU, MEMORY
from recommender.estimate.estimation import EstimationSettings, confidence
from recommender.estimate.vpa_estimates import Estimates, active_groups
from recommender.model.histograms import Histograms
from recommender.model.keys import VpaKey
from recommender.model.timestamps import NEVER, instant, moment
from recommender.model.usage import ContainerGroup, Usage
from recommender.publish.explanation import present_weight
from recommender.publish.status_decision import shown_mode
from recommender.sources.conversion import vpa_key

_UNITS: Mapping[str, str] = {CPU: "millicores", MEMORY: "bytes"}
_CURVE = tuple(percent / 100 for percent in range(101))
_NOTHING = ContainerRecommendation(target={})


def vpa_summary(
    vpa: VerticalPodAutoscaler,
    usage: Usage,
    settings: EstimationSettings,
    *,
    checkpointed_at: datetime | None,
    now: datetime,
) -> VpaSummary:
    """Return what a VPA publishes, and the extent of the history behind it."""
    key, status = vpa_key(vpa), vpa.status
    recommended = status.recommendation
    containers = None if recommended is None else recommended.container_recommendations
    published = {each.container_name: each for each in containers or ()}
    groups: dict[str, ContainerGroup] = {}
    pods = 0
    if key in usage.autoscalers:
        groups = {each.container: each for each in active_groups(usage, key, instant(now))}
        pods = usage.pod_count(key)
    return VpaSummary(
        namespace=key.namespace,
        name=key.name,
        target_ref=vpa.spec.target_ref,
        mode=shown_mode(vpa),
        pods=pods,
        containers=tuple(
            _container(name, published.get(name, _NOTHING), groups.get(name), usage, settings)
            for name in sorted(published.keys() | groups.keys())
        ),
        conditions=tuple(map(_condition, status.conditions or ())),
        checkpointed_at=checkpointed_at,
    )


def _container(
    name: str,
    published: ContainerRecommendation,
    group: ContainerGroup | None,
    usage: Usage,
    settings: EstimationSettings,
) -> ContainerSummary:
    rows = np.array([] if group is None else group.rows, dtype=np.int64)
    known = usage.aggregates
    firsts = known.first_sample[rows]
    firsts = firsts[firsts != NEVER]
    first = int(firsts.min(initial=np.iinfo(np.int64).max)) if firsts.size else NEVER
    last = int(known.last_sample[rows].max(initial=NEVER))
    samples = int(known.samples[rows].sum())
    history = np.array([first]), np.array([last]), np.array([samples])
    intervals = {CPU: settings.cpu_confidence, MEMORY: settings.memory_confidence}
    return ContainerSummary(
        name=name,
        target=_amounts(published.target),
        lower_bound=_amounts(published.lower_bound),
        upper_bound=_amounts(published.upper_bound),
        uncapped_target=_amounts(published.uncapped_target),
        samples=samples,
        first_sample=moment(first),
        last_sample=moment(last),
        confidence={
            resource: float(confidence(*history, interval)[0])
            for resource, interval in intervals.items()
        },
    )


def _amounts(published: Mapping[str, QuantityJson]) -> Amounts:
    return {resource: str(amount) for resource, amount in published.items()}


def _condition(condition: VpaCondition) -> ConditionSummary:
    since = condition.last_transition_time
    return ConditionSummary(
        type=condition.type,
        status=condition.status,
        reason=condition.reason,
        message=condition.message,
        since=since if isinstance(since, datetime) else None,
    )


def container_histograms(
    key: VpaKey, estimates: Estimates, settings: EstimationSettings, now: datetime
) -> tuple[ContainerHistograms, ...]:
    """Return the merged usage of each container with an estimate."""
    first, merged, at = estimates.rows(key).start, estimates.merged, instant(now)
    return tuple(
        ContainerHistograms(
            name=group.container,
            histograms=(
                _histogram(CPU, merged.cpu, row, settings, at=at),
                _histogram(MEMORY, merged.memory, row, settings, at=at),
            ),
        )
        for row, group in enumerate(estimates.of(key).groups, start=first)
    )


def _histogram(
    resource: str,
    histograms: Histograms,
    row: int,
    settings: EstimationSettings,
    *,
    at: int,
) -> UsageHistogram:
    percentiles = settings.cpu if resource == CPU else settings.memory
    rows = np.array([row])
    buckets, weights = histograms.buckets, histograms.inner(rows)[0]
    filled, whole = np.flatnonzero(weights), weights.sum()
    amounts = () if not filled.size else histograms.percentiles(rows, _CURVE)[0].tolist()
    return UsageHistogram(
        resource=resource,
        unit=_UNITS[resource],
        weight=present_weight(histograms, row, at),
        half_life_seconds=histograms.half_life.total_seconds(),
        target=percentiles.target,
        lower_bound=percentiles.lower,
        upper_bound=percentiles.upper,
        margin=settings.margin,
        buckets=tuple(
            Bucket(start=start, share=share)
            for start, share in zip(
                buckets.firsts[filled].tolist(), (weights[filled] / whole).tolist(), strict=True
            )
        ),
        curve=tuple(
            PercentilePoint(fraction=fraction, amount=amount)
            for fraction, amount in zip(_CURVE, amounts, strict=False)
        ),
    )

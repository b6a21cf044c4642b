"""From the usage that a VPA sees to recommended amounts, for many VPAs at once.

Source: recommender.md section 7; ``podResourceRecommender.GetRecommendedPodResources``,
vertical-pod-autoscaler/pkg/recommender/logic/recommender.go.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from common.resources import CPU, MEMORY, amount
from recommender.estimators import at_least, confidence, scaled, with_confidence, with_margin
from recommender.histograms import Histograms
from recommender.instants import span
from recommender.model.aggregates import Aggregates
from recommender.model.autoscalers import rule_for
from recommender.model.keys import VpaKey
from recommender.model.usage import Group, Usage
from recommender.rows import Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Which part of the samples each value should cover."""

    target: float = 0.9
    lower: float = 0.5
    upper: float = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimation:
    """The policy of estimation; defaults are the flags'."""

    margin: float = 0.15  # relative
    pod_min_cpu: float = 25.0  # millicores
    pod_min_memory: float = 250.0  # MiB
    cpu: Percentiles = Percentiles()
    memory: Percentiles = Percentiles()
    cpu_confidence: timedelta = timedelta(hours=24)
    memory_confidence: timedelta = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEstimate:
    """What one container should get: resource -> millicores or bytes.

    Only controlled resources are there. ``confidence`` is that of each of them, in units of
    its confidence interval. Where nothing was ``observed``, the amounts are the minimum.
    """

    container: str
    target: Mapping[str, int]
    lower: Mapping[str, int]
    upper: Mapping[str, int]
    confidence: Mapping[str, float]
    observed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResourceEstimates:
    """One resource of many containers; arrays have one element for each."""

    confidence: Floats
    target: Ints
    lower: Ints
    upper: Ints


def estimate(
    histograms: Histograms,
    *,
    percentiles: Percentiles,
    margin: float,
    confidences: Floats,
    minimums: Ints,
) -> ResourceEstimates:
    """Estimate one resource of every row; ``minimums`` are those of the rows' containers."""
    fractions = (percentiles.target, percentiles.lower, percentiles.upper)
    found = histograms.percentiles(np.arange(len(histograms)), fractions)
    target, lower, upper = with_margin(found, margin).T
    return ResourceEstimates(
        confidence=confidences,
        target=at_least(target, minimums),
        lower=at_least(
            with_confidence(lower, confidences, multiplier=0.001, exponent=-2.0), minimums
        ),
        upper=at_least(with_confidence(upper, confidences, multiplier=1.0, exponent=1.0), minimums),
    )


def estimate_all(
    merged: Aggregates, containers: Ints, estimation: Estimation
) -> dict[str, ResourceEstimates]:
    """Estimate both resources of every row of merged usage.

    ``containers`` says for each row how many containers its pod has: they share the pod's
    minimum.
    """
    first, last, samples = (
        column[: len(merged)]
        for column in (merged.first_sample, merged.last_sample, merged.samples)
    )
    shares = 1.0 / containers
    pod_cpu = amount(estimation.pod_min_cpu * 0.001 * 1000)
    pod_memory = amount(estimation.pod_min_memory * 1024 * 1024)
    return {
        CPU: estimate(
            merged.cpu,
            percentiles=estimation.cpu,
            margin=estimation.margin,
            confidences=confidence(first, last, samples, estimation.cpu_confidence),
            minimums=scaled(np.full(len(merged), pod_cpu), shares),
        ),
        MEMORY: estimate(
            merged.memory,
            percentiles=estimation.memory,
            margin=estimation.margin,
            confidences=confidence(first, last, samples, estimation.memory_confidence),
            minimums=scaled(np.full(len(merged), pod_memory), shares),
        ),
    }


def living(usage: Usage, key: VpaKey, now: int) -> list[Group]:
    """The containers of a VPA that still matter.

    Left out are those of which only a checkpoint is left, as old as an aggregate may get
    (recommender.md Q5).
    """
    oldest = now - span(usage.defaults.lifetime)
    return [
        group
        for group in usage.groups(key)
        if group.has_pods or usage.aggregates.last_sample[group.rows[-1]] > oldest
    ]


def considered(usage: Usage, key: VpaKey, now: int) -> list[Group]:
    """The containers of a VPA that get a recommendation: the living, unless switched off."""
    rules = usage.autoscalers[key].rules
    return [group for group in living(usage, key, now) if not rule_for(rules, group.container).off]


def recommend(
    usage: Usage, keys: Sequence[VpaKey], estimation: Estimation, now: int
) -> dict[VpaKey, tuple[ContainerEstimate, ...]]:
    """Estimate every container of these VPAs, sorted by name; ``now`` is an instant."""
    groups: list[Group] = []
    sizes: list[int] = []
    for key in keys:
        mine = considered(usage, key, now)
        groups.extend(mine)
        sizes.extend([len(mine)] * len(mine))
    merged = usage.aggregates.merged([group.rows for group in groups])
    estimates = estimate_all(merged, np.array(sizes, dtype=np.int64), estimation)
    observed = ((merged.samples > 0) | (merged.memory.total > 0)).tolist()
    found: dict[VpaKey, list[ContainerEstimate]] = {key: [] for key in keys}
    columns = {
        resource: _Columns(
            target=values.target.tolist(),
            lower=values.lower.tolist(),
            upper=values.upper.tolist(),
            confidence=values.confidence.tolist(),
        )
        for resource, values in estimates.items()
    }
    for row, group in enumerate(groups):
        rule = rule_for(usage.autoscalers[group.vpa].rules, group.container)
        mine_of = {name: columns[name] for name in columns if name in rule.controlled}
        found[group.vpa].append(
            ContainerEstimate(
                container=group.container,
                target={name: column.target[row] for name, column in mine_of.items()},
                lower={name: column.lower[row] for name, column in mine_of.items()},
                upper={name: column.upper[row] for name, column in mine_of.items()},
                confidence={name: column.confidence[row] for name, column in mine_of.items()},
                observed=observed[row],
            )
        )
    return {key: tuple(containers) for key, containers in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    target: list[int]
    lower: list[int]
    upper: list[int]
    confidence: list[float]

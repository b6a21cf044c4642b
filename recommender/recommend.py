"""From the usage that a VPA sees to recommended amounts, for many VPAs at once.

Source: recommender.md section 7; ``podResourceRecommender.GetRecommendedPodResources``,
vertical-pod-autoscaler/pkg/recommender/logic/recommender.go.
"""

from collections.abc import Collection, Mapping, Sequence
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


def living(usage: Usage, key: VpaKey, now: int) -> tuple[Group, ...]:
    """The containers of a VPA that still matter; the same value while they stay the same.

    Left out are those of which only a checkpoint is left, as old as an aggregate may get
    (recommender.md Q5).
    """
    groups = usage.groups(key)
    if all(group.has_pods for group in groups):
        return groups
    oldest = now - span(usage.defaults.lifetime)
    return tuple(
        group
        for group in groups
        if group.has_pods or usage.aggregates.last_sample[group.rows[-1]] > oldest
    )


def considered(usage: Usage, key: VpaKey, now: int) -> tuple[Group, ...]:
    """The containers of a VPA that get a recommendation: the living, unless switched off."""
    groups = living(usage, key, now)
    rules = usage.autoscalers[key].rules
    if not any(rule.off for rule in rules):
        return groups
    return tuple(group for group in groups if not rule_for(rules, group.container).off)


class Estimates:
    """The estimates of some VPAs, in columns; each container is made up when it is asked for."""

    def __init__(self, usage: Usage, groups: Mapping[VpaKey, Sequence[Group]]) -> None:
        self.groups = groups
        self.targets: list[list[int]] = []  # a container's cpu and memory
        self.bounds: list[list[int]] = []  # a container's lower and upper cpu, then memory
        self._usage = usage
        self._confidences: dict[str, list[float]] = {}
        self._sure: list[bool] = []  # of every resource
        self._observed: list[bool] = []
        self._places: dict[VpaKey, slice] = {}
        end = 0
        for key, mine in groups.items():
            begin, end = end, end + len(mine)
            self._places[key] = slice(begin, end)

    def fill(self, estimation: Estimation) -> None:
        """Estimate everything; once."""
        groups = [group for mine in self.groups.values() for group in mine]
        sizes = np.fromiter((len(mine) for mine in self.groups.values()), dtype=np.int64)
        merged = self._usage.aggregates.merged([group.rows for group in groups])
        found = estimate_all(merged, np.repeat(sizes, sizes), estimation)
        cpu, memory = found[CPU], found[MEMORY]
        self.targets = np.stack((cpu.target, memory.target), axis=1).tolist()
        bounds = (cpu.lower, cpu.upper, memory.lower, memory.upper)
        self.bounds = np.stack(bounds, axis=1).tolist()
        self._confidences = {name: one.confidence.tolist() for name, one in found.items()}
        self._sure = ((cpu.confidence >= 1) & (memory.confidence >= 1)).tolist()
        self._observed = ((merged.samples > 0) | (merged.memory.total > 0)).tolist()

    def place(self, key: VpaKey) -> slice:
        """Where the containers of a VPA are in the columns."""
        return self._places[key]

    def is_sure(self, key: VpaKey) -> bool:
        """Whether there is enough history for every container, and something observed of it."""
        place = self._places[key]
        return all(self._sure[place]) and all(self._observed[place])

    def of(self, key: VpaKey) -> tuple[ContainerEstimate, ...]:
        """The containers of a VPA."""
        rules = self._usage.autoscalers[key].rules
        first = self._places[key].start
        return tuple(
            self._container(row, group, rule_for(rules, group.container).controlled)
            for row, group in enumerate(self.groups[key], start=first)
        )

    def _container(self, row: int, group: Group, controlled: Collection[str]) -> ContainerEstimate:
        columns = [(at, name) for at, name in enumerate((CPU, MEMORY)) if name in controlled]
        targets, bounds = self.targets[row], self.bounds[row]
        return ContainerEstimate(
            container=group.container,
            target={name: targets[at] for at, name in columns},
            lower={name: bounds[2 * at] for at, name in columns},
            upper={name: bounds[2 * at + 1] for at, name in columns},
            confidence={name: self._confidences[name][row] for _, name in columns},
            observed=self._observed[row],
        )


def estimates(usage: Usage, keys: Sequence[VpaKey], estimation: Estimation, now: int) -> Estimates:
    """Estimate every container of these VPAs, sorted by name; ``now`` is an instant."""
    found = Estimates(usage, {key: considered(usage, key, now) for key in keys})
    found.fill(estimation)
    return found


def recommend(
    usage: Usage, keys: Sequence[VpaKey], estimation: Estimation, now: int
) -> dict[VpaKey, tuple[ContainerEstimate, ...]]:
    """The same, of all these VPAs at once."""
    found = estimates(usage, keys, estimation, now)
    return {key: found.of(key) for key in keys}

"""From the usage that a VPA sees to recommended amounts, for many VPAs at once.

Source: recommender.md section 7; ``podResourceRecommender.GetRecommendedPodResources``,
vertical-pod-autoscaler/pkg/recommender/logic/recommender.go.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import timedelta
from itertools import compress, repeat

import numpy as np

from common.resources import CPU, MEMORY, amount
from recommender.estimate.estimators import (
    at_least,
    confidence,
    confidence_factors,
    scaled,
    with_margin,
)
from recommender.estimate.percentile_cache import PercentileCache, counts
from recommender.estimate.trace import Amount, Cause, Evidence, Trail, quantity
from recommender.model.aggregates import Aggregates
from recommender.model.autoscalers import rule_for
from recommender.model.column_table import Floats, Ints, Mask
from recommender.model.histograms import Histograms
from recommender.model.keys import VpaKey
from recommender.model.timestamps import span
from recommender.model.usage import Group, Usage

_MOST_DOUBLINGS = 900.0  # that a float takes, with any weight of ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Which part of the samples each value should cover."""

    target: float = 0.9
    lower: float = 0.5
    upper: float = 0.95

    @property
    def fractions(self) -> tuple[float, float, float]:
        return (self.target, self.lower, self.upper)


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
    its confidence interval. Of a resource that was not ``observed`` the amounts are the minimum.
    """

    container: str
    target: Mapping[str, int]
    lower: Mapping[str, int]
    upper: Mapping[str, int]
    confidence: Mapping[str, float]
    observed: AbstractSet[str] = frozenset((CPU, MEMORY))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResourceEstimates:
    """One resource of many containers; arrays have one element for each."""

    confidence: Floats
    target: Ints
    lower: Ints
    upper: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observed:
    """What containers have used: percentiles of both resources, rows times fractions."""

    cpu: Ints
    memory: Ints
    counts: tuple[Ints, Ints, Ints]  # first and last CPU sample, and how many there are


class Recall:
    """The percentiles that were computed before, for as long as nothing about them changes."""

    def __init__(self, estimation: Estimation) -> None:
        self.cpu = PercentileCache(estimation.cpu.fractions)
        self.memory = PercentileCache(estimation.memory.fractions)

    def forget_all_but(self, vpas: AbstractSet[VpaKey]) -> None:
        """Drop what other VPAs saw."""
        self.cpu.forget_all_but(vpas)
        self.memory.forget_all_but(vpas)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Where the steps of one resource are told, of rows that belong to these containers."""

    trail: Trail
    containers: Sequence[str]
    resource: str

    def tell(
        self, amount: Amount, cause: Cause, by: Iterable[str], before: Ints | None, after: Ints
    ) -> None:
        """Tell one step of every row."""
        self.trail.rows(
            self.containers, amount, self.resource, cause, by=by, before=before, after=after
        )


def estimate(
    found: Ints,
    *,
    percentiles: Percentiles,
    margin: float,
    confidences: Floats,
    minimums: Ints,
    account: Account | None = None,
) -> ResourceEstimates:
    """Estimate one resource of every row, from its percentiles.

    ``minimums`` are those of the rows' containers.
    """
    fractions = percentiles.fractions
    margined = with_margin(found, margin)
    moved = margined.copy()
    factors = {
        1: confidence_factors(confidences, multiplier=0.001, exponent=-2.0),
        2: confidence_factors(confidences, multiplier=1.0, exponent=1.0),
    }
    for place, factor in factors.items():
        moved[:, place] = scaled(margined[:, place], factor)
    raised = at_least(moved, minimums[:, None])
    if account is not None:
        for place, amount in enumerate((Amount.TARGET, Amount.LOWER_BOUND, Amount.UPPER_BOUND)):
            base, more, bound, final = (one[:, place] for one in (found, margined, moved, raised))
            account.tell(amount, Cause.PERCENTILE, repeat(f"{fractions[place]:g}"), None, base)
            account.tell(amount, Cause.MARGIN, repeat(f"{margin:g}"), base, more)
            if place in factors:
                by = (f"{one:.6g}" for one in factors[place].tolist())
                account.tell(amount, Cause.CONFIDENCE, by, more, bound)
            by = (str(quantity(account.resource, one)) for one in minimums.tolist())
            account.tell(amount, Cause.MINIMUM, by, bound, final)
    target, lower, upper = raised.T
    return ResourceEstimates(confidence=confidences, target=target, lower=lower, upper=upper)


def estimate_all(
    merged: Aggregates,
    containers: Ints,
    estimation: Estimation,
    *,
    trail: Trail | None = None,
    names: Sequence[str] = (),
) -> dict[str, ResourceEstimates]:
    """Estimate both resources of every row of merged usage.

    ``containers`` says for each row how many containers its pod has: they share the pod's
    minimum. ``trail`` is told the steps, of rows that have these ``names``.
    """
    everything = np.arange(len(merged))
    observed = Observed(
        cpu=merged.cpu.percentiles(everything, estimation.cpu.fractions),
        memory=merged.memory.percentiles(everything, estimation.memory.fractions),
        counts=(
            merged.first_sample[everything],
            merged.last_sample[everything],
            merged.samples[everything],
        ),
    )
    return estimate_observed(observed, containers, estimation, trail=trail, names=names)


def estimate_observed(
    observed: Observed,
    containers: Ints,
    estimation: Estimation,
    *,
    trail: Trail | None = None,
    names: Sequence[str] = (),
) -> dict[str, ResourceEstimates]:
    """The same from percentiles."""
    first, last, samples = observed.counts
    shares = 1.0 / containers
    pod_cpu = amount(estimation.pod_min_cpu * 0.001 * 1000)
    pod_memory = amount(estimation.pod_min_memory * 1024 * 1024)

    def account(resource: str) -> Account | None:
        if trail is None:
            return None
        return Account(trail=trail, containers=names, resource=resource)

    return {
        CPU: estimate(
            observed.cpu,
            percentiles=estimation.cpu,
            margin=estimation.margin,
            confidences=confidence(first, last, samples, estimation.cpu_confidence),
            minimums=scaled(np.full(len(containers), pod_cpu), shares),
            account=account(CPU),
        ),
        MEMORY: estimate(
            observed.memory,
            percentiles=estimation.memory,
            margin=estimation.margin,
            confidences=confidence(first, last, samples, estimation.memory_confidence),
            minimums=scaled(np.full(len(containers), pod_memory), shares),
            account=account(MEMORY),
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
    return tuple(group for group in groups if group.has_pods or _is_remembered(usage, group, now))


def _is_remembered(usage: Usage, group: Group, now: int) -> bool:
    rule = rule_for(usage.autoscalers[group.vpa].rules, group.container)
    lifetime = span(rule.applied_to(usage.defaults).lifetime)
    return bool(usage.aggregates.last_sample[group.rows[-1]] > now - lifetime)


def considered(usage: Usage, key: VpaKey, now: int) -> tuple[Group, ...]:
    """The containers of a VPA that get a recommendation: the living, unless switched off.

    With the gate NativeSidecar off that leaves out native sidecars, whose usage a checkpoint or
    Prometheus may still report (X108).
    """
    groups = living(usage, key, now)
    if sidecars := usage.sidecars.left_out(key, usage.matching):
        groups = tuple(group for group in groups if group.container not in sidecars)
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
        self._observed: list[tuple[bool, bool]] = []  # cpu and memory of a container
        self._places: dict[VpaKey, slice] = {}
        end = 0
        for key, mine in groups.items():
            begin, end = end, end + len(mine)
            self._places[key] = slice(begin, end)

    def recall(self, estimation: Estimation, known: Recall) -> None:
        """Estimate everything, once; percentiles only where something changed."""
        aggregates = self._usage.aggregates
        groups = [group for mine in self.groups.values() for group in mine]
        sizes = np.fromiter((len(mine) for mine in self.groups.values()), dtype=np.int64)
        cpu = known.cpu.seen(aggregates.cpu, self.groups)
        memory = known.memory.seen(aggregates.memory, self.groups)
        counted = counts(aggregates, groups)
        observed = Observed(cpu=cpu.percentiles, memory=memory.percentiles, counts=counted)
        found = estimate_observed(observed, np.repeat(sizes, sizes), estimation)
        self._take(found, (counted[2] > 0, memory.is_filled))

    def fill(self, estimation: Estimation, trail: Trail | None = None) -> None:
        """Estimate everything; once. A ``trail`` is for a single VPA."""
        groups = [group for mine in self.groups.values() for group in mine]
        sizes = np.fromiter((len(mine) for mine in self.groups.values()), dtype=np.int64)
        merged = self._usage.aggregates.merged([group.rows for group in groups])
        names = [group.container for group in groups] if trail is not None else ()
        found = estimate_all(merged, np.repeat(sizes, sizes), estimation, trail=trail, names=names)
        everything = np.arange(len(merged))
        self._take(found, (merged.samples[everything] > 0, merged.memory.total[everything] > 0))
        if trail is not None:
            for row, name in enumerate(names):
                trail.evidence[name] = _evidence(merged, row, found, trail.at)

    def _take(self, found: Mapping[str, ResourceEstimates], observed: tuple[Mask, Mask]) -> None:
        cpu, memory = found[CPU], found[MEMORY]
        self.targets = np.stack((cpu.target, memory.target), axis=1).tolist()
        bounds = (cpu.lower, cpu.upper, memory.lower, memory.upper)
        self.bounds = np.stack(bounds, axis=1).tolist()
        self._confidences = {name: one.confidence.tolist() for name, one in found.items()}
        self._sure = ((cpu.confidence >= 1) & (memory.confidence >= 1)).tolist()
        self._observed = list(zip(*(one.tolist() for one in observed), strict=True))

    def place(self, key: VpaKey) -> slice:
        """Where the containers of a VPA are in the columns."""
        return self._places[key]

    def is_sure(self, key: VpaKey) -> bool:
        """Whether there is enough history for every container, and both resources observed."""
        place = self._places[key]
        return all(self._sure[place]) and all(map(all, self._observed[place]))

    def of(self, key: VpaKey, trail: Trail | None = None) -> tuple[ContainerEstimate, ...]:
        """The containers of a VPA; ``trail`` is told which numbers end here."""
        rules = self._usage.autoscalers[key].rules
        first = self._places[key].start
        return tuple(
            self._container(row, group, rule_for(rules, group.container).controlled, trail)
            for row, group in enumerate(self.groups[key], start=first)
        )

    def _container(
        self, row: int, group: Group, controlled: Collection[str], trail: Trail | None
    ) -> ContainerEstimate:
        if trail is not None:
            for name in {CPU, MEMORY} - set(controlled):
                trail.ended(group.container, name, Cause.NOT_CONTROLLED)
        columns = [(at, name) for at, name in enumerate((CPU, MEMORY)) if name in controlled]
        targets, bounds = self.targets[row], self.bounds[row]
        return ContainerEstimate(
            container=group.container,
            target={name: targets[at] for at, name in columns},
            lower={name: bounds[2 * at] for at, name in columns},
            upper={name: bounds[2 * at + 1] for at, name in columns},
            confidence={name: self._confidences[name][row] for _, name in columns},
            observed=frozenset(compress((CPU, MEMORY), self._observed[row])),
        )


def _evidence(
    merged: Aggregates, row: int, found: Mapping[str, ResourceEstimates], at: int
) -> Evidence:
    def weight(histograms: Histograms) -> float:
        age = (at - int(histograms.reference[row])) / span(histograms.half_life)
        total = float(histograms.total[row])
        if not total:
            return 0.0  # an empty one has no time
        return total * math.pow(2.0, min(-age, _MOST_DOUBLINGS))

    return Evidence(
        samples=int(merged.samples[row]),
        first_sample=int(merged.first_sample[row]),
        last_sample=int(merged.last_sample[row]),
        sharing=len(merged),
        weight={CPU: weight(merged.cpu), MEMORY: weight(merged.memory)},
        confidence={name: float(one.confidence[row]) for name, one in found.items()},
    )


def estimates(
    usage: Usage,
    keys: Sequence[VpaKey],
    estimation: Estimation,
    now: int,
    trail: Trail | None = None,
    *,
    known: Recall | None = None,
) -> Estimates:
    """Estimate every container of these VPAs, sorted by name; ``now`` is an instant.

    ``trail`` is told how the numbers come about; it is for a single VPA. ``known`` is what was
    computed before, for those who ask again and again.
    """
    found = Estimates(usage, {key: considered(usage, key, now) for key in keys})
    if known is None:
        found.fill(estimation, trail)
    else:
        found.recall(estimation, known)
    return found


def recommend(
    usage: Usage, keys: Sequence[VpaKey], estimation: Estimation, now: int
) -> dict[VpaKey, tuple[ContainerEstimate, ...]]:
    """The same, of all these VPAs at once."""
    found = estimates(usage, keys, estimation, now)
    return {key: found.of(key) for key in keys}

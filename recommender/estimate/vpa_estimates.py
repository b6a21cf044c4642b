"""Estimates for the containers of VPAs, from their usage.

Source: recommender.md section 7; ``podResourceRecommender.GetRecommendedPodResources``,
vertical-pod-autoscaler/pkg/recommender/logic/recommender.go.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import compress

import numpy as np

from common.resources import CPU, MEMORY
from recommender.estimate.estimation import EstimationSettings, estimate_resources
from recommender.model.autoscalers import ContainerRule, rule_for
from recommender.model.column_table import Floats, Ints, Mask
from recommender.model.keys import VpaKey
from recommender.model.timestamps import span
from recommender.model.usage import ContainerGroup, Usage
from recommender.weighted_slices import in_slices_by_weight

_RESOURCES = (CPU, MEMORY)
QUARTERS = 4
_MOST_VPAS = 100
_MOST_ROWS = 20_000  # aggregates, which take some 80 ms to merge; more only if one VPA has more


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEstimate:
    """The estimate for one container: millicores or bytes by resource.

    It has only controlled resources. ``confidence`` is in units of the resource's confidence
    interval. The amounts of a resource that was not ``observed`` are the minimum.
    """

    container: str
    target: Mapping[str, int]
    lower: Mapping[str, int]
    upper: Mapping[str, int]
    confidence: Mapping[str, float]
    observed: AbstractSet[str] = frozenset(_RESOURCES)


def active_groups(usage: Usage, key: VpaKey, now: int) -> tuple[ContainerGroup, ...]:
    """Return the containers of a VPA, except those with nothing but an expired checkpoint (Q5)."""
    groups = usage.groups(key)
    return tuple(group for group in groups if group.has_pods or _is_unexpired(usage, group, now))


def _is_unexpired(usage: Usage, group: ContainerGroup, now: int) -> bool:
    rule = rule_for(usage.autoscalers[group.vpa].rules, group.container)
    lifetime = span(rule.applied_to(usage.defaults).lifetime)
    return bool(usage.aggregates.last_sample[group.rows[-1]] > now - lifetime)


def recommended_groups(usage: Usage, key: VpaKey, now: int) -> tuple[ContainerGroup, ...]:
    """Return the active containers of a VPA, without those whose policy has mode ``Off``.

    With the gate NativeSidecar off, native sidecars are left out too: a checkpoint or Prometheus
    may still report their usage (X108).
    """
    groups = active_groups(usage, key, now)
    if sidecars := usage.sidecars.left_out(key, usage.matching):
        groups = tuple(group for group in groups if group.container not in sidecars)
    rules = usage.autoscalers[key].rules
    if not any(rule.off for rule in rules):
        return groups
    return tuple(group for group in groups if not rule_for(rules, group.container).off)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VpaEstimate:
    """The estimate for one VPA; columns have a row for each container, in the order of groups."""

    groups: Sequence[ContainerGroup]
    rules: tuple[ContainerRule, ...]
    targets: Ints  # cpu and memory
    bounds: Ints  # lower and upper cpu, lower and upper memory
    confidence: Floats  # cpu and memory
    observed: Mask  # cpu and memory: there are samples
    known_quarters: int
    """Whole quarters of a confidence interval, at most 4, of the resource with least history."""

    @property
    def containers(self) -> tuple[ContainerEstimate, ...]:
        """Return the estimate for each container, by resource."""
        targets, bounds = self.targets.tolist(), self.bounds.tolist()
        confidence, observed = self.confidence.tolist(), self.observed.tolist()
        return tuple(
            self._container(group.container, *columns)
            for group, *columns in zip(
                self.groups, targets, bounds, confidence, observed, strict=True
            )
        )

    def _container(
        self,
        name: str,
        targets: Sequence[int],
        bounds: Sequence[int],
        confidence: Sequence[float],
        observed: Sequence[bool],
    ) -> ContainerEstimate:
        controlled = rule_for(self.rules, name).controlled
        columns = [(at, each) for at, each in enumerate(_RESOURCES) if each in controlled]
        return ContainerEstimate(
            container=name,
            target={each: targets[at] for at, each in columns},
            lower={each: bounds[2 * at] for at, each in columns},
            upper={each: bounds[2 * at + 1] for at, each in columns},
            confidence={each: confidence[at] for at, each in columns},
            observed=frozenset(compress(_RESOURCES, observed)),
        )


class Estimates:
    """The estimates of some VPAs, in columns with a row for each container."""

    def __init__(
        self,
        usage: Usage,
        groups: Mapping[VpaKey, Sequence[ContainerGroup]],
        settings: EstimationSettings,
    ) -> None:
        members = [group.rows for mine in groups.values() for group in mine]
        sizes = np.fromiter((len(mine) for mine in groups.values()), dtype=np.int64)
        self.merged = usage.aggregates.merged(members)
        self.by_resource = estimate_resources(self.merged, np.repeat(sizes, sizes), settings)
        cpu, memory = self.by_resource[CPU], self.by_resource[MEMORY]
        every = np.arange(len(members))
        filled = (self.merged.samples[every] > 0, self.merged.memory.total[every] > 0)
        self._usage = usage
        self._groups = groups
        self._targets = np.stack((cpu.target, memory.target), axis=1)
        self._bounds = np.stack((cpu.lower, cpu.upper, memory.lower, memory.upper), axis=1)
        self._confidence = np.stack((cpu.confidence, memory.confidence), axis=1)
        self._observed = np.stack(filled, axis=1)
        quarters = np.where(self._observed, np.minimum(self._confidence, 1.0) * QUARTERS, 0.0)
        self._quarters: list[int] = quarters.min(axis=1).astype(np.int64).tolist()
        ends = np.cumsum(sizes).tolist()
        self._rows = {
            key: slice(end - len(mine), end)
            for (key, mine), end in zip(groups.items(), ends, strict=True)
        }

    def rows(self, key: VpaKey) -> slice:
        """Return the rows of a VPA's containers."""
        return self._rows[key]

    def of(self, key: VpaKey) -> VpaEstimate:
        """Return the estimate for one VPA."""
        rows = self._rows[key]
        return VpaEstimate(
            groups=self._groups[key],
            rules=self._usage.autoscalers[key].rules,
            targets=self._targets[rows],
            bounds=self._bounds[rows],
            confidence=self._confidence[rows],
            observed=self._observed[rows],
            known_quarters=min(self._quarters[rows], default=QUARTERS),
        )


def vpa_batches(usage: Usage, keys: Sequence[VpaKey]) -> Iterator[Sequence[VpaKey]]:
    """Yield the VPAs in batches, so that estimation doesn't block the event loop."""
    return in_slices_by_weight(keys, _MOST_VPAS, weight=usage.row_count, most=_MOST_ROWS)


def estimate_vpas(
    usage: Usage, keys: Sequence[VpaKey], settings: EstimationSettings, now: int
) -> Estimates:
    """Estimate every container of these VPAs, sorted by name; ``now`` is an instant."""
    return Estimates(usage, {key: recommended_groups(usage, key, now) for key in keys}, settings)

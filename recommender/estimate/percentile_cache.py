"""Percentiles of what VPAs see, computed again only where a histogram changed.

CPU changes with every sample. The memory of a container counts by its peak in a window, so most of
its samples change nothing; and without new usage, nothing changes at all.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from recommender.estimate.estimation import EstimationSettings
from recommender.model.aggregates import Aggregates
from recommender.model.column_table import Ints, Mask
from recommender.model.histograms import Histograms
from recommender.model.keys import VpaKey
from recommender.model.timestamps import NEVER
from recommender.model.usage import ContainerGroup

_LATE = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContainerPercentiles:
    """One resource of many containers; percentiles are rows times fractions."""

    percentiles: Ints
    is_filled: Mask  # there is any usage


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Entry:
    groups: Sequence[ContainerGroup]
    changes: int  # of the histograms, when it was computed
    found: ContainerPercentiles


class PercentileCache:
    """The percentiles of one resource, by VPA; ``computed`` counts rows that were computed."""

    def __init__(self, fractions: tuple[float, ...]) -> None:
        self.computed = 0
        self._fractions = fractions
        self._entries: dict[VpaKey, _Entry] = {}

    def percentiles(
        self, histograms: Histograms, groups: Mapping[VpaKey, Sequence[ContainerGroup]]
    ) -> ContainerPercentiles:
        """Return the percentiles of each container of these VPAs, in their order."""
        self._compute(histograms, {key: groups[key] for key in self._stale(histograms, groups)})
        found = [self._entries[key].found for key in groups]
        return ContainerPercentiles(
            percentiles=np.concatenate(
                [np.empty((0, len(self._fractions)), np.int64), *(one.percentiles for one in found)]
            ),
            is_filled=np.concatenate([np.empty(0, np.bool_), *(one.is_filled for one in found)]),
        )

    def forget_all_but(self, vpas: AbstractSet[VpaKey]) -> None:
        """Drop the entries of other VPAs."""
        for key in [key for key in self._entries if key not in vpas]:
            del self._entries[key]

    def _stale(
        self, histograms: Histograms, groups: Mapping[VpaKey, Sequence[ContainerGroup]]
    ) -> Sequence[VpaKey]:
        rows = [row for mine in groups.values() for group in mine for row in group.rows]
        versions = iter(histograms.version[rows].tolist())
        stale = []
        for key, mine in groups.items():
            newest = max((next(versions) for group in mine for _ in group.rows), default=0)
            entry = self._entries.get(key)
            if entry is None or newest > entry.changes or entry.groups != mine:
                stale.append(key)
        return stale

    def _compute(
        self, histograms: Histograms, groups: Mapping[VpaKey, Sequence[ContainerGroup]]
    ) -> None:
        merged = histograms.merged([group.rows for mine in groups.values() for group in mine])
        everything = np.arange(len(merged))
        percentiles = merged.percentiles(everything, self._fractions)
        is_filled = merged.total[everything] > 0
        self.computed += everything.size
        end = 0
        for key, mine in groups.items():
            begin, end = end, end + len(mine)
            found = ContainerPercentiles(
                percentiles=percentiles[begin:end], is_filled=is_filled[begin:end]
            )
            self._entries[key] = _Entry(groups=mine, changes=histograms.changes, found=found)


class PercentileCaches:
    """A cache for each resource."""

    def __init__(self, estimation: EstimationSettings) -> None:
        self.cpu = PercentileCache(estimation.cpu.fractions)
        self.memory = PercentileCache(estimation.memory.fractions)

    def forget_all_but(self, vpas: AbstractSet[VpaKey]) -> None:
        """Drop the entries of other VPAs."""
        self.cpu.forget_all_but(vpas)
        self.memory.forget_all_but(vpas)


def sample_counts(
    aggregates: Aggregates, groups: Sequence[ContainerGroup]
) -> tuple[Ints, Ints, Ints]:
    """Return the first and the last CPU sample and the number of samples, of each group."""
    if not groups:
        nothing = np.empty(0, dtype=np.int64)
        return nothing, nothing, nothing
    sizes = [len(group.rows) for group in groups]
    starts = np.cumsum([0, *sizes[:-1]])
    rows = [row for group in groups for row in group.rows]
    first = aggregates.first_sample[rows]
    earliest = np.minimum.reduceat(np.where(first == NEVER, _LATE, first), starts)
    return (
        np.where(earliest == _LATE, NEVER, earliest),
        np.maximum.reduceat(aggregates.last_sample[rows], starts),
        np.add.reduceat(aggregates.samples[rows], starts),
    )

"""The table of aggregates: the usage of all containers with the same key.

Source: recommender.md section 5; ``AggregateContainerState``,
vertical-pod-autoscaler/pkg/recommender/model/aggregate_container_state.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from common.resources import CPU
from recommender.model import buckets
from recommender.model.column_table import ColumnTable, Floats, Ints, Mask
from recommender.model.histograms import Histograms, SavedHistogram
from recommender.model.keys import Requests
from recommender.model.timestamps import NEVER, span

CPU_WEIGHT = 0.1  # of every CPU sample, whatever the container's request
MEMORY_WEIGHT = 1.0  # of the peak of a window

NO_VPA = 0
"""No VPA recommends anything for the containers of an aggregate."""

_MANY = 100  # rows; more are faster to fold than to merge one by one
_LATE = np.iinfo(np.int64).max
_LONGEST = timedelta(days=36_500)  # caps the lifetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregationRules:
    """Rules of memory aggregation; defaults are those of the flags, and a VPA may override them."""

    interval: timedelta = timedelta(hours=24)  # the length of a memory window
    interval_count: int = 8  # windows until an aggregate without samples expires
    oom_bump_up_ratio: float = 1.2
    oom_min_bump_up: float = 104_857_600.0  # bytes

    @property
    def lifetime(self) -> timedelta:
        """Return the time until an aggregate without CPU samples expires; at most a century."""
        return self.interval * min(self.interval_count, max(_LONGEST // self.interval, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfLives:
    """The time after which a sample has half its weight."""

    cpu: timedelta = timedelta(hours=24)
    memory: timedelta = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The contents of one aggregate, as in a checkpoint; times are instants."""

    cpu: SavedHistogram
    memory: SavedHistogram
    first_sample: int
    last_sample: int
    samples: int


class Aggregates(ColumnTable):
    """A table of usage; an aggregate has the same row here and in both tables of histograms.

    An attribute is a column. ``first_sample``, ``last_sample`` and ``samples`` are of CPU samples.
    """

    def __init__(self, half_lives: HalfLives, capacity: int = 16) -> None:
        super().__init__(capacity)
        self.half_lives = half_lives
        self.cpu = Histograms(buckets.CPU, half_lives.cpu, capacity)
        self.memory = Histograms(buckets.MEMORY, half_lives.memory, capacity)
        self.first_sample: Ints = self._column(np.int64)
        self.last_sample: Ints = self._column(np.int64)
        self.samples: Ints = self._column(np.int64)
        self.created: Ints = self._column(np.int64)
        self.interval: Ints = self._column(np.int64)  # microseconds
        self.lifetime: Ints = self._column(np.int64)  # microseconds
        self.oom_bump_up_ratio: Floats = self._column(np.float64)
        self.oom_min_bump_up: Floats = self._column(np.float64)
        # For the quality metrics: the last uncapped target, and the VPA's update mode.
        self.recommended_cpu: Ints = self._column(np.int64)  # millicores; 0: none
        self.recommended_memory: Ints = self._column(np.int64)  # bytes; 0: none
        self.mode: Ints = self._column(np.int64)  # index in ``modes``; 0: nothing is recommended
        self.modes: list[str | None] = [None]
        # For the comparison with requests, per container.
        self.vpa: Ints = self._column(np.int64)  # Autoscaler.number, or NO_VPA
        self.target_cpu: Ints = self._column(np.int64)  # millicores; 0: none
        self.target_memory: Ints = self._column(np.int64)  # bytes; 0: none
        self.template_cpu: Ints = self._column(np.int64)  # request in the pod template; 0: none
        self.template_memory: Ints = self._column(np.int64)

    def new(self) -> int:
        # The three tables allocate and free rows together, so that row numbers agree.
        self.cpu.new()
        self.memory.new()
        return super().new()

    def new_rows(self, count: int) -> Ints:
        self.cpu.new_rows(count)
        self.memory.new_rows(count)
        return super().new_rows(count)

    def free(self, row: int) -> None:
        self.cpu.free(row)
        self.memory.free(row)
        super().free(row)

    def create(self, now: int, rules: AggregationRules) -> int:
        """Return the row of a new, empty aggregate."""
        row = self.new()
        self.created[row] = now
        self.set_rules(row, rules)
        return row

    def set_rules(self, row: int, rules: AggregationRules) -> None:
        self.interval[row] = span(rules.interval)
        self.lifetime[row] = span(rules.lifetime)
        self.oom_bump_up_ratio[row] = rules.oom_bump_up_ratio
        self.oom_min_bump_up[row] = rules.oom_min_bump_up

    def recommended(self, resource: str) -> Ints:
        """Return the column with the last recommendations for a resource."""
        return self.recommended_cpu if resource == CPU else self.recommended_memory

    def targets(self, resource: str) -> Ints:
        """Return the column with the targets of a resource, per container."""
        return self.target_cpu if resource == CPU else self.target_memory

    def templates(self, resource: str) -> Ints:
        """Return the column with the requests of a resource in the pod template."""
        return self.template_cpu if resource == CPU else self.template_memory

    def set_vpa(self, row: int, number: int, template: Requests) -> None:
        """Set the VPA that applies to the containers, and the requests in its target's template."""
        self.vpa[row] = number
        self.template_cpu[row], self.template_memory[row] = template

    def set_mode(self, row: int, mode: str | None) -> None:
        """Record the update mode of the VPA, as written there.

        None means that no VPA recommends anything for it. Then drop the last recommendation.
        """
        if mode not in self.modes:
            self.modes.append(mode)
        self.mode[row] = self.modes.index(mode)
        if mode is None:
            self.recommended_cpu[row] = self.recommended_memory[row] = 0
            self.target_cpu[row] = self.target_memory[row] = 0

    def add_cpu(self, rows: Ints, times: Ints, amounts: Ints) -> None:
        """Add CPU samples, in millicores; a row may occur more than once."""
        self.cpu.add(rows, amounts, times, CPU_WEIGHT)
        np.add.at(self.samples, rows, 1)
        np.maximum.at(self.last_sample, rows, times)
        unset = rows[self.first_sample[rows] == NEVER]
        self.first_sample[unset] = _LATE
        np.minimum.at(self.first_sample, rows, times)

    def load(self, row: int, history: History) -> None:
        """Fill a new row."""
        self.cpu.load(row, history.cpu)
        self.memory.load(row, history.memory)
        self.first_sample[row] = history.first_sample
        self.last_sample[row] = history.last_sample
        self.samples[row] = history.samples

    def save(self, rows: Ints) -> list[History]:
        return [
            History(cpu=cpu, memory=memory, first_sample=first, last_sample=last, samples=samples)
            for cpu, memory, first, last, samples in zip(
                self.cpu.save(rows),
                self.memory.save(rows),
                self.first_sample[rows].tolist(),
                self.last_sample[rows].tolist(),
                self.samples[rows].tolist(),
                strict=True,
            )
        ]

    def merged(self, members: Sequence[Sequence[int]]) -> "Aggregates":
        """Return new aggregates; row i merges the rows in the i-th group of members, in order.

        Rules and creation times are not merged. This table doesn't change.

        All first members are merged at once, then all second ones, and so on. A group with very
        many members is folded on its own, because it would be alone in most of these batches.
        """
        merged = Aggregates(self.half_lives, capacity=len(members))
        merged.new_rows(len(members))
        for row, group in enumerate(members):
            if len(group) > _MANY:
                merged.fold(row, self, np.array(group))
        few = [(row, group) for row, group in enumerate(members) if len(group) <= _MANY]
        for place in range(max((len(group) for _, group in few), default=0)):
            pairs = [(row, group[place]) for row, group in few if len(group) > place]
            rows, sources = np.array(pairs).T
            merged.merge(rows, self, sources)
        return merged

    def is_empty(self, rows: Ints) -> Mask:
        """Return True for aggregates without CPU samples; memory peaks don't count."""
        empty: Mask = self.samples[rows] == 0
        return empty

    def is_expired(self, rows: Ints, now: int) -> Mask:
        """Return True if a lifetime passed since the last CPU sample, or since the creation."""
        since = np.where(self.is_empty(rows), self.created[rows], self.last_sample[rows])
        expired: Mask = now - since >= self.lifetime[rows]
        return expired

    def merge(self, rows: Ints, other: "Aggregates", other_rows: Ints) -> None:
        self.cpu.merge(rows, other.cpu, other_rows)
        self.memory.merge(rows, other.memory, other_rows)
        first, more = self.first_sample[rows], other.first_sample[other_rows]
        earlier = np.minimum(
            np.where(first == NEVER, _LATE, first), np.where(more == NEVER, _LATE, more)
        )
        self.first_sample[rows] = np.where(earlier == _LATE, NEVER, earlier)
        last = np.maximum(self.last_sample[rows], other.last_sample[other_rows])
        self.last_sample[rows] = last
        self.samples[rows] += other.samples[other_rows]

    def fold(self, row: int, other: "Aggregates", other_rows: Ints) -> None:
        """Merge many rows into one, in their order."""
        self.cpu.fold(row, other.cpu, other_rows)
        self.memory.fold(row, other.memory, other_rows)
        firsts = np.append(other.first_sample[other_rows], self.first_sample[row])
        firsts = firsts[firsts != NEVER]
        self.first_sample[row] = firsts.min() if firsts.size else NEVER
        self.last_sample[row] = max(self.last_sample[row], other.last_sample[other_rows].max())
        self.samples[row] += other.samples[other_rows].sum()

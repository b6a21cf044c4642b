"""All decaying histograms of one resource, as rows of NumPy arrays.

Source: recommender.md 3.4-3.7; ``decaying_histogram.go`` and ``histogram.go`` in
vertical-pod-autoscaler/pkg/recommender/util.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

import numpy as np

from recommender.model.buckets import COUNT, EPSILON, Buckets
from recommender.model.column_table import ColumnTable, Floats, Ints, Mask
from recommender.model.timestamps import span

FULL = 10_000  # the weight of the heaviest bucket in a checkpoint

_SHIFT_AFTER = 100  # half-lives: weights grow up to 2**100 before they are scaled back
_SLICE = 2048  # rows at a time, so that their weights (2.9 MB) fit in the processor's cache
_INDEX = np.arange(COUNT)
_IMPRECISION = 1e-9  # relative error of two sums of the same weights in another order
_TINIEST = -5000  # 2 to this power is 0; keeps exponents within the C int that ldexp takes


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedHistogram:
    """A histogram in relative weights, as a checkpoint keeps it."""

    weights: Mapping[int, int]  # bucket -> 1..FULL; the sum stands for ``total``
    total: float
    reference: int  # instant

    def __post_init__(self) -> None:
        """Validate the histogram.

        Raises:
            ValueError: the total or a weight is negative, or there is no such bucket.
        """
        if not 0 <= self.total < float("inf"):
            raise ValueError(f"total weight {self.total} is not a weight")
        for bucket, weight in self.weights.items():
            if not 0 <= bucket < COUNT:
                raise ValueError(f"there is no bucket {bucket}")
            if weight < 0:
                raise ValueError(f"bucket {bucket} has the negative weight {weight}")


class Histograms(ColumnTable):
    """A table of histograms; a sample loses half its weight in each half-life.

    ``weights[row]`` (COUNT buckets) and ``total[row]`` are relative to ``reference[row]`` (an
    instant): newer samples weigh more, so stored weights need no update as time passes. ``low``
    and ``high`` are the outermost buckets with a weight of at least EPSILON (COUNT-1 and 0 in an
    empty row).

    Operations take arrays of rows, amounts (millicores or bytes) and instants. Unless stated
    otherwise a row may occur more than once. The result of a batch equals that of one call per
    sample, except for the last bits.
    """

    def __init__(self, buckets: Buckets, half_life: timedelta, capacity: int = 16) -> None:
        super().__init__(capacity)
        self.buckets = buckets
        self.half_life = half_life
        self._half_life = span(half_life)
        if self._half_life <= 0:
            raise ValueError("a half-life must be positive")
        self.weights: Floats = self._column(np.float64, COUNT)
        self.total: Floats = self._column(np.float64)
        self.reference: Ints = self._column(np.int64)
        self.high = self._column(np.int16)
        self.above_low = self._column(np.int16)  # COUNT-1 less low, so that zero means empty

    def low(self, rows: Ints) -> Ints:
        """Return the first bucket that isn't empty; COUNT-1 if all buckets are."""
        return COUNT - 1 - self.above_low[rows].astype(np.int64)

    def is_empty(self, rows: Ints) -> Mask:
        empty: Mask = self.weights[rows, self.low(rows)] < EPSILON
        return empty

    def add(self, rows: Ints, amounts: Ints, times: Ints, weight: float) -> None:
        """Add samples with the weight ``weight`` at their time."""
        self._align(rows, times)
        effective = weight * self._decay(rows, times)
        buckets = self.buckets.of(amounts)
        np.add.at(self.weights, (rows, buckets), effective)
        np.add.at(self.total, rows, effective)
        filled = self.weights[rows, buckets] >= EPSILON
        rows, buckets = rows[filled], buckets[filled]
        np.maximum.at(self.above_low, rows, (COUNT - 1 - buckets).astype(np.int16))
        np.maximum.at(self.high, rows, buckets.astype(np.int16))

    def subtract(self, rows: Ints, amounts: Ints, times: Ints, weight: float) -> None:
        """Remove samples that were added with the same amount, time and weight."""
        self._align(rows, times)
        effective = weight * self._decay(rows, times)
        buckets = self.buckets.of(amounts)
        np.subtract.at(self.weights, (rows, buckets), effective)
        np.subtract.at(self.total, rows, effective)
        self.weights[rows, buckets] = _without_dust(self.weights[rows, buckets])
        self.total[rows] = _without_dust(self.total[rows])
        self.tighten(rows)

    def merge(self, rows: Ints, other: "Histograms", other_rows: Ints) -> None:
        """Add each other row to the row at the same position; ``rows`` must be unique.

        The older of two rows is first shifted to the reference time of the younger one. ``other``
        doesn't change, because it is copied (recommender.md Q21).
        """
        for start in range(0, len(rows), _SLICE):
            mine, theirs = rows[start : start + _SLICE], other_rows[start : start + _SLICE]
            source = other.copy(theirs)
            before = self.reference[mine]
            older = before < source.reference
            younger = np.flatnonzero(before > source.reference)
            self.shift(mine[older], source.reference[older])
            source.shift(younger, before[younger])
            self.weights[mine] += source.inner(np.arange(len(mine)))
            self.total[mine] += source.total
            self.above_low[mine] = np.maximum(self.above_low[mine], source.above_low)
            self.high[mine] = np.maximum(self.high[mine], source.high)

    def fold(self, row: int, other: "Histograms", other_rows: Ints) -> None:
        """Add many rows to one; the result is exactly that of merging one after the other.

        The row is shifted only at each later reference time. All rows up to the next one are
        shifted to it together, and then summed up.
        """
        mine = np.array([row])
        for start in range(0, len(other_rows), _SLICE):
            source = other.copy(other_rows[start : start + _SLICE])
            begin, end = 0, len(source)
            while begin < end:
                if source.reference[begin] > self.reference[row]:
                    self.shift(mine, source.reference[begin : begin + 1])
                    stop = begin + 1
                else:
                    later = source.reference[begin:end] > self.reference[row]
                    stop = begin + int(later.argmax()) if later.any() else end
                    older = begin + np.flatnonzero(
                        source.reference[begin:stop] < self.reference[row]
                    )
                    source.shift(older, np.repeat(self.reference[mine], older.size))
                self._sum_up(row, source, np.arange(begin, stop))
                begin = stop

    def _sum_up(self, row: int, source: "Histograms", part: Ints) -> None:
        """Add rows that need no shift, from the first to the last."""
        terms = np.concatenate((self.weights[row : row + 1], source.inner(part)))
        self.weights[row] = np.add.reduce(terms, axis=0)
        self.total[row] = np.cumsum([self.total[row], *source.total[part]])[-1]
        self.above_low[row] = max(self.above_low[row], source.above_low[part].max())
        self.high[row] = max(self.high[row], source.high[part].max())

    def rest(self, rows: Ints, other: "Histograms", other_rows: Ints) -> "Histograms":
        """Return new histograms: each other row without the row at the same position.

        A row that is merged with the rest has in each bucket the heavier of the two weights, and at
        least the larger total. So samples that are in both count once.

        Differences that rounding in a checkpoint can cause are ignored. If the other total is still
        larger, the missing weight is distributed like the other weights.
        """
        mine, rest = self.copy(rows), other.copy(other_rows)
        everything = np.arange(len(rows))
        latest = np.maximum(mine.reference, rest.reference)
        for each in (mine, rest):
            late = np.flatnonzero(each.reference < latest)
            each.shift(late, latest[late])
        theirs = rest.inner(everything)
        step = 2.0 * theirs.max(axis=1, keepdims=True) / FULL
        more = theirs - mine.inner(everything)
        more = np.where(more > np.maximum(step, EPSILON), more, 0.0)
        missing = rest.total - mine.total - more.sum(axis=1)
        missing = np.where(missing > _IMPRECISION * rest.total, missing, 0.0)
        share = np.divide(missing, rest.total, out=np.zeros_like(missing), where=rest.total > 0)
        rest.weights[:] = more + theirs * share[:, None]
        rest.total[:] = more.sum(axis=1) + missing
        rest.tighten(everything)
        return rest

    def copy(self, rows: Ints) -> Self:
        """Return new histograms with these rows, in this order, as rows 0, 1, 2 and so on."""
        copy = type(self)(self.buckets, self.half_life, capacity=len(rows))
        copy.new_rows(len(rows))
        for mine, column in zip(self.columns, copy.columns, strict=True):
            np.take(mine, rows, axis=0, out=column[: len(rows)], mode="clip")
        return copy

    def stops(self, rows: Ints, fractions: tuple[float, ...]) -> Ints:
        """Return the bucket of each percentile, rows times fractions; -1 in an empty row.

        It is the first bucket at which the sum of weights reaches ``fraction * total``, within
        ``low``..``high``.
        """
        found = np.empty((len(rows), len(fractions)), dtype=np.int64)
        for start in range(0, len(rows), _SLICE):
            part = rows[start : start + _SLICE]
            sums = np.cumsum(self.inner(part), axis=1)
            for column, fraction in enumerate(fractions):
                threshold = fraction * self.total[part]
                reached = np.argmax(sums >= threshold[:, None], axis=1)
                never = sums[:, -1] < threshold
                stop = np.where(never, COUNT - 1, reached)
                found[start : start + _SLICE, column] = np.clip(
                    stop, self.low(part), self.high[part]
                )
        found[self.is_empty(rows)] = -1
        return found

    def percentiles(self, rows: Ints, fractions: tuple[float, ...]) -> Ints:
        """Return the amount of each percentile, rows times fractions; 0 in an empty row."""
        stops = self.stops(rows, fractions)
        return np.where(stops < 0, 0, self.buckets.percentiles[stops])

    def save(self, rows: Ints) -> list[SavedHistogram]:
        """Return relative weights of each row, without buckets below 1/20000 of the heaviest."""
        saved = []
        for start in range(0, len(rows), _SLICE):
            part = rows[start : start + _SLICE]
            inner = self.inner(part)
            heaviest = inner.max(axis=1, keepdims=True)
            factor = np.divide(FULL, heaviest, out=np.zeros_like(heaviest), where=heaviest > 0)
            relative = np.floor(inner * factor + 0.5).astype(np.int64)
            relative[self.is_empty(part)] = 0
            for weights, total, reference in zip(
                relative, self.total[part].tolist(), self.reference[part].tolist(), strict=True
            ):
                filled = np.flatnonzero(weights)
                pairs = zip(filled.tolist(), weights[filled].tolist(), strict=True)
                saved.append(SavedHistogram(weights=dict(pairs), total=total, reference=reference))
        return saved

    def load(self, row: int, saved: SavedHistogram) -> None:
        """Fill a new row; the reference time is not rounded."""
        self.reference[row] = saved.reference
        whole = sum(saved.weights.values())
        if not whole:
            return
        buckets = np.fromiter(saved.weights, dtype=np.int64)
        share = saved.total / whole
        self.weights[row, buckets] = np.fromiter(saved.weights.values(), dtype=np.float64) * share
        self.total[row] = saved.total
        filled = [at for at, weight in saved.weights.items() if weight * share >= EPSILON]
        if filled:  # faster than tighten: a start loads tens of thousands of rows, one by one
            self.above_low[row] = COUNT - 1 - min(filled)
            self.high[row] = max(filled)

    def _inside(self, rows: Ints) -> Mask:
        """Return a mask of the buckets in ``low``..``high``; the others weigh less than EPSILON."""
        return (self.low(rows)[:, None] <= _INDEX) & (self.high[rows][:, None] >= _INDEX)

    def inner(self, rows: Ints) -> Floats:
        """Return the weights, with zeros outside ``low``..``high``."""
        return np.where(self._inside(rows), self.weights[rows], 0.0)

    def _decay(self, rows: Ints, times: Ints) -> Floats:
        """Return the factors that convert weights at these times to the rows' reference times."""
        decay: Floats = np.exp2((times - self.reference[rows]) / self._half_life)
        return decay

    def _align(self, rows: Ints, times: Ints) -> None:
        """Shift rows whose reference time is more than _SHIFT_AFTER half-lives before a sample."""
        while True:
            late = times > self.reference[rows] + _SHIFT_AFTER * self._half_life
            if not late.any():
                return
            unique, first = np.unique(rows[late], return_index=True)
            self.shift(unique, times[late][first])

    def shift(self, rows: Ints, references: Ints) -> None:
        """Move reference times to the nearest multiple of the half-life; rows are unique."""
        if not rows.size:
            return
        rest = references % self._half_life
        up = 2 * rest >= self._half_life
        rounded = references - rest + np.where(up, self._half_life, 0)
        halvings = np.floor((self.reference[rows] - rounded) / self._half_life + 0.5)
        factor = np.ldexp(1.0, np.maximum(halvings, _TINIEST).astype(np.int32))
        weights = self.weights[rows]
        self.weights[rows] = np.where(self._inside(rows), weights * factor[:, None], weights)
        self.total[rows] *= factor
        self.reference[rows] = rounded
        self.tighten(rows)

    def tighten(self, rows: Ints) -> None:
        """Move ``low`` and ``high`` inwards to the next buckets that aren't empty."""
        outermost = np.minimum(
            self.weights[rows, self.low(rows)], self.weights[rows, self.high[rows]]
        )
        rows = rows[outermost < EPSILON]  # the others are tight
        filled = self.weights[rows] >= EPSILON
        upward = filled & (self.low(rows)[:, None] <= _INDEX)
        downward = filled & (self.high[rows][:, None] >= _INDEX)
        low = np.where(upward.any(axis=1), upward.argmax(axis=1), COUNT - 1)
        high = np.where(downward.any(axis=1), COUNT - 1 - downward[:, ::-1].argmax(axis=1), 0)
        self.above_low[rows] = COUNT - 1 - low
        self.high[rows] = high


def _without_dust(weights: Floats) -> Floats:
    return np.where(weights < EPSILON, 0.0, weights)

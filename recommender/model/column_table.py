"""Tables of NumPy columns: one row per object, and operations on whole columns."""

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_GROWTH = 1.25


class ColumnTable:
    """Columns that grow in place; a freed row is zeroed and reused.

    A subclass creates its columns with :meth:`_column` and keeps them as attributes. Columns are
    resized in place (the allocator moves pages, it doesn't copy them), so don't keep a view of a
    column.
    """

    def __init__(self, capacity: int = 16) -> None:
        self._capacity = max(capacity, 1)
        self._used = 0
        self._free: list[int] = []
        self.columns: list[npt.NDArray[Any]] = []

    def __len__(self) -> int:
        return self._used - len(self._free)

    def new(self) -> int:
        """Return a row with zeros in every column."""
        if self._free:
            return self._free.pop()
        if self._used == self._capacity:
            self._grow(self._used + 1)
        self._used += 1
        return self._used - 1

    def new_rows(self, count: int) -> Ints:
        """Return ``count`` new consecutive rows; freed rows are not reused."""
        first = self._used
        if first + count > self._capacity:
            self._grow(first + count)
        self._used += count
        return np.arange(first, self._used)

    def marked(self, rows: Ints) -> Mask:
        """Return a mask over all rows that is True for these; negative numbers are ignored."""
        marks = np.zeros(self._capacity, dtype=np.bool_)
        marks[rows[rows >= 0]] = True
        return marks

    def free(self, row: int) -> None:
        """Free a row; a new row may get its number."""
        for column in self.columns:
            column[row] = 0
        self._free.append(row)

    def _column(self, dtype: npt.DTypeLike, width: int | None = None) -> npt.NDArray[Any]:
        shape = self._capacity if width is None else (self._capacity, width)
        column = np.zeros(shape, dtype=dtype)
        self.columns.append(column)
        return column

    def _grow(self, least: int) -> None:
        self._capacity = max(least, int(self._capacity * _GROWTH) + 16)
        for column in self.columns:
            # No check of references: no view is kept, see the class.
            column.resize((self._capacity, *column.shape[1:]), refcheck=False)


def distinct_batches(rows: Ints) -> list[Ints]:
    """Split positions into batches in which each row occurs once, in the order of each row.

    ``distinct_batches([7, 8, 7])`` is ``[[0, 1], [2]]``. So samples of one row are processed in
    order, and samples of different rows at once.
    """
    if not rows.size:
        return []
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    if starts.size == rows.size:
        return [np.arange(rows.size)]
    lengths = np.diff(np.r_[starts, rows.size])
    occurrence = np.empty(rows.size, dtype=np.int64)
    occurrence[order] = np.arange(rows.size) - np.repeat(starts, lengths)
    by_batch = np.argsort(occurrence, kind="stable")
    borders = np.cumsum(np.bincount(occurrence))[:-1]
    return [np.sort(batch) for batch in np.split(by_batch, borders)]

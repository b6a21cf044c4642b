"""Tables of columns, and splitting a batch into rounds."""

import numpy as np
import pytest

from recommender.model.column_table import ColumnTable, Ints, distinct_batches


class Table(ColumnTable):
    def __init__(self) -> None:
        super().__init__(capacity=2)
        self.count: Ints = self._column(np.int64)


def test_columns_grow_and_keep_their_values() -> None:
    table = Table()
    for number in range(100):
        table.count[table.new()] = number
    assert table.count[:100].tolist() == list(range(100))
    assert len(table) == 100


def test_a_freed_row_is_reused_with_defaults() -> None:
    table = Table()
    row = table.new()
    table.count[row] = 7
    table.free(row)
    assert len(table) == 0
    assert table.new() == row
    assert table.count[row] == 0


def test_new_rows_are_consecutive() -> None:
    table = Table()
    table.new()
    assert table.new_rows(3).tolist() == [1, 2, 3]
    assert len(table) == 4


@pytest.mark.parametrize(
    ("rows", "want"),
    [
        pytest.param([], [], id="empty"),
        pytest.param([4, 2, 9], [[0, 1, 2]], id="all different: one round"),
        pytest.param([7, 8, 7], [[0, 1], [2]], id="a repeated row is in the next round"),
        pytest.param([5, 5, 5], [[0], [1], [2]], id="order is kept"),
        pytest.param([1, 2, 1, 2, 1], [[0, 1], [2, 3], [4]], id="several repeated rows"),
    ],
)
def test_rounds(rows: list[int], want: list[list[int]]) -> None:
    assert [part.tolist() for part in distinct_batches(np.array(rows, dtype=np.int64))] == want


def test_marked_ignores_negative_rows() -> None:
    table = ColumnTable(capacity=4)
    table.new_rows(3)
    marks = table.marked(np.array([2, -1, 2]))
    assert np.flatnonzero(marks).tolist() == [2]

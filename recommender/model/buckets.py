"""The buckets of the histograms, as a table, because a logarithm is inexact at the edges.

Source: recommender.md 3.1-3.3; ``buckets.csv`` holds the reference's own numbers, which differ
from the C library's powers in the last bits.
"""

import csv
from dataclasses import dataclass
from importlib import resources

import numpy as np

from recommender.model.column_table import Floats, Ints

COUNT = 176
EPSILON = 0.0001  # a bucket with less weight counts as empty


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Buckets:
    """The buckets of one resource; amounts are millicores or bytes, arrays have COUNT entries."""

    starts: Floats  # in cores or bytes
    firsts: Ints  # the smallest amount in the bucket
    percentiles: Ints  # the value of a percentile in the bucket

    def of(self, amounts: Ints) -> Ints:
        """Return the bucket of each amount; bucket 0 for negative amounts."""
        found = np.searchsorted(self.firsts, amounts, side="right") - 1
        return np.maximum(found, 0)


def _load(start: str, first: str, percentile: str) -> Buckets:
    text = resources.files("recommender.model").joinpath("buckets.csv").read_text(encoding="utf-8")
    table = list(csv.DictReader(text.splitlines()))
    return Buckets(
        starts=np.array([float(row[start]) for row in table]),
        firsts=np.array([int(row[first]) for row in table], dtype=np.int64),
        percentiles=np.array([int(row[percentile]) for row in table], dtype=np.int64),
    )


CPU = _load("cpu_start_cores", "cpu_first_millicore", "cpu_percentile_millicores")
MEMORY = _load("mem_start_bytes", "mem_first_byte", "mem_percentile_bytes")

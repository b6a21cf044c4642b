"""Buckets and histograms compared with the reference."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from golden_data import Differences, Row, rows
from recommender.model import buckets
from recommender.model.buckets import Buckets
from recommender.model.histograms import Histograms, SavedHistogram
from recommender.model.timestamps import instant
from recommender_golden import check_histogram, check_saved, from_ms, saved_from, to_text

TABLES = {"cpu": buckets.CPU, "memory": buckets.MEMORY}

# The reference also has a histogram without decay. It equals one with decay if all samples have its
# reference time.
NO_DECAY = timedelta(days=1)
ALWAYS = datetime(2026, 1, 1, tzinfo=UTC)


class Replay:
    """Runs a row's operations; consecutive operations of one kind are one batch."""

    def __init__(self, resource: str, half_life_s: float | None) -> None:
        self.decays = half_life_s is not None
        half_life = timedelta(seconds=half_life_s) if half_life_s else NO_DECAY
        self.table = Histograms(TABLES[resource], half_life)
        self.errors = 0

    def run(self, ops: list[list[Any]]) -> int:
        row = self.table.new()
        if not self.decays:
            self.table.reference[row] = instant(ALWAYS)
        for kind, *arguments in ops:
            one = np.array([row])
            if kind in ("add", "sub"):
                amount, weight, t_ms = arguments
                time = from_ms(t_ms) if self.decays else instant(ALWAYS)
                change = self.table.add if kind == "add" else self.table.subtract
                change(one, np.array([amount]), np.array([time]), weight)
            elif kind == "merge":
                other = self.run(arguments[0])
                self.table.merge(one, self.table, np.array([other]))
            elif kind == "roundtrip":
                row = self.reloaded(self.table.save(one)[0])
            else:
                try:
                    saved = saved_from(arguments[0])
                except ValueError:
                    self.errors += 1
                else:
                    row = self.reloaded(saved)
        return row

    def reloaded(self, saved: SavedHistogram) -> int:
        row = self.table.new()
        self.table.load(row, saved)
        if not self.decays:
            self.table.reference[row] = instant(ALWAYS)
        return row


def test_histograms() -> None:
    differences = Differences()
    for row in rows("histogram"):
        replay = Replay(row.input["resource"], row.input["half_life_s"])
        number = replay.run(row.input["ops"])
        want = row.expected
        check_histogram(
            differences, row.id, replay.table, number, want, fractions=row.input["percentiles"]
        )
        differences.check(row.id, "errors", replay.errors, len(want.get("errors") or ()))
        saved = replay.table.save(np.array([number]))[0]
        if replay.decays:
            reference = to_text(saved.reference)
            differences.check(row.id, "reference", reference, want["reference_time"])
        else:
            saved = SavedHistogram(weights=saved.weights, total=saved.total, reference=0)
        check_saved(differences, row.id, saved, want["checkpoint"])
    differences.none_in(50_000)


def test_buckets() -> None:
    differences = Differences()
    for row in rows("histogram_options"):
        if "resource" in row.input:
            check_buckets(differences, row, TABLES[row.input["resource"]])
    differences.none_in(130)


def check_buckets(differences: Differences, row: Row, table: Buckets) -> None:
    if "amounts" in row.input:
        got = table.of(np.array(row.input["amounts"])).tolist()
        differences.check(row.id, "buckets", got, row.expected["buckets"])
        return
    starts = table.starts[row.input["buckets"]].tolist()
    differences.check(row.id, "starts", starts, row.expected["starts"])
    differences.check(row.id, "count", len(table.starts), row.expected["num_buckets"])
    differences.check(row.id, "epsilon", buckets.EPSILON, row.expected["epsilon"])

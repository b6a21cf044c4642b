"""Benchmark of operations on histograms: ``python -P benchmarks/histograms.py [ROWS]``."""

import resource
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np

from recommender.model import buckets
from recommender.model.aggregates import HalfLives
from recommender.model.histograms import Histograms
from recommender.model.keys import PodKey
from recommender.model.pods import PodFacts
from recommender.model.timestamps import instant
from recommender.model.usage import Usage

START = instant(datetime(2026, 1, 1, tzinfo=UTC))
MINUTE = instant(datetime(2026, 1, 1, 0, 1, tzinfo=UTC)) - START
GROUPS = 10_000
REPEAT = 5


def measure(name: str, work: Callable[[], object], *, repeat: int = REPEAT) -> None:
    """Print the best of a few runs."""
    best = float("inf")
    for _ in range(repeat):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    print(f"{name:<58}{best * 1000:10.1f} ms")


def filled(count: int) -> Histograms:
    """Return rows with about fifteen filled buckets each, as of busy containers."""
    rng = np.random.default_rng(1)
    table = Histograms(buckets.CPU, timedelta(days=1), capacity=count)
    rows = table.new_rows(count)
    level = rng.lognormal(5.0, 1.5, count)
    for minute in range(30):
        amounts = (level * rng.lognormal(0.0, 0.3, count)).astype(np.int64)
        table.add(rows, amounts, np.full(count, START + minute * MINUTE), 0.1)
    return table


def bench_rows(count: int) -> None:
    """Measure operations on all rows at once."""
    table = filled(count)
    rows = np.arange(count)
    rng = np.random.default_rng(2)
    amounts = rng.integers(1, 4000, count)
    times = np.full(count, START + 100 * MINUTE)
    measure(f"add one sample to each of {count} rows", lambda: table.add(rows, amounts, times, 0.1))
    measure("subtract it", lambda: table.subtract(rows, amounts, times, 0.1))
    measure("three percentiles of each", lambda: table.percentiles(rows, (0.9, 0.5, 0.95)))
    groups = min(GROUPS, count)

    def merge() -> None:
        merged = Histograms(buckets.CPU, timedelta(days=1), capacity=groups)
        mine = merged.new_rows(groups)
        for start in range(0, count - groups + 1, groups):
            merged.merge(mine, table, rows[start : start + groups])

    measure(f"merge them into {groups} groups", merge)
    measure(f"save {groups} of them", lambda: table.save(rows[:groups]))


def bench_cycle(pods: int) -> None:
    """Measure a cycle's samples through windows and aggregates, with two containers per pod."""
    usage = Usage(half_lives=HalfLives())
    started = time.perf_counter()
    for number in range(pods):
        labels = {"app": str(number // 10), "pod-template-hash": "5d8f"}
        key = PodKey("shop", f"pod-{number}")
        names = ("app", "sidecar")
        facts = PodFacts(key=key, uid=key.name, labels=labels, active=True, containers=names)
        usage.put_pod(facts, START)
    print(f"{f'track {pods} pods':<58}{(time.perf_counter() - started) * 1000:10.1f} ms")
    rows = np.arange(2 * pods)
    rng = np.random.default_rng(3)
    minute = 0

    def cycle() -> None:
        nonlocal minute
        minute += 1
        times = np.full(2 * pods, START + minute * MINUTE)
        usage.add_cpu(rows, times, rng.integers(1, 4000, 2 * pods), START)
        usage.add_memory(rows, times, rng.integers(10**7, 10**10, 2 * pods), START)

    measure(f"CPU and memory of {2 * pods} containers into the model", cycle)


def main() -> None:
    """Measure rows, then a cycle with as many containers."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    bench_rows(count)
    bench_cycle(count // 2)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{'peak memory':<58}{peak:10.0f} MiB")


if __name__ == "__main__":
    main()

"""Functions that read and compare the recommender's golden files."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from golden_data import Differences, close
from recommender.model import buckets
from recommender.model.aggregates import History
from recommender.model.column_table import Ints
from recommender.model.histograms import Histograms, SavedHistogram
from recommender.model.keys import PodKey
from recommender.model.oom_outcome import OomOutcome
from recommender.model.pods import PodFacts
from recommender.model.timestamps import instant, moment
from recommender.model.usage import Usage


def from_ms(milliseconds: float) -> int:
    return instant(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds))


def from_text(text: str | None) -> int:
    return 0 if text is None else instant(datetime.fromisoformat(text))


def to_text(value: int) -> str | None:
    at = moment(value)
    if at is None:
        return None
    return at.isoformat(timespec="auto").replace("+00:00", "Z")


def saved_from(checkpoint: dict[str, Any]) -> SavedHistogram:
    return SavedHistogram(
        weights={int(key): value for key, value in checkpoint.get("bucketWeights", {}).items()},
        total=checkpoint.get("totalWeight", 0.0),
        reference=from_text(checkpoint["referenceTimestamp"]),
    )


def check_saved(
    differences: Differences, row: str, got: SavedHistogram, want: dict[str, Any]
) -> None:
    weights = {int(key): value for key, value in want.get("bucketWeights", {}).items()}
    differences.check(row, "checkpoint weights", got.weights, weights)
    total = want.get("totalWeight", 0.0)
    differences.check(row, f"checkpoint total {total}", close(got.total, total), True)
    differences.check(
        row, "checkpoint time", to_text(got.reference), want.get("referenceTimestamp")
    )


def check_histogram(
    differences: Differences,
    row: str,
    table: Histograms,
    number: int,
    want: dict[str, Any],
    *,
    fractions: list[float],
) -> None:
    one = np.array([number])
    starts = table.buckets.starts
    ends = np.append(starts[1:], starts[-1])  # the last bucket has no end
    for fraction, stop, percentile in zip(
        fractions, table.stops(one, tuple(fractions))[0], want["percentiles"], strict=True
    ):
        if percentile is not None:
            got = 0.0 if stop < 0 else float(ends[stop])
            same = close(got, percentile, relative=1e-12)
            differences.check(row, f"percentile {fraction}", (same, got), (True, got))
    weights = {str(key): float(table.weights[number, key]) for key in range(buckets.COUNT)}
    weights = {key: weight for key, weight in weights.items() if weight}
    differences.check(row, "filled buckets", set(weights), set(want["weights"]))
    for key, weight in want["weights"].items():
        differences.check(row, f"weight {key}", close(weights.get(key, 0.0), weight), True)
    total = float(table.total[number])
    differences.check(row, "total", close(total, want["total_weight"]), True)
    differences.check(row, "min", int(table.low(one)[0]), want["min_bucket"])
    differences.check(row, "max", int(table.high[number]), want["max_bucket"])
    differences.check(row, "empty", bool(table.is_empty(one)[0]), want["empty"])


def check_history(differences: Differences, row: str, got: History, want: dict[str, Any]) -> None:
    check_saved(differences, row, got.cpu, want["cpuHistogram"])
    check_saved(differences, row, got.memory, want["memoryHistogram"])
    for key, time in (("firstSampleStart", got.first_sample), ("lastSampleStart", got.last_sample)):
        differences.check(row, key, to_text(time - time % 1_000_000), want.get(key))
    differences.check(row, "samples", got.samples, want.get("totalSamplesCount", 0))


def pod_facts(
    key: PodKey,
    containers: Iterable[str] = ("app",),
    *,
    labels: dict[str, str] | None = None,
    active: bool = True,
) -> PodFacts:
    return PodFacts(
        key=key,
        uid=f"uid-{key.name}",
        labels=labels or {},
        active=active,
        containers=tuple(containers),
    )


def lone_container(usage: Usage, name: str = "pod") -> int:
    """Return the row of a container with a separate aggregate."""
    key = PodKey("ns", name)
    usage.put_pod(pod_facts(key, labels={"pod": name}), now=0)
    return usage.pods[key].containers["app"]


KINDS = ("cpu", "mem", "oom")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stream:
    """Samples in order, as columns."""

    rows: Ints  # of the containers
    kinds: Ints  # indexes of KINDS
    times: Ints  # timestamps
    amounts: Ints

    def __len__(self) -> int:
        return len(self.rows)


def stream(row: int, ops: Sequence[tuple[str, float, int]]) -> Stream:
    """Return the samples ``[kind, milliseconds, amount]`` of a container."""
    return Stream(
        rows=np.full(len(ops), row),
        kinds=np.array([KINDS.index(kind) for kind, _, _ in ops], dtype=np.int64),
        times=np.array([from_ms(time) for _, time, _ in ops], dtype=np.int64),
        amounts=np.array([amount for _, _, amount in ops], dtype=np.int64),
    )


def series(row: int, ops: Sequence[list[Any]]) -> Stream:
    """Return the samples of ``[kind, start_ms, step_ms, count, values]``, series after series."""
    parts = []
    for kind, start, step, count, values in ops:
        part = Stream(
            rows=np.full(count, row),
            kinds=np.full(count, KINDS.index(kind)),
            times=from_ms(start) + np.arange(count) * (step * 1000),
            amounts=np.resize(np.array(values, dtype=np.int64), count),
        )
        parts.append(part)
    return joined(parts)


def joined(streams: Sequence[Stream]) -> Stream:
    """Return the streams, one after the other."""
    rows, kinds, times, amounts = (
        np.concatenate([getattr(one, name) for one in streams] or [np.empty(0, dtype=np.int64)])
        for name in ("rows", "kinds", "times", "amounts")
    )
    return Stream(rows=rows, kinds=kinds, times=times, amounts=amounts)


def feed(usage: Usage, streams: Sequence[Stream]) -> list[list[bool | OomOutcome]]:
    """Feed streams in parallel, each in its order; return the result of each sample."""
    pods = {row: pod.key for pod in usage.pods.values() for row in pod.containers.values()}
    whole = joined(streams)
    lengths = np.array([len(one) for one in streams], dtype=np.int64)
    ends = np.cumsum(lengths)
    results = np.empty(len(whole), dtype=object)
    for step in range(lengths.max(initial=0)):
        now = (ends - lengths + step)[lengths > step]  # the next sample of each stream
        kinds = whole.kinds[now]
        for number, add in enumerate((usage.add_cpu, usage.add_memory)):
            batch = now[kinds == number]
            if batch.size:
                rows, times = whole.rows[batch], whole.times[batch]
                results[batch] = add(rows, times, whole.amounts[batch], 0)
        for kill in now[kinds == KINDS.index("oom")]:
            row = int(whole.rows[kill])
            learnt = usage.add_oom(
                pods[row],
                usage.containers.keys[row][1],
                at=int(whole.times[kill]),
                request=int(whole.amounts[kill]),
                now=0,
            )
            results[kill] = learnt.outcome
    return [part.tolist() for part in np.split(results, ends[:-1])]

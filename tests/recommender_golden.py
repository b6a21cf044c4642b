"""Reading and comparing what the recommender's golden files have in common."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from golden_data import Differences, close
from recommender import buckets
from recommender.histograms import Histograms, Saved
from recommender.instants import instant, moment
from recommender.model.aggregates import History
from recommender.model.keys import PodKey
from recommender.model.oom_outcome import OomOutcome
from recommender.model.pods import PodFacts
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


def saved_from(checkpoint: dict[str, Any]) -> Saved:
    return Saved(
        weights={int(key): value for key, value in checkpoint.get("bucketWeights", {}).items()},
        total=checkpoint.get("totalWeight", 0.0),
        reference=from_text(checkpoint["referenceTimestamp"]),
    )


def check_saved(differences: Differences, row: str, got: Saved, want: dict[str, Any]) -> None:
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
    ends = table.buckets.ends
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
    """The row of a container with an aggregate of its own."""
    key = PodKey("ns", name)
    usage.put_pod(pod_facts(key, labels={"pod": name}), now=0)
    return usage.pods[key].containers["app"]


Op = tuple[int, str, int, int]  # row of the container, kind, instant, amount


def series(row: int, ops: Sequence[list[Any]]) -> list[Op]:
    """The samples of ``[kind, start_ms, step_ms, count, values]``, one series after the other."""
    return [
        (row, kind, from_ms(start + number * step), values[number % len(values)])
        for kind, start, step, count, values in ops
        for number in range(count)
    ]


def feed(usage: Usage, streams: Sequence[Sequence[Op]]) -> list[list[bool | OomOutcome]]:
    """Feed streams side by side, each in its order; returns what became of each sample."""
    pods = {row: pod.key for pod in usage.pods.values() for row in pod.containers.values()}
    results: list[list[bool | OomOutcome]] = [[] for _ in streams]
    for step in range(max(map(len, streams), default=0)):
        now = [
            (number, stream[step]) for number, stream in enumerate(streams) if len(stream) > step
        ]
        for kind, add in (("cpu", usage.add_cpu), ("mem", usage.add_memory)):
            batch = [(number, op) for number, op in now if op[1] == kind]
            rows, times, amounts = (
                np.array([op[column] for _, op in batch], dtype=np.int64) for column in (0, 2, 3)
            )
            for (number, _), accepted in zip(batch, add(rows, times, amounts, 0), strict=True):
                results[number].append(bool(accepted))
        for number, (row, kind, time, request) in now:
            if kind == "oom":
                container = usage.containers.keys[row].container
                learnt = usage.add_oom(pods[row], container, at=time, request=request, now=0)
                results[number].append(learnt.outcome)
    return results

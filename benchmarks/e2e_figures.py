"""Histograms from a server's metrics, and the CPU and memory of processes."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True, slots=True)
class Histogram:
    """Cumulative counts of observations by upper bound, in the metric's unit, with infinity."""

    buckets: Mapping[float, float]

    @property
    def count(self) -> int:
        return int(self.buckets.get(math.inf, 0))

    def since(self, before: "Histogram") -> "Histogram":
        """Return the observations after ``before``."""
        return Histogram(
            {bound: count - before.buckets.get(bound, 0) for bound, count in self.buckets.items()}
        )

    def quantile(self, part: float) -> float | None:
        """Return the value below which ``part`` of the observations are; None if there are none.

        Interpolate linearly within a bucket, as Prometheus' ``histogram_quantile`` does. In the
        last bucket return its lower bound.
        """
        rank, lower, below = part * self.count, 0.0, 0.0
        if not self.count:
            return None
        for bound in sorted(self.buckets):
            if self.buckets[bound] >= rank:
                if math.isinf(bound):
                    break
                inside = self.buckets[bound] - below
                return lower + (bound - lower) * (rank - below) / inside
            lower, below = bound, self.buckets[bound]
        return lower


def samples(text: str, name: str, /, **labels: str) -> Iterable[tuple[Mapping[str, str], float]]:
    """Yield the samples of one metric that have these labels.

    Parse only its own lines: an API server has tens of thousands of others.
    """
    lines = "".join(f"{line}\n" for line in text.splitlines() if line.startswith(f"{name}{{"))
    for family in text_string_to_metric_families(lines):
        for sample in family.samples:
            if labels.items() <= sample.labels.items():
                yield sample.labels, sample.value


def histogram(text: str, name: str, /, **labels: str) -> Histogram:
    """Return the sum of all histograms with this name and these labels."""
    buckets: dict[float, float] = {}
    for found, value in samples(text, f"{name}_bucket", **labels):
        bound = float(found["le"])
        buckets[bound] = buckets.get(bound, 0) + value
    return Histogram(buckets)


def total(text: str, name: str, /, **labels: str) -> float:
    """Return the sum of all samples with this name and these labels."""
    return sum(value for _, value in samples(text, name, **labels))

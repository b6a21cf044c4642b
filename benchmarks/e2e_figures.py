"""Figures from outside: histograms of a server's metrics, and what processes have used."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of observations up to each bound, in the unit of the metric, infinity included."""

    buckets: Mapping[float, float]

    @property
    def count(self) -> int:
        return int(self.buckets.get(math.inf, 0))

    def since(self, before: "Histogram") -> "Histogram":
        """What was observed after ``before`` was read."""
        return Histogram(
            {bound: count - before.buckets.get(bound, 0) for bound, count in self.buckets.items()}
        )

    def quantile(self, part: float) -> float | None:
        """The value below which ``part`` of the observations lie; None if there are none.

        Linear inside a bucket, as Prometheus' ``histogram_quantile`` has it: the truth is
        anywhere between the bucket's bounds. Beyond the last bound it is that bound.
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
    """The samples of one metric that carry these labels.

    Only its own lines are parsed: an API server has tens of thousands of others.
    """
    lines = "".join(f"{line}\n" for line in text.splitlines() if line.startswith(f"{name}{{"))
    for family in text_string_to_metric_families(lines):
        for sample in family.samples:
            if labels.items() <= sample.labels.items():
                yield sample.labels, sample.value


def histogram(text: str, name: str, /, **labels: str) -> Histogram:
    """The sum of all histograms of one name that carry these labels."""
    buckets: dict[float, float] = {}
    for found, value in samples(text, f"{name}_bucket", **labels):
        bound = float(found["le"])
        buckets[bound] = buckets.get(bound, 0) + value
    return Histogram(buckets)


def total(text: str, name: str, /, **labels: str) -> float:
    """The sum of all samples of one metric that carry these labels."""
    return sum(value for _, value in samples(text, name, **labels))

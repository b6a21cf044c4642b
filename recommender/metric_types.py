"""Prometheus metrics that the client library doesn't have.

They are collected in another thread than they are updated in, so ``collect`` iterates over copies.
"""

from collections import Counter as Tally
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from recommender.model.column_table import Floats, Ints


class PlainCounter:
    """A counter whose name doesn't end in ``_total``; the client library would append it.

    Dashboards query it by the reference's name. Its type is unknown, which is the only type that
    keeps the name in both text formats.
    """

    def __init__(
        self, name: str, text: str, labels: tuple[str, ...], registry: CollectorRegistry
    ) -> None:
        self.name, self.labels = name, labels
        self._text = text
        self._values: Tally[tuple[str, ...]] = Tally()
        registry.register(self)

    def inc(self, *labels: str, by: int = 1) -> None:
        """Increment; the label values are in the order of the label names."""
        self._values[labels] += by

    def describe(self) -> Iterable[Metric]:
        """Yield the name; the registry refuses a second metric with that name."""
        yield Metric(self.name, self._text, "unknown")

    def collect(self) -> Iterable[Metric]:
        metric = Metric(self.name, self._text, "unknown")
        for values, count in self._values.copy().items():
            metric.add_sample(self.name, dict(zip(self.labels, values, strict=True)), float(count))
        yield metric


class SnapshotGauge:
    """A gauge whose series are replaced all at once, so that no scrape sees a part of them."""

    def __init__(
        self, name: str, text: str, labels: tuple[str, ...], registry: CollectorRegistry
    ) -> None:
        self.name, self.labels = name, labels
        self._text = text
        self._values: Mapping[tuple[str, ...], float] = {}
        registry.register(self)

    def publish(self, values: Mapping[tuple[str, ...], float]) -> None:
        """Replace all series; the mapping, which is kept, must not change afterwards."""
        self._values = values

    def describe(self) -> Iterable[Metric]:
        """Yield the name."""
        yield Metric(self.name, self._text, "gauge")

    def collect(self) -> Iterable[Metric]:
        metric = Metric(self.name, self._text, "gauge")
        for values, number in self._values.items():
            metric.add_sample(self.name, dict(zip(self.labels, values, strict=True)), number)
        yield metric


class BatchHistogram:
    """A Prometheus histogram that takes arrays of values."""

    def __init__(
        self,
        name: str,
        text: str,
        labels: tuple[str, ...],
        bounds: Sequence[float],
        registry: CollectorRegistry,
    ) -> None:
        self.name, self.labels, self.bounds = name, labels, tuple(bounds)
        self._text = text
        self._counts: dict[tuple[str, ...], Ints] = {}
        self._sums: Tally[tuple[str, ...]] = Tally()
        registry.register(self)

    def observe(self, values: Floats, *labels: str) -> None:
        """Observe values; the label values are in the order of the label names."""
        if not values.size:
            return
        places = np.searchsorted(self.bounds, values, side="left")
        counts = np.bincount(places, minlength=len(self.bounds) + 1)
        self._counts[labels] = self._counts.get(labels, 0) + counts
        self._sums[labels] += float(values.sum())  # type: ignore[assignment] # a sum, not a count

    def describe(self) -> Iterable[Metric]:
        """Yield the name."""
        yield Metric(self.name, self._text, "histogram")

    def collect(self) -> Iterable[Metric]:
        metric = Metric(self.name, self._text, "histogram")
        bounds = [*map(str, map(float, self.bounds)), "+Inf"]
        for values, counts in self._counts.copy().items():
            labels = dict(zip(self.labels, values, strict=True))
            below = np.cumsum(counts).tolist()
            for bound, count in zip(bounds, below, strict=True):
                metric.add_sample(f"{self.name}_bucket", {**labels, "le": bound}, count)
            metric.add_sample(f"{self.name}_count", labels, below[-1])
            metric.add_sample(f"{self.name}_sum", labels, self._sums[values])
        yield metric

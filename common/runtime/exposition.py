"""The text of ``/metrics``, in which bounds of buckets are written as Go's client writes them.

The Python client writes ``le="1.0"`` and Go's ``le="1"``. Dashboards select buckets by this text.
The OpenMetrics format requires ``1.0``, and Prometheus prefers that format if it is offered, so it
isn't, as in the reference.
"""

import functools
from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BOUND = "le"


def exposition(registry: Collector) -> bytes:
    """Return all metrics of a registry in Prometheus' text format."""
    return generate_latest(_GoBuckets(registry))


class _GoBuckets(Collector):
    """A registry whose buckets have Go's labels."""

    def __init__(self, registry: Collector) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            if metric.type == "histogram":
                metric.samples = [
                    sample._replace(labels={**sample.labels, _BOUND: _in_go(sample.labels[_BOUND])})
                    if _BOUND in sample.labels
                    else sample
                    for sample in metric.samples
                ]
            yield metric


@functools.lru_cache(maxsize=1024)
def _in_go(bound: str) -> str:
    """Write a number as ``strconv.FormatFloat(number, 'g', -1, 64)`` does."""
    text: str = floatToGoString(bound)  # type: ignore[no-untyped-call] # as shipped
    return text.removesuffix(".0")

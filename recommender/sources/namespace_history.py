"""The history of one namespace, fetched from Prometheus and merged into the model.

The size of responses is bounded. The history of a namespace is merged when it is complete. After a
failure it is fetched again from the start, so no sample counts twice.

Source: recommender.md 12.5.
"""

import asyncio
import logging
from collections import Counter as Tally
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import msgspec

from common.resources import CPU, MEMORY, cpu_from_cores, memory_from_bytes
from common.runtime.clock import Clock
from recommender.model.backfill import Backfill, KnownUntil
from recommender.model.timestamps import instant
from recommender.model.usage import Usage
from recommender.sources.prometheus import Prometheus
from recommender.sources.promql import Queries, TimeRange, chunk
from recommender.sources.series import (
    LastLabels,
    container_series,
    highest_number,
    undecoded_series,
)
from recommender.sources.usage_source_settings import UsageSourceSettings
from recommender.weighted_slices import in_slices_by_weight

logger = logging.getLogger(__name__)

_POINTS = 200_000  # of one response, some six megabytes
_LEAST_POINTS = 1_000
_SPARSE = 24  # containers are counted at every 24th point
_SLICE = 2**19  # bytes that are decoded before other tasks run
_LAG = timedelta(minutes=2)  # live usage is delayed: its first samples may be that old


class NamespaceHistory:
    """Fetches the history of namespaces, within the context of ``prometheus``.

    It holds ``model_lock``, like the cycle, while it changes the model.
    """

    def __init__(
        self,
        prometheus: Prometheus,
        settings: UsageSourceSettings,
        usage: Usage,
        *,
        model_lock: asyncio.Lock,
        matched_only: bool,
        clock: Clock,
    ) -> None:
        """Initialize; ``matched_only`` leaves out pods that no VPA matches."""
        self.prometheus = prometheus
        self._settings = settings
        self._queries = Queries(settings)
        self._usage = usage
        self._model_lock = model_lock
        self._matched_only = matched_only
        self._clock = clock
        self._points: dict[str, int] = {}  # of one response, if not _POINTS
        self._labels_of_all_pods: LastLabels | None = None

    def begin(self) -> None:
        """Drop the labels of pods before namespaces are fetched (again)."""
        self._labels_of_all_pods = None

    def request_less(self, namespace: str) -> None:
        """Request smaller responses, because the size may have caused a failure."""
        points = self._points.get(namespace, _POINTS)
        self._points[namespace] = max(points // 4, _LEAST_POINTS)

    async def load(self, namespace: str, known_until: KnownUntil) -> Tally[str]:
        """Fetch one namespace and merge it into the model; return the number of samples.

        Samples that checkpoints cover, up to ``known_until``, don't count.

        Raises:
            PrometheusError: a query failed.
            DecodeError: a response is invalid.
        """
        now = self._clock.now()
        length, resolution = self._settings.history_span
        window = TimeRange.until(instant(now - _LAG), length=length, resolution=resolution)
        series = await self._series(namespace, window)
        labels = await self._labels(namespace, window, series)
        backfill = Backfill(
            self._usage,
            namespace,
            known_until=known_until,
            matched_only=self._matched_only,
            now=instant(now),
        )
        samples: Tally[str] = Tally()
        unusable = 0
        for resource, query, amount in (
            (CPU, self._queries.cpu(namespace), cpu_from_cores),
            (MEMORY, self._queries.memory(namespace), memory_from_bytes),
        ):
            async for raw in self._answers(namespace, query, window, series):
                found = list(container_series(raw, self._settings, amount))
                recorded = [each for each in found if each is not None]
                samples[resource] += backfill.add(resource, recorded, labels.of)
                unusable += len(found) - len(recorded)
        async with self._model_lock:
            for _ in backfill.join(instant(self._clock.now())):
                await asyncio.sleep(0)
        extra = {"namespace": namespace, **samples, "unusable": unusable}
        logger.debug("history fetched", extra=extra)
        return samples

    async def _series(self, namespace: str, window: TimeRange) -> int:
        """Return about the maximum number of containers that ran at the same time."""
        sparse = window.every(_SPARSE)
        query = self._queries.count(namespace)
        return highest_number(undecoded_series(await self.prometheus.range(query, sparse)))

    async def _labels(self, namespace: str, window: TimeRange, series: int) -> LastLabels:
        """Return the labels of the namespace's pods, including deleted ones."""
        query = self._queries.pod_labels(namespace)
        if query is None:
            return await self._labels_of_all(window)
        found = LastLabels(self._settings)
        async for raw in self._answers(namespace, query, window, series):
            found.add(raw)
        return found

    async def _labels_of_all(self, window: TimeRange) -> LastLabels:
        """Return the labels of all pods, fetched once, for a flag that can't be split."""
        if self._labels_of_all_pods is None:
            text = self._settings.metric_for_pod_labels
            found = LastLabels(self._settings)
            async for raw in _sliced(
                undecoded_series(await self.prometheus.instant(text, window.end))
            ):
                found.add(raw)
            self._labels_of_all_pods = found
        return self._labels_of_all_pods

    async def _answers(
        self, namespace: str, query: str, window: TimeRange, series: int
    ) -> AsyncIterator[Sequence[msgspec.Raw]]:
        """Yield the series of one query in slices, for one part of the window after the other."""
        points = self._points.get(namespace, _POINTS)
        rest: TimeRange | None = window
        while rest is not None:
            part = chunk(rest, series=series, points=points)
            async for raw in _sliced(undecoded_series(await self.prometheus.range(query, part))):
                yield raw
            rest = rest.after(part)


async def _sliced(raw: Sequence[msgspec.Raw]) -> AsyncIterator[Sequence[msgspec.Raw]]:
    """Yield slices of a response; other tasks run before each of them.

    The weight of a series is its length, because labels and points both take time.
    """
    for found in in_slices_by_weight(raw, len(raw), weight=len, most=_SLICE):
        await asyncio.sleep(0)
        yield found

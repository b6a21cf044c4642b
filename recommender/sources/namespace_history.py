"""The history of one namespace, fetched from Prometheus and merged into the model.

Answers have a bounded size. A namespace's history is merged when all of it is there, so one that
failed half-way starts over, and nothing counts twice.

Source: recommender.md 12.5.
"""

import asyncio
import logging
from collections import Counter as Tally
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Self

import msgspec

from common.resources import CPU, MEMORY, cpu_from_cores, memory_from_bytes
from common.runtime.clock import Clock
from recommender.model.backfill import Backfill, KnownUntil
from recommender.model.timestamps import instant
from recommender.model.usage import Usage
from recommender.slices import in_slices_by_weight
from recommender.sources.prometheus import Prometheus
from recommender.sources.promql import HistoryQuery, TimeRange, chunk
from recommender.sources.series import (
    LastLabels,
    container_series,
    highest_number,
    undecoded_series,
)

logger = logging.getLogger(__name__)

_POINTS = 200_000  # of one answer: some six megabytes
_LEAST_POINTS = 1_000
_SPARSE = 24  # every so many points containers are counted
_SLICE = 2**19  # bytes that are decoded before other tasks run
# The live feed is that much behind: its first samples may be older than our first question.
_LAG = timedelta(minutes=2)


class NamespaceHistory:
    """Fetches namespaces; an asynchronous context manager, as ``Prometheus`` is.

    ``model_lock`` is held while the model changes; the cycle takes it as well.
    """

    def __init__(
        self,
        prometheus: Prometheus,
        wanted: HistoryQuery,
        usage: Usage,
        *,
        model_lock: asyncio.Lock,
        matched_only: bool,
        clock: Clock,
    ) -> None:
        """``matched_only`` leaves out pods that no VPA matches."""
        self._prometheus = prometheus
        self._wanted = wanted
        self._usage = usage
        self._model_lock = model_lock
        self._matched_only = matched_only
        self._clock = clock
        self._points: dict[str, int] = {}  # of one answer, where the usual is too much
        self._labels_of_all_pods: LastLabels | None = None

    async def __aenter__(self) -> Self:
        await self._prometheus.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._prometheus.__aexit__(kind, error, trace)

    def begin(self) -> None:
        """Forget the labels of pods before namespaces are fetched (again)."""
        self._labels_of_all_pods = None

    def ask_for_less(self, namespace: str) -> None:
        """Ask for smaller answers: a failure may be due to the size of one."""
        points = self._points.get(namespace, _POINTS)
        self._points[namespace] = max(points // 4, _LEAST_POINTS)

    async def load(self, namespace: str, known_until: KnownUntil) -> Tally[str]:
        """Fetch one namespace and merge it into the model; returns the samples that counted.

        ``known_until`` is what checkpoints know already.

        Raises:
            PrometheusError: an answer is missing.
            DecodeError: an answer is none.
        """
        now = self._clock.now()
        window = TimeRange.until(
            instant(now - _LAG), length=self._wanted.length, resolution=self._wanted.resolution
        )
        series = await self._series(namespace, window)
        labels = await self._labels(namespace, window, series)
        backfill = Backfill(
            self._usage,
            namespace,
            known_until=known_until,
            matched_only=self._matched_only,
            now=instant(now),
        )
        queries = self._wanted.queries
        samples: Tally[str] = Tally()
        strange = 0
        for resource, query, amount in (
            (CPU, queries.cpu(namespace), cpu_from_cores),
            (MEMORY, queries.memory(namespace), memory_from_bytes),
        ):
            async for raw in self._answers(namespace, query, window, series):
                found = list(container_series(raw, queries.container, amount))
                recorded = [each for each in found if each is not None]
                samples[resource] += backfill.add(resource, recorded, labels.of)
                strange += len(found) - len(recorded)
        async with self._model_lock:
            for _ in backfill.join(instant(self._clock.now())):
                await asyncio.sleep(0)
        extra = {"namespace": namespace, **samples, "unusable": strange}
        logger.debug("history fetched", extra=extra)
        return samples

    async def _series(self, namespace: str, window: TimeRange) -> int:
        """About how many containers of a namespace ran at a time, when there were most."""
        sparse = window.every(_SPARSE)
        query = self._wanted.queries.count(namespace)
        return highest_number(undecoded_series(await self._prometheus.range(query, sparse)))

    async def _labels(self, namespace: str, window: TimeRange, series: int) -> LastLabels:
        """Return the labels of the namespace's pods, those that are gone included."""
        query = self._wanted.queries.pod_labels(namespace)
        if query is None:
            return await self._labels_of_all(window)
        found = LastLabels(self._wanted.queries.pod)
        async for raw in self._answers(namespace, query, window, series):
            found.add(raw)
        return found

    async def _labels_of_all(self, window: TimeRange) -> LastLabels:
        """Return the labels of all pods, fetched once: what the flag's text selects is unknown."""
        if self._labels_of_all_pods is None:
            text = self._wanted.queries.labels_metric
            found = LastLabels(self._wanted.queries.pod)
            async for raw in _unhurried(
                undecoded_series(await self._prometheus.instant(text, window.end))
            ):
                found.add(raw)
            self._labels_of_all_pods = found
        return self._labels_of_all_pods

    async def _answers(
        self, namespace: str, query: str, window: TimeRange, series: int
    ) -> AsyncIterator[Sequence[msgspec.Raw]]:
        """Yield the series of one query, window after window, and a slice after the other."""
        points = self._points.get(namespace, _POINTS)
        rest: TimeRange | None = window
        while rest is not None:
            part = chunk(rest, series=series, points=points)
            async for raw in _unhurried(
                undecoded_series(await self._prometheus.range(query, part))
            ):
                yield raw
            rest = rest.after(part)


async def _unhurried(raw: Sequence[msgspec.Raw]) -> AsyncIterator[Sequence[msgspec.Raw]]:
    """Yield slices of an answer; other tasks run before each.

    Labels and points both cost time, so the weight of a series is its length.
    """
    for found in in_slices_by_weight(raw, len(raw), weight=len, most=_SLICE):
        await asyncio.sleep(0)
        yield found

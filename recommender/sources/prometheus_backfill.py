"""History from Prometheus, fetched in the background while live samples already count.

Namespace by namespace, and each in answers of bounded size: what one namespace takes is the most
that is in memory at a time. A namespace's history joins the model when all of it is there, so
one that failed half-way begins anew, and nothing counts twice.

Source: recommender.md 12.5.
"""

import asyncio
import logging
import random
from collections import Counter as Tally
from collections.abc import AsyncIterator, Collection, Sequence
from datetime import timedelta

import msgspec

from common.errors import DecodeError
from common.resources import CPU, MEMORY, cpu_from_cores, memory_from_bytes
from common.runtime.clock import Clock
from recommender.metrics import RecommenderMetrics
from recommender.model.backfill import Backfill, KnownUntil
from recommender.model.keys import VpaKey
from recommender.model.timestamps import instant
from recommender.model.usage import Usage
from recommender.slices import in_slices_by_weight
from recommender.sources.prometheus import Prometheus, PrometheusError
from recommender.sources.promql import HistoryQuery, TimeRange, chunk
from recommender.sources.series import (
    LastLabels,
    container_series,
    highest_number,
    undecoded_series,
)
from recommender.state_log import StateLog

logger = logging.getLogger(__name__)

_POINTS = 200_000  # of one answer: some six megabytes
_LEAST_POINTS = 1_000
_SPARSE = 24  # every so many points containers are counted
_SLICE = 2**19  # bytes that are decoded before other tasks get their turn
_FIRST_PAUSE = 5.0  # seconds before the second try; each further one is twice as long
_LONGEST_PAUSE = 300.0
# The live feed is that much behind: its first samples may be older than our first question.
_LAG = timedelta(minutes=2)


class PrometheusBackfill:
    """Fetches the history of each namespace that has VPAs, once.

    ``model_lock`` is held by whoever changes the model; the cycle takes it as well.
    """

    def __init__(
        self,
        prometheus: Prometheus,
        wanted: HistoryQuery,
        usage: Usage,
        *,
        model_lock: asyncio.Lock,
        matched_only: bool,
        metrics: RecommenderMetrics,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._prometheus = prometheus
        self._wanted = wanted
        self._usage = usage
        self._model_lock = model_lock
        self._matched_only = matched_only
        self._metrics = metrics
        self._clock = clock
        self._rng = rng
        self._known_until: KnownUntil = {}
        self._pending: set[str] = set()
        self._loaded: set[str] = set()
        self._points: dict[str, int] = {}  # of one answer, where the usual is too much
        self._labels_of_all_pods: LastLabels | None = None
        self._asked = asyncio.Event()
        self._state = StateLog(logger, over="history is fetched from Prometheus again")

    def fetching(self, key: VpaKey) -> bool:
        """Whether there is history of this VPA that isn't in the model yet."""
        return key.namespace not in self._loaded

    def request(self, vpas: Collection[VpaKey], known_until: KnownUntil) -> None:
        """These VPAs are in the model, with what their checkpoints held."""
        namespaces = {key.namespace for key in vpas}
        self._known_until = known_until
        self._pending = namespaces - self._loaded
        if self._pending:
            self._asked.set()
        self._count()

    async def run(self) -> None:
        """Fetch what is wanted, as often as it takes."""
        async with self._prometheus:
            while True:
                await self._asked.wait()
                self._asked.clear()
                await self._fetch_pending()

    async def _fetch_pending(self) -> None:
        pause = _FIRST_PAUSE
        while self._pending:
            if await self._fetch_once():
                pause = _FIRST_PAUSE
            if not self._pending:
                break
            await asyncio.sleep(pause * self._rng.uniform(0.5, 1.5))
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _fetch_once(self) -> bool:
        """Try every pending namespace; one that fails costs itself. Whether any succeeded."""
        before = len(self._loaded)
        self._labels_of_all_pods = None
        failures: list[str] = []
        for namespace in sorted(self._pending):
            try:
                samples = await self._load(namespace)
            except (PrometheusError, DecodeError) as error:
                failures.append(f"{namespace}: {error}")
                reason = error.reason if isinstance(error, PrometheusError) else "undecodable"
                self._metrics.backfill_failures.labels(reason).inc()
                if isinstance(error, PrometheusError) and error.away:
                    self._log_change(reason, str(error))
                    return len(self._loaded) > before
                # Perhaps it was too much at a time.
                points = self._points.get(namespace, _POINTS)
                self._points[namespace] = max(points // 4, _LEAST_POINTS)
            else:
                self._loaded.add(namespace)
                self._pending.discard(namespace)
                self._metrics.backfill_joined(samples)
                self._count()
        self._log_change(*(("some namespaces", failures[0]) if failures else ()))
        if not self._pending:
            logger.info("history from Prometheus is complete")
        return len(self._loaded) > before

    async def _load(self, namespace: str) -> Tally[str]:
        """Fetch one namespace and let it join the model; the samples that counted.

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
            known_until=self._known_until,
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
        """The labels of the namespace's pods, those that are gone included."""
        query = self._wanted.queries.pod_labels(namespace)
        if query is None:
            return await self._labels_of_all(window)
        found = LastLabels(self._wanted.queries.pod)
        async for raw in self._answers(namespace, query, window, series):
            found.add(raw)
        return found

    async def _labels_of_all(self, window: TimeRange) -> LastLabels:
        """The labels of all pods, once in a round: who knows what the flag's text asks for."""
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
        """The series of one query, window after window, and a slice after the other."""
        points = self._points.get(namespace, _POINTS)
        rest: TimeRange | None = window
        while rest is not None:
            part = chunk(rest, series=series, points=points)
            async for raw in _unhurried(
                undecoded_series(await self._prometheus.range(query, part))
            ):
                yield raw
            rest = rest.after(part)

    def _count(self) -> None:
        self._metrics.count_backfill(loaded=len(self._loaded), pending=len(self._pending))

    def _log_change(self, reason: str = "", error: str = "") -> None:
        text = "history not fetched from Prometheus, trying again" if reason else ""
        namespaces = len(self._pending)
        self._state.report(text, cause=reason, reason=reason, error=error, namespaces=namespaces)


async def _unhurried(raw: Sequence[msgspec.Raw]) -> AsyncIterator[Sequence[msgspec.Raw]]:
    """Slices of an answer; other tasks get their turn before each.

    A series costs by its labels as well as by its points, and its length tells of both.
    """
    for found in in_slices_by_weight(raw, len(raw), weight=len, most=_SLICE):
        await asyncio.sleep(0)
        yield found

"""History from Prometheus, fetched in the background while live samples already count.

Namespaces are fetched one after the other, so that memory holds the history of only one.

Source: recommender.md 12.5.
"""

import asyncio
import logging
import random
from collections.abc import Collection

from common.errors import DecodeError
from recommender.metrics import RecommenderMetrics
from recommender.model.backfill import KnownUntil
from recommender.model.keys import VpaKey
from recommender.sources.namespace_history import NamespaceHistory
from recommender.sources.prometheus import PrometheusError
from recommender.state_log import StateLog

logger = logging.getLogger(__name__)

_FIRST_PAUSE = 5.0  # seconds before the first retry; doubles with each further one
_LONGEST_PAUSE = 300.0


class PrometheusBackfill:
    """Fetches the history of each namespace that has VPAs, once."""

    def __init__(
        self, history: NamespaceHistory, *, metrics: RecommenderMetrics, rng: random.Random
    ) -> None:
        self._history = history
        self._metrics = metrics
        self._rng = rng
        self._known_until: KnownUntil = {}
        self._pending: set[str] = set()
        self._loaded: set[str] = set()
        self._requested = asyncio.Event()
        self._state = StateLog(logger, over="history is fetched from Prometheus again")

    def fetching(self, key: VpaKey) -> bool:
        """Return True while the history of this VPA's namespace isn't in the model."""
        return key.namespace not in self._loaded

    def request(self, vpas: Collection[VpaKey], known_until: KnownUntil) -> None:
        """Request the history of these VPAs; checkpoints cover usage until ``known_until``."""
        namespaces = {key.namespace for key in vpas}
        self._known_until = known_until
        self._pending = namespaces - self._loaded
        if self._pending:
            self._requested.set()
        self._count()

    async def run(self) -> None:
        """Fetch the requested history, with retries."""
        async with self._history.prometheus:
            while True:
                await self._requested.wait()
                self._requested.clear()
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
        """Try each pending namespace, unless Prometheus is away; return True if any succeeded."""
        before = len(self._loaded)
        self._history.begin()
        failures: list[str] = []
        for namespace in sorted(self._pending):
            try:
                samples = await self._history.load(namespace, self._known_until)
            except (PrometheusError, DecodeError) as error:
                failures.append(f"{namespace}: {error}")
                reason = error.reason if isinstance(error, PrometheusError) else "undecodable"
                self._metrics.backfill_failures.labels(reason).inc()
                if isinstance(error, PrometheusError) and error.away:
                    self._report(reason, str(error))
                    return len(self._loaded) > before
                self._history.request_less(namespace)
            else:
                self._loaded.add(namespace)
                self._pending.discard(namespace)
                self._metrics.backfill_joined(samples)
                self._count()
        if failures:
            self._report("some namespaces", failures[0])
        else:
            self._state.report("")
        if not self._pending:
            logger.info("history from Prometheus is complete")
        return len(self._loaded) > before

    def _count(self) -> None:
        self._metrics.count_backfill(loaded=len(self._loaded), pending=len(self._pending))

    def _report(self, reason: str, error: str) -> None:
        text, namespaces = "history not fetched from Prometheus, trying again", len(self._pending)
        self._state.report(text, cause=reason, reason=reason, error=error, namespaces=namespaces)

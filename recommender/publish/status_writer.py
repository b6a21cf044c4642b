"""Writes the statuses that are due: some at a time, within one interval."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from common.api.autoscaling import VerticalPodAutoscaler
from common.errors import DecodeError, KubeError
from common.kube.endpoints import VPAS
from recommender.concurrency import run_concurrently
from recommender.metrics import RecommenderMetrics
from recommender.publish.status_decision import PublishingSettings, StatusDecision
from recommender.publish.status_store import StatusStore
from recommender.sources.conversion import vpa_key
from recommender.write_failures import WriteFailures

WriteResult = Callable[[StatusDecision, VerticalPodAutoscaler], None]
"""Called with a decision, and with the VPA as the API server answered the write of its status."""


class StatusWriter:
    """Writes statuses, and counts and logs those that fail."""

    def __init__(
        self, store: StatusStore, *, settings: PublishingSettings, metrics: RecommenderMetrics
    ) -> None:
        self._store = store
        self._settings = settings
        self._errors = metrics.object_errors
        self._failures = WriteFailures("status", metrics)

    async def write(
        self, decisions: AsyncGenerator[StatusDecision, None], written: WriteResult
    ) -> None:
        """Write the statuses of ``decisions``, each as soon as it is decided.

        What can't be written within an interval is decided again in the next cycle; all decisions
        are made nevertheless.
        """

        async def write_one(decision: StatusDecision) -> None:
            with self._errors.around("write", VPAS.kind, *vpa_key(decision.vpa)):
                answer = await self._written(decision)
                if answer is not None:
                    written(decision, answer)

        seconds = self._settings.interval.total_seconds()
        async with aclosing(decisions):
            await run_concurrently(
                decisions, write_one, workers=self._settings.workers, seconds=seconds
            )
            async for _ in decisions:
                pass
        self._failures.report()

    async def _written(self, decision: StatusDecision) -> VerticalPodAutoscaler | None:
        """Write one status; None if it failed, or if the VPA is gone."""
        if decision.wanted is None:
            return None
        try:
            return await self._store.write(decision.vpa, decision.wanted)
        except (KubeError, DecodeError) as error:
            key = vpa_key(decision.vpa)
            self._failures.add(error, vpa=f"{key.namespace}/{key.name}")
            return None

"""Publication of estimates in the statuses of VPAs, if these differ.

Source: recommender.md sections 8 and 9.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from common.api.autoscaling import VerticalPodAutoscaler
from common.kube.endpoints import VPAS
from common.quantity import QuantityError
from common.read_model.explanation import RecommendationExplanation
from common.read_model.recommender import ContainerHistograms, VpaSummary
from common.runtime.clock import Clock
from recommender.estimate.vpa_estimates import VpaEstimate, estimate_vpas, vpa_batches
from recommender.metrics import RecommenderMetrics
from recommender.model.keys import VpaKey
from recommender.model.timestamps import instant
from recommender.model.usage import Usage
from recommender.publish.explanation import explanation
from recommender.publish.pod_limits import LimitSource
from recommender.publish.quota_limits import QuotaLimits
from recommender.publish.recommendation_quality import RecommendationQuality
from recommender.publish.status_decision import (
    DecisionContext,
    PublishingSettings,
    StatusDecision,
    VpaRecord,
    WriteDecision,
    after_write,
    clear_history_flags,
    decide,
    labels_of_unreadable,
    record_of,
)
from recommender.publish.status_writer import StatusWriter
from recommender.publish.summary import container_histograms, vpa_summary
from recommender.publish.vpa_limits import LimitTable
from recommender.sources.conversion import vpa_key
from recommender.sources.target_resolution import LoadedVpa

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Publisher:
    """Decides about the statuses of VPAs, and has those written that differ."""

    def __init__(
        self,
        writer: StatusWriter,
        usage: Usage,
        *,
        settings: PublishingSettings,
        fetching: Callable[[VpaKey], bool],
        quotas: QuotaLimits,
        limits: Sequence[LimitSource] = (),
        metrics: RecommenderMetrics,
        clock: Clock,
    ) -> None:
        """Initialize; ``fetching`` returns True while history of a VPA is being fetched.

        ``limits`` bound the pods of recommendations, in this order.
        """
        self._writer = writer
        self._usage = usage
        self._settings = settings
        self._fetching = fetching
        self._quotas = quotas
        self._limits = LimitTable(usage, limits)
        self._errors = metrics.object_errors
        self._clock = clock
        self._quality = RecommendationQuality(usage, metrics)
        self._records: dict[VpaKey, VpaRecord] = {}

    async def publish(self, vpas: Mapping[VpaKey, LoadedVpa], known: Sequence[VpaKey]) -> None:
        """Estimate and write the ``known`` VPAs, whose history is loaded.

        VPAs with the oldest last write come first. Their statuses are written while others are
        estimated.
        """
        for key in self._records.keys() - vpas.keys():
            del self._records[key]
        await asyncio.sleep(0)
        await self._quotas.begin_cycle(vpas)
        self._limits.begin(vpas)
        await asyncio.sleep(0)
        ordered = sorted(known, key=self._write_order)
        await asyncio.sleep(0)
        await self._writer.write(self._due(vpas, ordered), self._written)
        self._quality.report()

    def explain(self, loaded: LoadedVpa, *, held_up: str = "") -> RecommendationExplanation:
        """Explain the recommendation of a VPA, which is computed in the same way as for its status.

        ``held_up`` is the reason why nothing is written at present.

        Raises:
            QuantityError: a bound of the VPA's policy is not a quantity.
        """
        return self.explain_with_usage(loaded, held_up=held_up)[0]

    def explain_with_usage(
        self, loaded: LoadedVpa, *, held_up: str = ""
    ) -> tuple[RecommendationExplanation, tuple[ContainerHistograms, ...]]:
        """Return the same, and the histograms that it is based on.

        Raises:
            QuantityError: a bound of the VPA's policy is not a quantity.
        """
        key, now = vpa_key(loaded.vpa), self._clock.now()
        estimation = self._settings.estimation
        estimates = estimate_vpas(self._usage, (key,), estimation, instant(now))
        record = self._records.get(key) or VpaRecord(last_write=now, is_assumed=True)
        context = self._context(key, loaded, now)
        decision = decide(loaded, estimates.of(key), replace(record, cached=None), context)
        explained = explanation(loaded, estimates, decision, context, held_up=held_up)
        return explained, container_histograms(key, estimates, estimation, now)

    def summarize(self, vpa: VerticalPodAutoscaler, checkpointed_at: datetime | None) -> VpaSummary:
        """Return the row of a VPA in the read API."""
        return vpa_summary(
            vpa,
            self._usage,
            self._settings.estimation,
            checkpointed_at=checkpointed_at,
            now=self._clock.now(),
        )

    async def _due(
        self, vpas: Mapping[VpaKey, LoadedVpa], keys: Sequence[VpaKey]
    ) -> AsyncGenerator[StatusDecision, None]:
        """Decide about these VPAs, batch by batch; yield the decisions to write."""
        for batch in vpa_batches(self._usage, keys):
            now = self._clock.now()
            estimates = estimate_vpas(self._usage, batch, self._settings.estimation, instant(now))
            for key in batch:
                decision = None
                with self._errors.around("recommend", VPAS.kind, *key):
                    decision = self._decide(key, vpas[key], estimates.of(key), now)
                if decision is not None and decision.writing is WriteDecision.WRITTEN:
                    yield decision
            await asyncio.sleep(0)

    def _decide(
        self, key: VpaKey, loaded: LoadedVpa, estimate: VpaEstimate, now: datetime
    ) -> StatusDecision | None:
        record = self._records[key] = record_of(key, self._records.get(key), now)
        try:
            decision = decide(loaded, estimate, record, self._context(key, loaded, now))
        except QuantityError:  # in its policy; the loader has logged it
            self._records[key] = replace(record, cached=None)
            self._quality.count(labels_of_unreadable(loaded, self._usage.pod_count(key)))
            return None
        clear_history_flags(decision, self._usage.autoscalers[key].history_flags)
        compared = self._quality.decided(decision, key)
        if compared is not decision.record.compared:
            self._records[key] = replace(decision.record, compared=compared)
        return decision

    def _context(self, key: VpaKey, loaded: LoadedVpa, now: datetime) -> DecisionContext:
        return DecisionContext(
            usage=self._usage,
            settings=self._settings,
            fetching_history=self._fetching(key),
            now=now,
            quotas=self._quotas.of(key),
            limits=self._limits.of(key, loaded),
        )

    def _written(self, decision: StatusDecision, answer: VerticalPodAutoscaler) -> None:
        key, now = vpa_key(decision.vpa), self._clock.now()
        self._quality.written(decision, now)
        self._records[key] = after_write(
            decision, answer, self._records[key], now=now, settings=self._settings
        )

    def _write_order(self, key: VpaKey) -> tuple[datetime, VpaKey]:
        """Return the sort key: the last write; statuses not written by this process come first."""
        record = self._records.get(key)
        if record is None or record.is_assumed:
            return (_LONG_AGO, key)
        return (record.last_write, key)

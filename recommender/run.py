"""The recommender's cycle: load, ingest, recommend, write, checkpoint, collect garbage.

Source: recommender.md section 13; ``recommender.RunOnce``,
vertical-pod-autoscaler/pkg/recommender/routines/recommender.go.
"""

import asyncio
import logging
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.meta import ObjectMeta
from common.quantity import QuantityError
from common.read_model.explanation import RecommendationExplanation
from common.read_model.page import PassInfo, ReadMetadata
from common.read_model.recommender import ContainerHistograms, VpaDetail, VpaSummary
from common.runtime.clock import Clock, SetBack
from common.runtime.service import Background
from recommender.checkpoints.garbage_collection import CheckpointCollector
from recommender.checkpoints.loading import CheckpointLoading
from recommender.checkpoints.writing import CheckpointWriting
from recommender.metrics import RecommenderMetrics
from recommender.model.aggregate_compaction import compact
from recommender.model.expiry import collect, expire_loaded
from recommender.model.history_changes import keep_former_history
from recommender.model.keys import VpaKey
from recommender.model.timestamps import instant
from recommender.model.usage import Usage
from recommender.namespace_vpas import NamespaceVpas
from recommender.publish.explanation import Unexplained
from recommender.publish.publisher import Publisher
from recommender.publish.request_report import RequestReport
from recommender.sources.cluster import PodLoader, VpaLoader
from recommender.sources.informers import Informers
from recommender.sources.oom_ingestion import OomIngestion
from recommender.sources.prometheus_backfill import PrometheusBackfill
from recommender.sources.target_resolution import LoadedVpa
from recommender.sources.usage_ingestion import UsageIngestion
from recommender.vpa_table import VpaTable

logger = logging.getLogger(__name__)

_COLLECT_EVERY = timedelta(hours=1)


class Recommender:
    """The recommender; owns the model, which changes only under ``model_lock``.

    It has a collaborator for each step of a cycle, and an attribute for each value that one step
    passes to another. ``backfill`` fetches history from Prometheus in the background and merges
    it into the model between two cycles. It is None without Prometheus. ``namespace_vpas`` runs
    after a cycle that wrote. It is None without its flag.
    """

    def __init__(
        self,
        informers: Informers,
        usage: Usage,
        *,
        pods: PodLoader,
        vpas: VpaLoader,
        ingestion: UsageIngestion,
        ooms: OomIngestion,
        loading: CheckpointLoading,
        checkpointing: CheckpointWriting,
        collector: CheckpointCollector,
        publisher: Publisher,
        requests: RequestReport,
        backfill: PrometheusBackfill | None,
        namespace_vpas: NamespaceVpas | None,
        model_lock: asyncio.Lock,
        metrics: RecommenderMetrics,
        clock: Clock,
    ) -> None:
        self._informers = informers
        self._usage = usage
        self._pods = pods
        self._vpas = vpas
        self._ingestion = ingestion
        self._ooms = ooms
        self._loading = loading
        self._checkpointing = checkpointing
        self._collector = collector
        self._publisher = publisher
        self._requests = requests
        self._backfill = backfill
        self._namespace_vpas = namespace_vpas
        self._model_lock = model_lock
        self._metrics = metrics
        self._clock = clock
        self._loaded: dict[VpaKey, LoadedVpa] = {}
        self._unread: Collection[VpaKey] = ()  # VPAs with unread checkpoints
        self._complete: Collection[VpaKey] = ()  # VPAs whose checkpoints may be written
        self._collected: datetime | None = None
        self._was_fresh = True
        self._set_back = SetBack(clock)
        self.last_cycle: PassInfo | None = None
        self.vpa_table = VpaTable(0, (), self._summarize)

    @property
    def background(self) -> tuple[Background, ...]:
        """Return the tasks that run beside the cycle."""
        return () if self._backfill is None else (self._backfill.run,)

    async def start(self) -> None:
        """Read the history, once, before the first cycle; pods may not be listed yet.

        Raises:
            KubeError: the history could not be read; without it nothing may be written.
            DecodeError: the response is not a list of checkpoints.
        """
        await self._informers.wait_targets()
        self._loaded = await self._vpas.load(self._informers.vpas.snapshot.items())
        await self._loading.load(self._loaded.keys())

    async def run_once(self) -> None:
        """Run one cycle; an error of the API server affects only the object that it is about."""
        async with self._model_lock:
            began, at = asyncio.get_running_loop().time(), self._clock.now()
            complete = await self._cycle()
            if complete:
                took = asyncio.get_running_loop().time() - began
                number = self.vpa_table.number + 1
                self.vpa_table = VpaTable(number, tuple(self._loaded), self._summarize)
                self.last_cycle = PassInfo(number=number, at=at, seconds=round(took, 3))
        if complete and self._namespace_vpas is not None:
            await self._namespace_vpas.run_once()

    async def _cycle(self) -> bool:
        """Run the steps of a cycle; return False if the caches are stale, so it wrote nothing."""
        step = self._metrics.step
        with step("total"):
            self._watch_clock()
            fresh = self._informers.fresh  # checked again before anything is written
            with step("LoadVPAs"):
                self._loaded = await self._vpas.load(self._informers.vpas.snapshot.items())
            self._loading.start_over(self._informers.take_deleted())
            with step("LoadPods"):
                pods = self._informers.pods.snapshot
                self._ooms.of_replaced()
                vanished = await self._pods.load(pods, instant(self._clock.now()))
                await self._loading.resume()
            with step("LoadMetrics"):
                await self._ingestion.usage()
                temporary = self._ooms.of_all()
                self._metrics.aggregates.set(self._usage.aggregate_count())
            await asyncio.sleep(0)
            with step("DeleteRemovedPods"):
                for key in vanished | temporary:
                    self._usage.remove_pod(key)
                keep_former_history(self._usage)
            if not self._check_caches(fresh_before=fresh):
                return False
            unknown = await self._loading.load_late(self._loaded.keys())
            expire_loaded(self._usage, self._expiry_time(self._clock.now()))
            self._unread = unknown
            known = [key for key in self._loaded if key not in unknown]
            self._complete = complete = self._request_backfill(known, unknown)
            await asyncio.sleep(0)
            # A status write without an answer must not delay checkpoints.
            async with asyncio.TaskGroup() as writing:
                writing.create_task(self._publish(known))
                writing.create_task(self._keep_history(complete))
            with step("GarbageCollect"):
                await self._collect_usage()
            await self._requests.report(self._loaded)
            self._metrics.last_success.set(self._clock.now().timestamp())
        return True

    async def end(self, within: timedelta) -> None:
        """Write the checkpoints that aren't stored yet, most important first (X124)."""
        async with self._model_lock:
            await self._checkpointing.write_last(self._complete, within)

    def explain(self, namespace: str, name: str) -> RecommendationExplanation | Unexplained:
        """Explain the recommendation of a VPA, from the state after the last cycle."""
        key, vpa = VpaKey(namespace, name), self._informers.vpas.get(namespace, name)
        loaded = self._loaded.get(key)
        if self._collected is None:
            return Unexplained(503, "no cycle has ended yet, so nothing is recommended")
        if vpa is None:
            return Unexplained(404, f"there is no VPA {namespace}/{name}")
        if loaded is None or key not in self._usage.autoscalers:
            return Unexplained(404, self._vpas.why_not_loaded(vpa))
        held_up = self._held_up(key)
        try:
            return self._publisher.explain(loaded.with_status(vpa.status), held_up=held_up)
        except QuantityError as error:
            return Unexplained(422, f"VPA {namespace}/{name}: its policy can't be read: {error}")

    def detail(self, namespace: str, name: str, metadata: ReadMetadata) -> VpaDetail | None:
        """Return a VPA with its explanation and histograms; None: no cycle has handled it."""
        key, unexplained = VpaKey(namespace, name), None
        loaded = self._loaded.get(key)
        if self.last_cycle is None or loaded is None or key not in self._usage.autoscalers:
            return None
        explained, histograms = None, tuple[ContainerHistograms, ...]()
        held_up = self._held_up(key)
        vpa = self._informers.vpas.get(namespace, name) or loaded.vpa
        try:
            current = loaded.with_status(vpa.status)
            explained, histograms = self._publisher.explain_with_usage(current, held_up=held_up)
        except QuantityError as error:
            unexplained = f"its policy can't be read: {error}"
        return VpaDetail(
            metadata=metadata,
            summary=self._summarize(key),
            explanation=explained,
            unexplained=unexplained,
            containers=histograms,
        )

    def _summarize(self, key: VpaKey) -> VpaSummary:
        vpa = self._informers.vpas.get(key.namespace, key.name)
        if vpa is None:  # deleted since the cycle
            vpa = VerticalPodAutoscaler(metadata=ObjectMeta(namespace=key.namespace, name=key.name))
        return self._publisher.summarize(vpa, self._checkpointing.stored_at(key))

    def _held_up(self, key: VpaKey) -> str:
        """Return the reason why the status of a VPA isn't written at present; empty: none."""
        if key in self._unread:
            return "its checkpoints can't be read"
        return "" if self._was_fresh else "the caches don't follow the API server"

    async def _publish(self, known: Sequence[VpaKey]) -> None:
        with self._metrics.step("UpdateVPAs"):
            await self._publisher.publish(self._loaded, known)

    async def _keep_history(self, complete: Collection[VpaKey]) -> None:
        with self._metrics.step("MaintainCheckpoints"):
            await self._checkpointing.write_all(complete)
            await self._collector.collect_when_due(self._informers.vpas)

    def _watch_clock(self) -> None:
        behind = self._set_back.measure()
        if behind:
            self._metrics.clock_set_back.inc()
            extra = {"by": behind}
            logger.warning("system clock moved backwards; timestamps may repeat", extra=extra)

    def _check_caches(self, *, fresh_before: bool) -> bool:
        """Return False, and log and count that, while the caches are stale."""
        fresh = fresh_before and self._informers.fresh
        if not fresh:
            self._metrics.cycles_without_writes.inc()
        if fresh != self._was_fresh:
            self._was_fresh = fresh
            if fresh:
                logger.info("caches follow the API server again, recommendations go on")
            else:
                logger.warning("nothing is written until the caches follow the API server again")
        return fresh

    def _request_backfill(
        self, known: Sequence[VpaKey], unknown: Collection[VpaKey]
    ) -> Sequence[VpaKey]:
        """Request history from Prometheus; return the VPAs whose checkpoints may be written.

        Request nothing for a namespace with unread checkpoints: their contents would count twice.
        A checkpoint states that it covers all earlier usage. So write none for a VPA whose
        history is being fetched, unless each of its containers has a checkpoint already.
        """
        backfill, usage = self._backfill, self._usage
        if backfill is None:
            return known
        unread = {key.namespace for key in unknown}
        wanted = [key for key in known if key.namespace not in unread]
        backfill.request(wanted, self._loading.learnt_until)
        return [
            key
            for key in known
            if not backfill.fetching(key)
            or usage.autoscalers[key].loaded.keys()
            >= {group.container for group in usage.groups(key)}
        ]

    # Collect garbage

    def _expiry_time(self, now: datetime) -> int:
        """Return the instant from which the age of usage counts: not after the newest usage (X98).

        Otherwise a clock that is days ahead, or a source without data for days, would expire all
        history.
        """
        newest = self._ingestion.newest
        return 0 if newest is None else instant(min(now, newest))

    async def _collect_usage(self) -> None:
        now = self._clock.now()
        before = self._collected
        if before is not None and timedelta() <= now - before < _COLLECT_EVERY:
            return
        self._collected = now
        contributive = {
            key for key, loaded in self._loaded.items() if not loaded.resolution.unsupported
        }
        collected = 0
        for count in collect(self._usage, self._expiry_time(now), contributive):
            collected += count
            await asyncio.sleep(0)
        if collected:
            logger.info("aggregates forgotten", extra={"count": collected})
        for _ in compact(self._usage):
            await asyncio.sleep(0)

"""The recommender's model with the inputs of a process: caches, usage, OOM kills, collection.

There is no API server. The test puts watch events into the caches, and provides its answers.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

import msgspec
import numpy as np

from common.api.autoscaling import CheckpointStatus, ContainerPolicy
from common.api.core import Event
from common.api.metrics import PodMetrics
from common.kube.client import KubeClient
from common.kube.connection import Connection
from common.kube.watch import EventType, WatchEvent
from common.labels import NOTHING, from_map
from fixed_clock import FixedClock
from recommender.checkpoints.codec import decode, encode
from recommender.checkpoints.loading import CheckpointLoading
from recommender.checkpoints.schedule import CheckpointSchedule
from recommender.metrics import RecommenderMetrics
from recommender.model.aggregate_compaction import compact
from recommender.model.aggregates import Aggregates, AggregationRules, HalfLives
from recommender.model.expiry import collect
from recommender.model.keys import VpaKey
from recommender.model.oom_outcome import OomOutcome
from recommender.model.running_windows import SavedWindows, WindowRestorer, running_windows
from recommender.model.timestamps import instant
from recommender.model.usage import Usage
from recommender.sources.cached_pod import CachedPod
from recommender.sources.cluster import PodLoader
from recommender.sources.conversion import container_rule
from recommender.sources.fetch_result import FetchOutcome, FetchResult
from recommender.sources.informers import Informers
from recommender.sources.oom_ingestion import OomIngestion
from recommender.sources.usage_ingestion import UsageIngestion


@dataclass
class FixedUsage:
    """A source of usage with values that a test sets."""

    metrics: Sequence[PodMetrics] = ()

    async def fetch(self, namespaces: Collection[str]) -> FetchResult:
        return FetchResult(metrics=tuple(self.metrics), answers=(FetchOutcome(place=""),))


@dataclass
class Process:
    """One run of the process."""

    clock: FixedClock
    defaults: AggregationRules
    half_life: timedelta
    metrics: RecommenderMetrics = field(default_factory=RecommenderMetrics)
    learnt_until: dict[tuple[VpaKey, str], datetime] = field(default_factory=dict)

    def __post_init__(self) -> None:
        client = KubeClient(Connection("http://127.0.0.1:1"), user_agent="test", qps=0, burst=1)
        self.informers = Informers(client, namespace="", errors=self.metrics.object_errors)
        half_lives = HalfLives(cpu=self.half_life, memory=self.half_life)
        self.usage = Usage(defaults=self.defaults, half_lives=half_lives)
        self._source = FixedUsage()
        self._pods = PodLoader(self.usage, memory_saver=False, metrics=self.metrics)
        self._ingestion = UsageIngestion(
            self.informers, self.usage, source=self._source, metrics=self.metrics, clock=self.clock
        )
        self._ooms = OomIngestion(
            self.informers,
            self.usage,
            cast("CheckpointLoading", self),  # has learnt_until
            CheckpointSchedule(self.clock),
            memory_saver=False,
            metrics=self.metrics,
            clock=self.clock,
        )
        self._version = 0

    def tell_pod(self, kind: EventType, pod: Mapping[str, Any]) -> None:
        found = msgspec.convert(pod, CachedPod)
        self.informers.pods._apply(self._event(kind, found))

    def tell_eviction(self, event: Mapping[str, Any]) -> None:
        found = msgspec.convert(event, Event)
        self.informers._evictions._apply(self._event(EventType.ADDED, found))

    def _event(self, kind: EventType, found: Any) -> WatchEvent[Any]:
        self._version += 1
        meta = msgspec.structs.replace(found.metadata, resource_version=str(self._version))
        found = msgspec.structs.replace(found, metadata=meta)
        return WatchEvent(kind, meta.namespace, meta.name, meta.resource_version, found)

    def put_vpa(
        self,
        key: VpaKey,
        selector: Mapping[str, str] | None,
        policies: Sequence[Mapping[str, Any]],
    ) -> None:
        rules = tuple(
            container_rule(msgspec.convert(one, ContainerPolicy), per_vpa_config=True)
            for one in policies
        )
        matching = NOTHING if selector is None else from_map(selector)
        self.usage.put_autoscaler(key, matching, rules)

    async def cycle(self, metrics: Sequence[Mapping[str, Any]]) -> None:
        """Run a cycle as ``recommender.run`` does, without reading or writing objects."""
        self._source.metrics = msgspec.convert(metrics, list[PodMetrics])
        pods = self.informers.pods.snapshot
        self._ooms.of_replaced()
        vanished = await self._pods.load(pods, instant(self.clock.now()))
        await self._ingestion.usage()
        passing = self._ooms.of_all()
        for key in vanished | passing:
            self.usage.remove_pod(key)

    def collect(self, resolved: Collection[VpaKey], *, retires: bool) -> None:
        sum(collect(self.usage, instant(self.clock.now()), set(resolved)))
        for _ in compact(self.usage) if retires else ():
            pass

    def merged(self, key: VpaKey) -> dict[str, tuple[Aggregates, int]]:
        """Return a table of aggregates and the row in it, by container name."""
        groups = self.usage.groups(key)
        table = self.usage.aggregates.merged([group.rows for group in groups])
        return {group.container: (table, row) for row, group in enumerate(groups)}

    def checkpoints(self, key: VpaKey) -> dict[str, CheckpointStatus]:
        groups = self.usage.groups(key)
        table = self.usage.without_open_peaks(groups, instant(self.clock.now()))
        histories = table.save(np.arange(len(groups)))
        return {
            group.container: encode(history, self.clock.now())
            for group, history in zip(groups, histories, strict=True)
        }

    def load(self, key: VpaKey, checkpoints: Mapping[str, CheckpointStatus]) -> None:
        for container, status in checkpoints.items():
            self.usage.load_history(key, container, decode(status))
            if status.last_update_time is not None:
                self.learnt_until[key, container] = status.last_update_time

    def windows(self, key: VpaKey) -> list[SavedWindows]:
        """Return the running memory windows of a VPA's containers, saved beside checkpoints."""
        groups, now = self.usage.groups(key), instant(self.clock.now())
        found = running_windows(self.usage, groups, self.usage.open_peaks(now))
        return [
            SavedWindows(key, group.container, windows)
            for group, windows in zip(groups, found, strict=True)
        ]

    async def resume(self, left: Sequence[SavedWindows]) -> None:
        """Load the pods, and resume their memory windows (Q4)."""
        now = instant(self.clock.now())
        await self._pods.load(self.informers.pods.snapshot, now)
        WindowRestorer(self.usage).resume(left, now)

    def kills(self) -> dict[str, int]:
        """Return the number of recorded kills, and of discarded ones by reason."""
        names = [f"vpa_recommender_oom_{what}_total" for what in ("seen", "recorded", "discarded")]
        found = {
            sample.labels.get("reason", sample.name.split("_")[-2]): int(sample.value)
            for metric in self.metrics.registry.restricted_registry(names).collect()
            for sample in metric.samples
        }
        seen = found.pop("seen")
        assert seen == sum(found.values())
        assert found.keys() == set(OomOutcome)
        return {outcome: count for outcome, count in found.items() if count}

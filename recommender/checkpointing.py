"""When which checkpoint is read, written and collected."""

import asyncio
import logging
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

import numpy as np

from common.api.autoscaling import CheckpointStatus, VerticalPodAutoscaler
from common.errors import DecodeError, KubeError, UnreachableError
from common.kube.cache import Cache
from common.runtime.clock import Clock
from recommender.checkpoints import encode, oldest_first
from recommender.instants import NEVER, instant
from recommender.metrics import Metrics
from recommender.model.keys import VpaKey
from recommender.model.usage import Usage
from recommender.recommend import living
from recommender.refusals import Refusals
from recommender.sources.checkpoint_store import CheckpointStore
from recommender.workers import sliced, spread

logger = logging.getLogger(__name__)

_SLICE = 250  # VPAs, or loaded checkpoints, before other tasks get their turn

Encoded = dict[VpaKey, list[tuple[str, CheckpointStatus]]]


class Checkpointing:
    """Keeps the history of the model in the API server."""

    def __init__(
        self,
        usage: Usage,
        store: CheckpointStore,
        *,
        ignored_namespaces: Collection[str],
        workers: int,
        timeout: timedelta,
        collect_every: timedelta,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._usage = usage
        self._store = store
        self._ignored = ignored_namespaces
        self._workers = workers
        self._timeout = timeout
        self._collect_every = collect_every
        self._clock = clock
        self._written: dict[VpaKey, int] = {}  # when, as an instant
        self._read: set[VpaKey] = set()  # VPAs whose checkpoints were looked for
        self._trouble = ""
        self._refusals = Refusals("checkpoint", metrics)
        self._collected = clock.now()
        self.learnt_until: dict[tuple[VpaKey, str], datetime] = {}

    async def load(self, vpas: Collection[VpaKey], *, namespace: str = "") -> None:
        """Take the history of these VPAs into the model; ``namespace`` is theirs, if it is one.

        Raises:
            KubeError: the checkpoints can't be listed.
            DecodeError: the answer is no list.
        """
        histories = await self._store.load(vpas, namespace=namespace)
        for part in sliced(histories, _SLICE):
            for key, container, history, updated in part:
                self._usage.load_history(key, container, history)
                if updated is not None:
                    self.learnt_until[key, container] = updated
            await asyncio.sleep(0)
        self._read.update(vpas)
        extra = {"vpas": len(vpas), "checkpoints": len(histories)}
        logger.info("history loaded", extra=extra)

    async def load_late(self, vpas: Collection[VpaKey]) -> frozenset[VpaKey]:
        """Load what VPAs have that weren't there before; returns those whose history is unknown.

        Of them nothing may be written: what we know might be a small part of what is stored.
        """
        late = frozenset(vpas) - self._read
        if not late:
            return late
        try:
            namespaces = {key.namespace for key in late}
            await self.load(late, namespace=namespaces.pop() if len(namespaces) == 1 else "")
        except (KubeError, DecodeError) as error:
            if str(error) != self._trouble and not isinstance(error, UnreachableError):
                self._trouble = str(error)
                extra = {"vpas": len(late), "error": str(error)}
                logger.warning("history of new VPAs not loaded, trying again", extra=extra)
            return late
        self._trouble = ""
        return frozenset()

    async def write_all(self, vpas: Collection[VpaKey]) -> None:
        """Write what changed, VPAs that waited longest first, as far as the time goes."""
        self._store.forget(vpas)
        self._written = {key: self._written.get(key, NEVER) for key in vpas}
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout.total_seconds()
        for keys in sliced(oldest_first(self._written), _SLICE):
            if not await self._write_some(keys, seconds=max(deadline - loop.time(), 0.0)):
                logger.debug("not all checkpoints written, the others come first next time")
                break
        self._refusals.settle()

    async def collect_when_due(self, vpas: Cache[VerticalPodAutoscaler]) -> None:
        """Delete the checkpoints of VPAs that are gone, every now and then."""
        now = self._clock.now()
        if now - self._collected < self._collect_every:
            return
        self._collected = now
        self._forget_removed()
        try:
            collected = await self._store.collect(
                lambda key: vpas.get(key.namespace, key.name), ignored=self._ignored
            )
        except (KubeError, DecodeError) as error:
            logger.warning("checkpoints not collected", extra={"error": str(error)})
            return
        if collected:
            logger.info("checkpoints without a VPA deleted", extra={"count": collected})

    def _forget_removed(self) -> None:
        """Should such a VPA come back after all, its history is read again."""
        removed = self._read - self._usage.autoscalers.keys()
        for key in removed:
            self._usage.forget_history(key)
        self._read -= removed
        self.learnt_until = {
            place: until for place, until in self.learnt_until.items() if place[0] not in removed
        }

    async def _write_some(self, keys: Sequence[VpaKey], *, seconds: float) -> bool:
        encoded = self._encode(keys)

        async def write(key: VpaKey) -> None:
            for container, status in encoded[key]:
                await self._write(key, container, status)

        return await spread(keys, write, workers=self._workers, seconds=seconds)

    def _encode(self, keys: Sequence[VpaKey]) -> Encoded:
        """What a checkpoint of each container of these VPAs would be now."""
        now = self._clock.now()
        groups = [group for key in keys for group in living(self._usage, key, instant(now))]
        merged = self._usage.without_open_peaks(groups, instant(now))
        encoded: Encoded = {key: [] for key in keys}
        histories = merged.save(np.arange(len(groups)))
        for group, history in zip(groups, histories, strict=True):
            encoded[group.vpa].append((group.container, encode(history, now)))
        return encoded

    async def _write(self, key: VpaKey, container: str, status: CheckpointStatus) -> None:
        try:
            await self._store.write(key, container, status)
        except (KubeError, DecodeError) as error:
            self._refusals.add(error, vpa=f"{key.namespace}/{key.name}", container=container)
        else:
            self._written[key] = instant(self._clock.now())

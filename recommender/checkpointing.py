"""When which checkpoint is read, written and collected."""

import asyncio
import logging
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from common.api.autoscaling import CheckpointStatus, VerticalPodAutoscaler
from common.errors import DecodeError, KubeError, UnreachableError
from common.kube.cache import Cache
from common.runtime.clock import Clock
from recommender.checkpoints import LONGEST_LAG, encode, lag, oldest_first
from recommender.instants import NEVER, instant
from recommender.metrics import Metrics
from recommender.model.aggregates import History
from recommender.model.keys import VpaKey
from recommender.model.usage import Usage
from recommender.recommend import living
from recommender.refusals import Refusals
from recommender.sources.checkpoint_store import CheckpointStore
from recommender.workers import sliced, spread

logger = logging.getLogger(__name__)

_SLICE = 100  # VPAs, or loaded checkpoints, before other tasks get their turn


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Encoded:
    vpa: VpaKey
    statuses: Mapping[str, CheckpointStatus]  # by container
    lag: timedelta  # for how long they do


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
        self._due: dict[VpaKey, int] = {}  # when they are to be written, as an instant
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
                self._expect(key, history)
                if updated is not None:
                    self.learnt_until[key, container] = updated
            await asyncio.sleep(0)
        self._read.update(vpas)
        extra = {"vpas": len(vpas), "checkpoints": len(histories)}
        logger.info("history loaded", extra=extra)

    def _expect(self, key: VpaKey, history: History) -> None:
        """What was just loaded is written again after a while, not all of it at once."""
        phase = zlib.crc32("/".join(key).encode()) / 2**32
        due = instant(self._clock.now() + lag(history) * phase)
        self._due[key] = min(due, self._due.get(key, due))

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
        """Write what changed and is due, what waited longest first, as far as the time goes."""
        self._due = {key: self._due.get(key, NEVER) for key in vpas}
        self._store.forget(self._due.keys())
        now = instant(self._clock.now())
        due = oldest_first({key: at for key, at in self._due.items() if at <= now})
        seconds = self._timeout.total_seconds()
        if not await spread(
            self._encoded(due), self._write, workers=self._workers, seconds=seconds
        ):
            logger.debug("not all checkpoints written, the others come first next time")
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

    def _encoded(self, keys: Sequence[VpaKey]) -> Iterator[_Encoded]:
        """What the checkpoints of these VPAs would be; made up only as far as it is asked for."""
        now = instant(self._clock.now())
        peaks = self._usage.open_peaks(now)
        for part in sliced(keys, _SLICE):
            moment = self._clock.now()
            living_ones = {key: living(self._usage, key, now) for key in part}
            groups = [group for mine in living_ones.values() for group in mine]
            merged = self._usage.without_peaks(groups, peaks)
            histories = iter(merged.save(np.arange(len(groups))))
            for key, mine in living_ones.items():
                kept = {group.container: next(histories) for group in mine}
                yield _Encoded(
                    vpa=key,
                    statuses={name: encode(history, moment) for name, history in kept.items()},
                    lag=min(map(lag, kept.values()), default=LONGEST_LAG),
                )

    async def _write(self, encoded: _Encoded) -> None:
        """Write the checkpoints of one VPA; it is due again soon if one of them fails."""
        key, is_fine = encoded.vpa, True
        for container, status in encoded.statuses.items():
            try:
                await self._store.write(key, container, status)
            except (KubeError, DecodeError) as error:
                is_fine = False
                self._refusals.add(error, vpa=f"{key.namespace}/{key.name}", container=container)
        if is_fine:
            self._due[key] = instant(self._clock.now() + encoded.lag)

"""When which checkpoint is read, written and collected."""

import asyncio
import logging
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np

from common.api.autoscaling import VerticalPodAutoscaler
from common.errors import DecodeError, KubeError, UnreachableError
from common.kube.cache import Cache
from common.kube.endpoints import CHECKPOINTS
from common.labels import NOTHING
from common.runtime.clock import Clock
from recommender.checkpoints import LONGEST_LAG, lag, oldest_first
from recommender.instants import NEVER, instant, span
from recommender.metrics import Metrics
from recommender.model.aggregates import History
from recommender.model.joining import take_in
from recommender.model.keys import VpaKey
from recommender.model.memory_peaks import OpenPeaks
from recommender.model.running import Left, Resuming, running_windows
from recommender.model.usage import Group, Usage
from recommender.parts import parts
from recommender.recommend import living
from recommender.refusals import Refusals
from recommender.running_windows import NONE, decode_windows, encode_windows
from recommender.sources.checkpoint_garbage import CheckpointGarbage
from recommender.sources.checkpoint_store import CheckpointStore, Draft, Found, Outcome
from recommender.workers import sliced, spread

logger = logging.getLogger(__name__)

_SLICE = 100  # VPAs to go on with, or loaded checkpoints, before other tasks get their turn
_CALM = timedelta(minutes=10)  # without a write of somebody else


@dataclass(slots=True, kw_only=True, eq=False)
class _Round:
    """The checkpoints of one VPA in one cycle."""

    vpa: VpaKey
    lag: timedelta  # for how long they do
    left: int  # containers
    is_fine: bool = True


@dataclass(slots=True, kw_only=True)
class _Rival:
    """Whether somebody else writes checkpoints, too."""

    latest: datetime | None = None
    told: bool = False
    now: list[str] = field(default_factory=list)  # in this cycle

    def settle(self, now: datetime) -> None:
        """All writes of the cycle are done: say what is new."""
        if self.now:
            self.latest = now
            if not self.told:
                extra = {"count": len(self.now), "checkpoint": self.now[0]}
                logger.warning("checkpoints are written by somebody else as well", extra=extra)
                self.told = True
        elif self.told and self.latest is not None and now - self.latest >= _CALM:
            logger.info("nobody else writes checkpoints any more")
            self.told = False
        self.now.clear()


class Checkpointing:
    """Keeps the history of the model in the API server."""

    def __init__(
        self,
        usage: Usage,
        store: CheckpointStore,
        garbage: CheckpointGarbage,
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
        self._garbage = garbage
        self._ignored = ignored_namespaces
        self._workers = workers
        self._timeout = timeout
        self._collect_every = collect_every
        self._clock = clock
        self._due: dict[VpaKey, int] = {}  # when they are to be written, as an instant
        self._read: set[VpaKey] = set()  # VPAs whose checkpoints were looked for
        self._left: dict[VpaKey, dict[str, bytes]] = {}  # running windows, not yet gone on with
        self._trouble = ""
        self._refusals = Refusals("checkpoint", metrics)
        self._errors = metrics.object_errors
        self._rival = _Rival()
        self._collected = clock.now()
        self.learnt_until: dict[tuple[VpaKey, str], datetime] = {}

    # Read

    async def load(self, vpas: Collection[VpaKey], *, namespace: str = "") -> None:
        """Take the history of these VPAs into the model; ``namespace`` is theirs, if it is one.

        Raises:
            KubeError: the checkpoints can't be listed.
            DecodeError: the answer is no list.
        """
        found = await self._store.load(vpas, namespace=namespace)
        now = instant(self._clock.now())
        for part in sliced(found, _SLICE):
            for one in part:
                with self._errors.around("checkpoint", CHECKPOINTS.kind, *one.vpa):
                    self._take(one, now)
            await asyncio.sleep(0)
        self._read.update(vpas)
        extra = {"vpas": len(vpas), "checkpoints": len(found)}
        logger.info("history loaded", extra=extra)

    def _take(self, one: Found, now: int) -> None:
        take_in(self._usage, one.vpa, one.container, one.history, now)
        self._expect(one.vpa, one.history)
        if one.sidecar:
            self._usage.sidecars.mark(one.vpa, one.container)
        if one.updated is not None:
            self.learnt_until[one.vpa, one.container] = one.updated
        if one.windows != NONE:
            self._left.setdefault(one.vpa, {})[one.container] = one.windows

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
        await self.resume()
        return frozenset()

    async def resume(self) -> None:
        """Let pods go on with the memory windows that checkpoints say they were in (Q4).

        To be called when the pods are there. A VPA that matches nothing has to wait: its pods
        may not even be followed then.
        """
        ready = [key for key in self._left if self._is_there(key)]
        if not ready:
            return
        resuming = Resuming(self._usage)
        now = instant(self._clock.now())
        for keys in sliced(ready, _SLICE):
            left = [one for key in keys for one in self._decoded(key, self._left.pop(key))]
            resuming.resume(left, now)
            await asyncio.sleep(0)
        if resuming.ignored:
            extra = {"windows": resuming.ignored}
            logger.warning("running memory windows ignored, they end too late", extra=extra)

    def _is_there(self, key: VpaKey) -> bool:
        vpa = self._usage.autoscalers.get(key)
        return vpa is not None and vpa.selector != NOTHING

    def _decoded(self, key: VpaKey, windows: Mapping[str, bytes]) -> Iterator[Left]:
        for container, text in windows.items():
            try:
                yield Left(key, container, decode_windows(text))
            except DecodeError as error:
                name = f"{key.namespace}/{key.name}"
                extra = {"vpa": name, "container": container, "why": str(error)}
                logger.warning("running memory windows of a checkpoint not loaded", extra=extra)

    # Write

    async def write_all(self, vpas: Collection[VpaKey]) -> None:
        """Write what changed and is due, what waited longest first, as far as the time goes."""
        self._due = {key: self._due.get(key, NEVER) for key in vpas}
        now = instant(self._clock.now())
        beyond = now + span(LONGEST_LAG)  # so a clock said that was put back since
        due = oldest_first(
            {
                key: at
                for key, at in self._due.items()
                if not now < at <= beyond and key not in self._left
            }
        )
        deadline = asyncio.get_running_loop().time() + self._timeout.total_seconds()
        await spread(self._in_time(due, deadline), self._write, workers=self._workers)
        self._refusals.settle()
        self._rival.settle(self._clock.now())

    def _in_time(self, due: Sequence[VpaKey], deadline: float) -> Iterator[tuple[_Round, Draft]]:
        """What to write: as many VPAs as there are workers, and more until the deadline.

        The containers of a VPA are written side by side; all of one that was begun with.
        """
        loop = asyncio.get_running_loop()
        for number, (key, drafts) in enumerate(self._drafts(due)):
            if number >= self._workers and loop.time() >= deadline:
                logger.debug("not all checkpoints written, the others come first next time")
                return
            longest = min((lag(draft.history) for draft in drafts), default=LONGEST_LAG)
            current = _Round(vpa=key, lag=longest, left=len(drafts))
            self._settle(current)
            yield from ((current, draft) for draft in drafts)

    def _drafts(self, keys: Sequence[VpaKey]) -> Iterator[tuple[VpaKey, list[Draft]]]:
        """What the checkpoints of these VPAs would be; made up only as far as it is asked for."""
        now = instant(self._clock.now())
        peaks = self._usage.open_peaks(now)
        for part in parts(self._usage, keys):
            living_ones = {key: living(self._usage, key, now) for key in part}
            groups = [group for mine in living_ones.values() for group in mine]
            drafts = iter(self._drafted(groups, peaks))
            for key, mine in living_ones.items():
                yield key, [next(drafts) for _ in mine]

    def _drafted(self, groups: Sequence[Group], peaks: OpenPeaks) -> list[Draft]:
        at = self._clock.now()
        merged = self._usage.without_peaks(groups, peaks)
        histories = merged.save(np.arange(len(groups)))
        windows = running_windows(self._usage, groups, peaks)
        known, matching = self._usage.sidecars, self._usage.matching
        sidecars = {key: known.to_mark(key, matching) for key in {group.vpa for group in groups}}
        return [
            Draft(
                vpa=group.vpa,
                container=group.container,
                history=history,
                windows=encode_windows(running),
                at=at,
                forgets=(group.vpa, group.container) in self._usage.forgotten,
                sidecar=group.container in sidecars[group.vpa],
            )
            for group, history, running in zip(groups, histories, windows, strict=True)
        ]

    async def _write(self, item: tuple[_Round, Draft]) -> None:
        """Write one checkpoint; those of its VPA are due again soon if one of them fails."""
        _, draft = item
        with self._errors.around("checkpoint", CHECKPOINTS.kind, *draft.vpa):
            await self._write_one(*item)

    async def _write_one(self, current: _Round, draft: Draft) -> None:
        key, container = draft.vpa, draft.container
        try:
            if not await self._written(draft):
                current.is_fine = False
        except (KubeError, DecodeError) as error:
            current.is_fine = False
            self._refusals.add(error, vpa=f"{key.namespace}/{key.name}", container=container)
        current.left -= 1
        self._settle(current)

    def _settle(self, current: _Round) -> None:
        if not current.left and current.is_fine:
            self._due[current.vpa] = instant(self._clock.now() + current.lag)

    async def _written(self, draft: Draft) -> bool:
        """Write a draft; once more, with what somebody else knows, if that one was faster."""
        written = await self._store.write(draft)
        if written.outcome is Outcome.OVERTAKEN:
            if written.found is not None:
                self._learn(written.found)
            again = self._again(draft)
            if again is None:
                return False
            written = await self._store.write(again)
        if written.outcome is Outcome.WRITTEN and draft.forgets:
            self._usage.forgotten.discard((draft.vpa, draft.container))
        return written.outcome is not Outcome.OVERTAKEN

    def _learn(self, found: Found) -> None:
        key, container = found.vpa, found.container
        self._rival.now.append(f"{key.namespace}/{key.name}-{container}")
        if key in self._usage.autoscalers:
            now = instant(self._clock.now())
            take_in(self._usage, key, container, found.history, now)

    def _again(self, draft: Draft) -> Draft | None:
        now = instant(self._clock.now())
        mine = [
            group
            for group in living(self._usage, draft.vpa, now)
            if group.container == draft.container
        ]
        return self._drafted(mine, self._usage.open_peaks(now))[0] if mine else None

    # Forget

    async def collect_when_due(self, vpas: Cache[VerticalPodAutoscaler]) -> None:
        """Delete the checkpoints of VPAs that are gone, every now and then."""
        now = self._clock.now()
        if timedelta() <= now - self._collected < self._collect_every:
            return
        self._collected = now
        self._forget_removed()
        try:
            collected = await self._garbage.collect(
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
            self._usage.sidecars.forget(key)
            self._left.pop(key, None)
        self._store.forget(removed)
        self._read -= removed
        self._usage.forgotten = {
            place for place in self._usage.forgotten if place[0] in self._usage.autoscalers
        }
        self.learnt_until = {
            place: until for place, until in self.learnt_until.items() if place[0] not in removed
        }

"""Writes of checkpoints as the history in the model changes.

Source: recommender.md section 11.2.
"""

import asyncio
import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from common.errors import DecodeError, KubeError
from common.kube.endpoints import CHECKPOINTS
from common.runtime.clock import Clock
from recommender.checkpoints.checkpoint_annotations import CheckpointDetails
from recommender.checkpoints.checkpoint_store import (
    CheckpointDraft,
    CheckpointStore,
    LoadedCheckpoint,
    WriteOutcome,
)
from recommender.checkpoints.codec import lag
from recommender.checkpoints.loading import CheckpointLoading
from recommender.checkpoints.schedule import CheckpointSchedule
from recommender.checkpoints.window_annotation import encode_windows
from recommender.concurrency import run_concurrently
from recommender.estimate.vpa_estimates import active_groups, vpa_batches
from recommender.metrics import RecommenderMetrics
from recommender.model.checkpoint_merge import merge_checkpoint
from recommender.model.keys import VpaKey
from recommender.model.memory_peaks import OpenPeaks
from recommender.model.running_windows import running_windows
from recommender.model.timestamps import instant
from recommender.model.usage import ContainerGroup, Usage
from recommender.state_log import StateLog
from recommender.write_failures import WriteFailures

logger = logging.getLogger(__name__)

_CALM = timedelta(minutes=10)  # without writes by another recommender, until it counts as gone


@dataclass(slots=True, kw_only=True, eq=False)
class _VpaWrite:
    """The checkpoints of one VPA in one cycle."""

    vpa: VpaKey
    lag: timedelta  # until the next write
    left: int  # containers still to write
    is_fine: bool = True


class CheckpointWriting:
    """Writes the history in the model to checkpoints."""

    def __init__(
        self,
        usage: Usage,
        loading: CheckpointLoading,
        schedule: CheckpointSchedule,
        store: CheckpointStore,
        *,
        workers: int,
        timeout: timedelta,
        metrics: RecommenderMetrics,
        clock: Clock,
    ) -> None:
        self._usage = usage
        self._loading = loading
        self._schedule = schedule
        self._store = store
        self._workers = workers
        self._timeout = timeout
        self._clock = clock
        self._failures = WriteFailures("checkpoint", metrics)
        self._errors = metrics.object_errors
        self._foreign: list[str] = []  # checkpoints that another recommender wrote in this cycle
        self._last_foreign = clock.now()
        self._other_writer = StateLog(
            logger, over="no other recommender writes checkpoints any more"
        )

    def stored_at(self, key: VpaKey) -> datetime | None:
        """Return when the oldest checkpoint of a VPA was written or found unchanged, if ever."""
        return self._schedule.stored_at(key)

    async def write_all(self, vpas: Collection[VpaKey]) -> None:
        """Write the changed checkpoints that are due, most important first, within the timeout."""
        await self._write_in_order(self._schedule.in_order(vpas), self._timeout)

    async def write_last(self, vpas: Collection[VpaKey], within: timedelta) -> None:
        """Write all changed checkpoints, due or not, before the process ends (X124)."""
        await self._write_in_order(self._schedule.in_order(vpas, all_of_them=True), within)

    async def _write_in_order(self, vpas: Sequence[VpaKey], within: timedelta) -> None:
        ready = [key for key in vpas if not self._loading.is_waiting(key)]
        deadline = asyncio.get_running_loop().time() + within.total_seconds()
        await run_concurrently(self._in_time(ready, deadline), self._write, workers=self._workers)
        self._failures.report()
        self._report_other_writer(self._clock.now())

    def _in_time(
        self, due: Sequence[VpaKey], deadline: float
    ) -> Iterator[tuple[_VpaWrite, CheckpointDraft]]:
        """Yield drafts for at least as many VPAs as there are workers, until the deadline.

        A VPA is never split: all its containers are written.
        """
        loop = asyncio.get_running_loop()
        for number, (key, drafts) in enumerate(self._drafts(due)):
            if number >= self._workers and loop.time() >= deadline:
                logger.debug("not all checkpoints written, the others come first next time")
                return
            # A VPA without containers is due again at once: its first one may appear at any time.
            shortest = min((lag(draft.history) for draft in drafts), default=timedelta())
            current = _VpaWrite(vpa=key, lag=shortest, left=len(drafts))
            self._finish(current)
            yield from ((current, draft) for draft in drafts)

    def _drafts(self, keys: Sequence[VpaKey]) -> Iterator[tuple[VpaKey, list[CheckpointDraft]]]:
        """Yield the drafts for these VPAs, computed in batches on demand."""
        now = instant(self._clock.now())
        peaks = self._usage.open_peaks(now)
        for batch in vpa_batches(self._usage, keys):
            active = {key: active_groups(self._usage, key, now) for key in batch}
            groups = [group for mine in active.values() for group in mine]
            drafts = iter(self._drafted(groups, peaks))
            for key, mine in active.items():
                yield key, [next(drafts) for _ in mine]

    def _drafted(self, groups: Sequence[ContainerGroup], peaks: OpenPeaks) -> list[CheckpointDraft]:
        at = self._clock.now()
        merged = self._usage.without_peaks(groups, peaks)
        histories = merged.save(np.arange(len(groups)))
        windows = running_windows(self._usage, groups, peaks)
        known, matching = self._usage.sidecars, self._usage.matching
        sidecars = {key: known.to_mark(key, matching) for key in {group.vpa for group in groups}}
        return [
            CheckpointDraft(
                vpa=group.vpa,
                container=group.container,
                history=history,
                details=CheckpointDetails(
                    target=self._usage.autoscalers[group.vpa].target,
                    windows=encode_windows(running),
                    sidecar=group.container in sidecars[group.vpa],
                ),
                at=at,
                forgets=group.container
                in self._usage.autoscalers[group.vpa].history_flags.forgotten,
            )
            for group, history, running in zip(groups, histories, windows, strict=True)
        ]

    async def _write(self, item: tuple[_VpaWrite, CheckpointDraft]) -> None:
        """Write one checkpoint; if that fails, all checkpoints of its VPA stay due."""
        current, draft = item
        key, container = draft.vpa, draft.container
        with self._errors.around("checkpoint", CHECKPOINTS.kind, *key):
            try:
                if not await self._written(draft):
                    current.is_fine = False
            except (KubeError, DecodeError) as error:
                current.is_fine = False
                self._failures.add(error, vpa=f"{key.namespace}/{key.name}", container=container)
            current.left -= 1
            self._finish(current)

    def _finish(self, current: _VpaWrite) -> None:
        if not current.left and current.is_fine:
            self._schedule.written(current.vpa, current.lag)

    async def _written(self, draft: CheckpointDraft) -> bool:
        """Write a draft; try once more, with its history, if another recommender wrote first."""
        written = await self._store.write(draft)
        if written.outcome is WriteOutcome.OVERTAKEN:
            if written.found is not None:
                self._learn(written.found)
            again = self._again(draft)
            if again is None:
                return False
            written = await self._store.write(again)
        if written.outcome is WriteOutcome.WRITTEN and draft.forgets:
            self._usage.autoscalers[draft.vpa].history_flags.forgotten.discard(draft.container)
        return written.outcome is not WriteOutcome.OVERTAKEN

    def _learn(self, found: LoadedCheckpoint) -> None:
        key, container = found.vpa, found.container
        self._foreign.append(f"{key.namespace}/{key.name}-{container}")
        autoscaler = self._usage.autoscalers.get(key)
        if autoscaler is not None and found.is_about(autoscaler.target):
            now = instant(self._clock.now())
            merge_checkpoint(self._usage, key, container, found.history, now)

    def _report_other_writer(self, now: datetime) -> None:
        if self._foreign:
            self._last_foreign = now
            text, count = "another recommender writes checkpoints, too", len(self._foreign)
            self._other_writer.report(text, count=count, checkpoint=self._foreign[0])
        elif now - self._last_foreign >= _CALM:
            self._other_writer.report("")
        self._foreign.clear()

    def _again(self, draft: CheckpointDraft) -> CheckpointDraft | None:
        now = instant(self._clock.now())
        mine = [
            group
            for group in active_groups(self._usage, draft.vpa, now)
            if group.container == draft.container
        ]
        return self._drafted(mine, self._usage.open_peaks(now))[0] if mine else None

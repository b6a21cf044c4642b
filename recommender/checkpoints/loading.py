"""History from checkpoints: at the start, for VPAs that come later, and after a deletion.

Source: recommender.md 11.3.
"""

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

from common.errors import DecodeError, KubeError, UnreachableError
from common.kube.endpoints import CHECKPOINTS
from common.labels import NOTHING
from common.runtime.clock import Clock
from recommender.checkpoints.running_windows import NONE, decode_windows
from recommender.checkpoints.schedule import CheckpointSchedule
from recommender.checkpoints.store import CheckpointStore, LoadedCheckpoint
from recommender.metrics import RecommenderMetrics
from recommender.model.autoscalers import EVERY_OTHER
from recommender.model.checkpoint_merge import merge_checkpoint
from recommender.model.history_changes import start_over
from recommender.model.keys import VpaKey
from recommender.model.running import SavedWindows, WindowRestorer
from recommender.model.timestamps import instant
from recommender.model.usage import Usage
from recommender.slices import in_slices
from recommender.state_log import StateLog

logger = logging.getLogger(__name__)

_SLICE = 100  # loaded checkpoints, or VPAs to go on with, before other tasks run


class CheckpointLoading:
    """Reads the checkpoints of a VPA when it comes, and when it gets another target."""

    def __init__(
        self,
        usage: Usage,
        store: CheckpointStore,
        schedule: CheckpointSchedule,
        *,
        metrics: RecommenderMetrics,
        clock: Clock,
    ) -> None:
        self._usage = usage
        self._store = store
        self._schedule = schedule
        self._errors = metrics.object_errors
        self._clock = clock
        self._read: dict[VpaKey, str] = {}  # the target whose checkpoints were looked for
        self._left: dict[VpaKey, dict[str, bytes]] = {}  # running windows, not yet gone on with
        self._trouble = StateLog(logger)
        self.learnt_until: dict[tuple[VpaKey, str], datetime] = {}

    def is_waiting(self, key: VpaKey) -> bool:
        """Return whether running windows wait for pods; until then checkpoints stay as they are."""
        return key in self._left

    async def load(self, vpas: Collection[VpaKey], *, namespace: str = "") -> None:
        """Take the history of these VPAs into the model; ``namespace`` is theirs, if it is one.

        Raises:
            KubeError: the checkpoints can't be listed.
            DecodeError: the answer is no list.
        """
        found = await self._store.load(vpas, namespace=namespace)
        self._forget(vpas)
        now = instant(self._clock.now())
        others: set[VpaKey] = set()
        for batch in in_slices(found, _SLICE):
            for one in batch:
                with self._errors.around("checkpoint", CHECKPOINTS.kind, *one.vpa):
                    if one.is_about(self._usage.autoscalers[one.vpa].target):
                        self._take(one, now)
                    else:
                        others.add(one.vpa)
                        self._usage.autoscalers[one.vpa].history_flags.outdated.add(EVERY_OTHER)
            await asyncio.sleep(0)
        self._read.update((key, self._usage.autoscalers[key].target) for key in vpas)
        extra = {"vpas": len(vpas), "checkpoints": len(found)}
        logger.info("history loaded", extra=extra)
        for key in sorted(others):
            place = {"vpa": f"{key.namespace}/{key.name}", "target": self._read[key]}
            logger.info("history starts over: the checkpoints are another target's", extra=place)

    async def load_late(self, vpas: Collection[VpaKey]) -> frozenset[VpaKey]:
        """Load what VPAs have that weren't there before, or that had another target.

        Returns those whose history is unknown: of them nothing may be written, for what we know
        might be a small part of what is stored. All VPAs but ``vpas`` are forgotten.
        """
        self._forget_all_but(vpas)
        autoscalers = self._usage.autoscalers
        late = frozenset(key for key in vpas if self._read.get(key) != autoscalers[key].target)
        if not late:
            return late
        try:
            namespaces = {key.namespace for key in late}
            await self.load(late, namespace=namespaces.pop() if len(namespaces) == 1 else "")
        except (KubeError, DecodeError) as error:
            if not isinstance(error, UnreachableError):  # the client reports it
                text = "history of new VPAs not loaded, trying again"
                self._trouble.report(text, cause=str(error), vpas=len(late), error=str(error))
            return late
        self._trouble.report("")
        await self.resume()
        return frozenset()

    def start_over(self, deleted: Collection[tuple[str, str]]) -> None:
        """Start the history of each container over whose checkpoint was deleted (X123).

        ``deleted`` are namespaces and names of checkpoints.
        """
        for place in self._store.places(deleted):
            key, container = place
            if key not in self._usage.autoscalers:
                continue
            start_over(self._usage, key, container, instant(self._clock.now()))
            self.learnt_until.pop(place, None)
            self._left.get(key, {}).pop(container, None)
            self._schedule.at_once(key)
            extra = {"vpa": f"{key.namespace}/{key.name}", "container": container}
            logger.info("history starts over: the checkpoint was deleted", extra=extra)

    def _take(self, one: LoadedCheckpoint, now: int) -> None:
        merge_checkpoint(self._usage, one.vpa, one.container, one.history, now)
        self._schedule.loaded(one.vpa, one.history)
        if one.details.sidecar:
            self._usage.sidecars.mark(one.vpa, one.container)
        if one.updated is not None:
            self.learnt_until[one.vpa, one.container] = one.updated
        if one.details.windows != NONE:
            self._left.setdefault(one.vpa, {})[one.container] = one.details.windows

    def _forget_all_but(self, vpas: Collection[VpaKey]) -> None:
        gone = self._read.keys() - frozenset(vpas)
        if gone:
            self._read = {key: read for key, read in self._read.items() if key not in gone}
            self._forget(gone)
            self._store.forget(gone)

    def _forget(self, vpas: Collection[VpaKey]) -> None:
        """Drop what was read of these VPAs and isn't in the model."""
        for key in vpas:
            self._left.pop(key, None)
        self.learnt_until = {
            place: until for place, until in self.learnt_until.items() if place[0] not in vpas
        }

    async def resume(self) -> None:
        """Let pods go on with the memory windows that checkpoints say they were in (Q4).

        To be called when the pods are there. A VPA that matches nothing has to wait: its pods
        may not even be followed then.
        """
        ready = [key for key in self._left if self._is_there(key)]
        if not ready:
            return
        restorer = WindowRestorer(self._usage)
        now = instant(self._clock.now())
        for keys in in_slices(ready, _SLICE):
            left = [one for key in keys for one in _decoded(key, self._left.pop(key))]
            restorer.resume(left, now)
            await asyncio.sleep(0)
        if restorer.ignored:
            extra = {"windows": restorer.ignored}
            logger.warning("running memory windows ignored, they end too late", extra=extra)

    def _is_there(self, key: VpaKey) -> bool:
        vpa = self._usage.autoscalers.get(key)
        return vpa is not None and vpa.selector != NOTHING


def _decoded(key: VpaKey, windows: Mapping[str, bytes]) -> Iterator[SavedWindows]:
    for container, text in windows.items():
        try:
            yield SavedWindows(key, container, decode_windows(text))
        except DecodeError as error:
            name = f"{key.namespace}/{key.name}"
            extra = {"vpa": name, "container": container, "why": str(error)}
            logger.warning("running memory windows of a checkpoint not loaded", extra=extra)

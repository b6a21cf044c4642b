"""Loading of history from checkpoints: at the start, for new VPAs, and for changed targets.

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
from common.runtime.pausing import pausing
from recommender.checkpoints.checkpoint_store import CheckpointStore, LoadedCheckpoint
from recommender.checkpoints.schedule import CheckpointSchedule
from recommender.checkpoints.window_annotation import NONE, decode_windows
from recommender.metrics import RecommenderMetrics
from recommender.model.autoscalers import EVERY_OTHER
from recommender.model.checkpoint_merge import merge_checkpoint
from recommender.model.history_changes import start_over
from recommender.model.keys import Place, VpaKey
from recommender.model.running_windows import SavedWindows, WindowRestorer
from recommender.model.timestamps import instant
from recommender.model.usage import Usage
from recommender.state_log import StateLog

logger = logging.getLogger(__name__)

_SLICE = 100  # loaded checkpoints, or VPAs with running windows, before other tasks run


class CheckpointLoading:
    """Loads the checkpoints of new VPAs, and of VPAs whose target changed."""

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
        self._read: dict[VpaKey, str] = {}  # the target whose checkpoints were loaded
        self._left: dict[VpaKey, dict[str, bytes]] = {}  # running windows that aren't restored yet
        self._trouble = StateLog(logger)
        self.learnt_until: dict[Place, datetime] = {}  # the times of loaded checkpoints

    def is_waiting(self, key: VpaKey) -> bool:
        """Return True while running windows wait for pods; don't write checkpoints before that."""
        return key in self._left

    async def load(self, vpas: Collection[VpaKey], *, namespace: str = "") -> None:
        """Load the history of these VPAs into the model.

        ``namespace`` is the namespace of all of them; empty if there are several.

        Raises:
            KubeError: the checkpoints can't be listed.
            DecodeError: the response is not a list.
        """
        found = await self._store.load(vpas, namespace=namespace)
        self._forget(vpas)
        now = instant(self._clock.now())
        others: set[VpaKey] = set()
        async for one in pausing(found, every=_SLICE):
            with self._errors.around("checkpoint", CHECKPOINTS.kind, *one.vpa):
                if one.is_about(self._usage.autoscalers[one.vpa].target):
                    self._take(one, now)
                else:
                    others.add(one.vpa)
                    self._usage.autoscalers[one.vpa].history_flags.outdated.add(EVERY_OTHER)
        self._read.update((key, self._usage.autoscalers[key].target) for key in vpas)
        extra = {"vpas": len(vpas), "checkpoints": len(found)}
        logger.info("history loaded", extra=extra)
        for key in sorted(others):
            place = {"vpa": f"{key.namespace}/{key.name}", "target": self._read[key]}
            logger.info("history starts over: the checkpoints are another target's", extra=place)

    async def load_late(self, vpas: Collection[VpaKey]) -> frozenset[VpaKey]:
        """Load the history of VPAs that are new or have another target; forget all but ``vpas``.

        Return the VPAs whose history could not be loaded. Nothing may be written for them, because
        more history may be stored than the model has.
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
        """Drop the history of containers whose checkpoint was deleted (X123).

        ``deleted`` has the namespaces and names of the checkpoints.
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
        self._schedule.loaded(one.vpa, one.history, one.updated)
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
        """Drop the windows and times of these VPAs that were loaded outside of the model."""
        for key in vpas:
            self._left.pop(key, None)
        self.learnt_until = {
            place: until for place, until in self.learnt_until.items() if place[0] not in vpas
        }

    async def resume(self) -> None:
        """Restore the running memory windows of pods from checkpoints (Q4).

        Call it after loading pods. The windows of a VPA whose selector is unknown wait, because its
        pods may not be tracked.
        """
        ready = [key for key in self._left if self._is_ready(key)]
        if not ready:
            return
        restorer = WindowRestorer(self._usage)
        now = instant(self._clock.now())
        for start in range(0, len(ready), _SLICE):
            keys = ready[start : start + _SLICE]
            left = [one for key in keys for one in _decoded(key, self._left.pop(key))]
            restorer.resume(left, now)
            await asyncio.sleep(0)
        if restorer.ignored:
            extra = {"windows": restorer.ignored}
            logger.warning("running memory windows ignored, they end too late", extra=extra)

    def _is_ready(self, key: VpaKey) -> bool:
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

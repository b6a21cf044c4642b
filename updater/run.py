"""When a pass runs, on which snapshot of the cluster, and what the next one remembers."""

import asyncio
import logging
from collections.abc import Collection
from datetime import timedelta
from functools import partial
from typing import Protocol

from common.kube.lease import AdmissionStatus, StatusLease
from common.kube.targets import Targets
from common.runtime.clock import Clock
from updater.execute import Executor, RateLimits, Replacements
from updater.metrics import UpdaterMetrics
from updater.pass_context import PassContext, Rules, Templates
from updater.pass_log import PassLog
from updater.preview import NotNow, PassPreview, preview_pass
from updater.snapshot.caches import Caches
from updater.snapshot.cluster_snapshot import ClusterSnapshot, acts, key_of
from updater.snapshot.selection import EVERYTHING, Scope
from updater.snapshot.snapshot_source import SnapshotSource
from updater.state import UpdaterState
from updater.update_pass import ReportingActuator, UpdatePass

logger = logging.getLogger(__name__)

_SHORTEST_PREVIEW_WAIT = 10.0  # seconds


class Admission(Protocol):
    """Reads whether the admission controller would patch a replacement."""

    async def __call__(self) -> AdmissionStatus:
        """Return the status of admission."""


async def always_ready() -> AdmissionStatus:
    """Return that admission is alive: the status Lease is not to be read."""
    return AdmissionStatus.ALIVE


def by_lease(lease: StatusLease, *, max_age: timedelta) -> Admission:
    """Return a reader of the status Lease, which is believed up to ``max_age``."""

    async def read() -> AdmissionStatus:
        return await lease.read(max_age=max_age)

    return read


class Updater:
    """Runs passes, one after the other, and owns the state between them.

    It has more than ten attributes because a preview needs the same state, snapshots and rules as
    a pass, and must not run beside one.
    """

    def __init__(
        self,
        *,
        caches: Caches,
        targets: Targets,
        admission: Admission,
        ignored_namespaces: Collection[str],
        rules: Rules,
        actuator: ReportingActuator,
        limits: RateLimits,
        metrics: UpdaterMetrics,
        clock: Clock,
        stop: asyncio.Event,
        replacements: Replacements | None = None,
    ) -> None:
        self._caches = caches
        self._admission = admission
        self._rules = rules
        self._reporter = actuator
        self._metrics = metrics
        self._clock = clock
        self._templates = replacements
        self._source = SnapshotSource(
            caches,
            targets,
            ignored_namespaces=ignored_namespaces,
            features=rules.features,
            interval=rules.interval,
            errors=metrics.object_errors,
        )
        self._new_executor = partial(
            Executor,
            live=caches,
            actuator=actuator,
            replacements=replacements,
            limits=limits,
            metrics=metrics,
            clock=clock,
            stop=stop,
        )
        self._log = PassLog()
        self._state = UpdaterState()
        self._running = asyncio.Lock()  # by a pass or a preview, first come first served
        self._previewing = False
        self.passes = 0  # that were begun

    async def run_once(self) -> None:
        """Run one pass. It does nothing while the caches don't follow the API server.

        Source: updater.md 2.
        """
        async with self._running:
            with self._metrics.timed("total"):
                await self._run()

    async def _run(self) -> None:
        seconds = self._rules.interval.total_seconds()
        if not self._is_fresh(fresh=await self._caches.check()):
            return
        deadline = asyncio.get_running_loop().time() + seconds
        timed = self._metrics.timed
        try:
            async with asyncio.timeout_at(deadline):
                admission = await self._admission()
                self._log.log_admission(admission)
                found = await self._source.take(owing=self._state.owing, timed=timed)
        except TimeoutError:
            logger.warning("pass skipped, looking at the cluster took too long")
            return
        if not self._is_fresh(fresh=self._caches.fresh):
            return  # the API server went away meanwhile
        self._log.log_skipped(found.skipped)
        self._log.log_deprecated(found.vpas)
        self.passes += 1
        current = UpdatePass(
            snapshot=found.snapshot,
            context=self._context(found.snapshot, admission, templates=self._templates),
            executor=self._new_executor(deadline=deadline),
            reporter=self._reporter,
            metrics=self._metrics,
        )
        with timed("EvictPods"):
            self._remember(await current.run(first=self.passes))

    def _remember(self, after: UpdaterState) -> None:
        """Keep what the next pass needs, of the VPAs that there are by now."""
        present = {vpa.metadata.uid: vpa for vpa in self._caches.vpas.snapshot.items()}
        self._state = after.about(present.keys())
        self._metrics.keep_only({key_of(vpa) for vpa in present.values()})
        breakers = self._state.breakers.items()
        self._metrics.publish_suspended(
            key_of(present[uid]) for uid, each in breakers if each.suspends and acts(present[uid])
        )

    def _is_fresh(self, *, fresh: bool) -> bool:
        self._log.log_freshness(fresh=fresh)
        return fresh

    def _context(
        self,
        snapshot: ClusterSnapshot,
        admission: AdmissionStatus,
        *,
        templates: Templates | None = None,
    ) -> PassContext:
        return PassContext.of(
            snapshot,
            self._state,
            rules=self._rules,
            now=self._clock.now(),
            admission_ready=admission.allows_eviction,
            errors=self._metrics.object_errors,
            templates=templates,
        )

    async def plan(self, scope: Scope = EVERYTHING) -> PassPreview | NotNow:
        """Return what a pass would decide now; nothing is done or remembered.

        It waits for the pass that is going on, or its state would be half a pass old. The next
        pass may have to wait for it, half an interval at most, and never for two in a row.
        """
        if self._previewing:
            return NotNow.PLANNING
        seconds = max(self._rules.interval.total_seconds(), _SHORTEST_PREVIEW_WAIT)
        self._previewing = True
        try:
            try:
                async with asyncio.timeout(seconds):
                    await self._running.acquire()
            except TimeoutError:
                return NotNow.UNDER_WAY
            try:
                async with asyncio.timeout(seconds / 2):
                    return await self._preview(scope)
            except TimeoutError:
                return NotNow.TOO_SLOW
            finally:
                self._running.release()
        finally:
            self._previewing = False

    async def _preview(self, scope: Scope) -> PassPreview | NotNow:
        if not await self._caches.check():
            return NotNow.NOT_FRESH
        admission = await self._admission()
        found = await self._source.without_memory().take(owing=self._state.owing, scope=scope)
        if not self._caches.fresh:
            return NotNow.NOT_FRESH
        context = self._context(found.snapshot, admission)
        return PassPreview(
            taken_at=context.now,
            admission=admission,
            vpas=[vpa for vpa in found.vpas if scope.covers(vpa)],
            snapshot=found.snapshot,
            skipped=found.skipped,
            decisions=await preview_pass(found.snapshot, context),
            pod_level=self._rules.pod_level,
        )

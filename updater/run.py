"""Runs passes on snapshots of the cluster, and keeps the state between them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime
from functools import partial
from itertools import chain
from typing import TypeAlias

from common.kube.lease import AdmissionStatus
from common.kube.targets import Targets
from common.read_model.page import PassInfo
from common.runtime.clock import Clock
from updater.action_history import ActionHistory
from updater.actuation import PodActuator, TemplatePods
from updater.capacity.capacity_requests import (
    NO_REQUESTS,
    CapacityMode,
    CapacityProvisioner,
    PassDemands,
)
from updater.capacity.detection import CapacityDetection, EffectiveMode
from updater.capacity.pass_rooms import PassRooms
from updater.execute import Executor, RateLimits
from updater.metrics import UpdaterMetrics
from updater.pass_context import PassContext, Rules, Templates
from updater.pass_log import PassLog
from updater.plan_table import PlanTable
from updater.preview import NotNow, PassPreview, preview_pass
from updater.resize.resize_rooms import ResizeRooms
from updater.snapshot.caches import Caches
from updater.snapshot.cluster_snapshot import ClusterSnapshot, acts, key_of
from updater.snapshot.selection import EVERYTHING, Scope
from updater.snapshot.snapshot_source import SnapshotSource
from updater.state import UpdaterState
from updater.update_pass import UpdatePass
from updater.usage_watch import UsageWatch
from updater.vpa_preflight import QuotaUse

logger = logging.getLogger(__name__)

_SHORTEST_PREVIEW_WAIT = 10.0  # seconds


Admission: TypeAlias = Callable[[], Awaitable[AdmissionStatus]]
"""Reads whether the admission controller would patch a replacement."""


async def always_ready() -> AdmissionStatus:
    """Report admission as alive, without reading its status Lease."""
    return AdmissionStatus.ALIVE


class Updater:
    """Runs passes and previews, one at a time, and keeps the state between passes."""

    def __init__(
        self,
        *,
        caches: Caches,
        targets: Targets,
        admission: Admission,
        ignored_namespaces: Collection[str],
        rules: Rules,
        actuator: PodActuator,
        limits: RateLimits,
        metrics: UpdaterMetrics,
        clock: Clock,
        stop: asyncio.Event,
        history: ActionHistory,
        usage: UsageWatch,
        replacements: TemplatePods | None = None,
        capacity: CapacityDetection | None = None,
        provisioner: CapacityProvisioner | None = None,
    ) -> None:
        self._caches = caches
        self._admission = admission
        self._rules = rules
        self._actuator = actuator
        self._metrics = metrics
        self._clock = clock
        self._templates = replacements
        self._capacity = capacity  # None: evictions need no room
        self._provisioner = provisioner  # None: capacity is never requested
        self._requests = NO_REQUESTS
        self._new_source = partial(
            SnapshotSource,
            caches,
            targets,
            ignored_namespaces=ignored_namespaces,
            features=rules.features,
            interval=rules.interval,
            errors=metrics.object_errors,
        )
        self._source = self._new_source()
        self._new_executor = partial(
            Executor,
            live=caches,
            actuator=actuator,
            replacements=replacements,
            limits=limits,
            metrics=metrics,
            history=history,
            clock=clock,
            stop=stop,
        )
        self._history = history
        self._usage = usage
        self._log = PassLog()
        self._state = UpdaterState()
        self._running = asyncio.Lock()  # held by a pass or a preview
        self._previewing = False
        self.passes = 0  # started so far
        self.last_pass: PassInfo | None = None
        self.last_plan = PlanTable()

    async def run_once(self) -> None:
        """Run one pass, unless the caches don't follow the API server.

        Source: updater.md 2.
        """
        async with self._running:
            with self._metrics.timed("total"):
                await self._run()

    async def _run(self) -> None:
        seconds = self._rules.interval.total_seconds()
        if not self._is_fresh(fresh=await self._caches.check()):
            return
        began = asyncio.get_running_loop().time()
        deadline = began + seconds
        timed = self._metrics.timed
        try:
            async with asyncio.timeout_at(deadline):
                admission = await self._admission()
                self._log.log_admission(admission)
                capacity = await self._capacity_mode()
                await self._usage.sample(self._state.watched, within=seconds / 4)
                found = await self._source.take(awaited=self._state.awaited, timed=timed)
        except TimeoutError:
            logger.warning("pass skipped, looking at the cluster took too long")
            return
        if not self._is_fresh(fresh=self._caches.fresh):
            return
        self._log.log_skipped(found.skipped)
        self._log.log_deprecated(found.vpas)
        self.passes += 1
        context = self._context(
            found.snapshot, admission, capacity=capacity, templates=self._templates
        )
        current = UpdatePass(
            context=context,
            executor=self._new_executor(deadline=deadline),
            actuator=self._actuator,
            metrics=self._metrics,
        )
        with timed("EvictPods"):
            self._remember(await current.run(first=self.passes))
        if self._provisioner is not None:
            complete = capacity.knows_demands and not current.executor.over
            wanted = self._demands(context.now, complete=complete)
            self._requests = await self._provisioner.reconcile(wanted, now=self._clock.now())
        self._metrics.last_success.set(self._clock.now().timestamp())
        self._history.note_resizes(self._caches.pods.get, self._state, now=self._clock.now())
        self.last_plan = PlanTable(
            self.passes,
            vpas=found.vpas,
            autoscaled=found.snapshot.autoscaled,
            skipped=found.skipped,
            state=self._state,
            pod_level=self._rules.pod_level,
        )
        took = asyncio.get_running_loop().time() - began
        self.last_pass = PassInfo(number=self.passes, at=context.now, seconds=round(took, 3))

    async def _capacity_mode(self) -> EffectiveMode:
        if self._capacity is None:
            return EffectiveMode(CapacityMode.OFF, "")
        nodes = self._caches.nodes
        return await self._capacity.refresh(
            nodes_fresh=nodes.fresh,
            may_list_nodes=nodes.synced or not nodes.answered,
            requests=None if self._provisioner is None else self._requests.unavailable,
        )

    def _demands(self, began: datetime, *, complete: bool) -> PassDemands:
        """Return the demands of the pass that began then."""
        state = self._state
        reserved = state.reservations.values()
        evicted = frozenset(each.workload for each in reserved if each.at >= began)
        return PassDemands(
            demands=tuple(chain.from_iterable(state.demands.values())),
            evicted=evicted,
            refused=state.refused_evictions,
            complete=complete,
        )

    @property
    def waits_for_room(self) -> bool:
        """Return whether some pod waited for room for its replacement in the last pass."""
        return self._state.waits_for_room

    def _remember(self, after: UpdaterState) -> None:
        """Keep the state for the next pass, without that of deleted VPAs."""
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
        capacity: EffectiveMode,
        templates: Templates | None = None,
    ) -> PassContext:
        now = self._clock.now()
        return PassContext(
            snapshot=snapshot,
            before=self._state,
            quotas=QuotaUse(snapshot.quotas),
            rooms=PassRooms.of(snapshot, self._state.reservations, now=now),
            resize_rooms=ResizeRooms(snapshot),
            rules=self._rules,
            now=now,
            admission_ready=admission.allows_eviction,
            errors=self._metrics.object_errors,
            templates=templates,
            capacity_mode=capacity.mode,
            awaits_nodes=capacity.awaits_nodes,
            capacity_fallback=capacity.fallback,
            capacity_requests=self._requests,
            memory_use=self._usage.use,
        )

    async def plan(self, scope: Scope = EVERYTHING) -> PassPreview | NotNow:
        """Return the decisions that a pass would make now, without effects.

        It waits for a running pass, and delays the next one by half an interval at most.
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
        # Its own source: a part of the cluster would replace what passes remember of all of it.
        found = await self._new_source().take(awaited=self._state.awaited, scope=scope)
        if not self._caches.fresh:
            return NotNow.NOT_FRESH
        capacity = await self._capacity_mode()
        context = self._context(found.snapshot, admission, capacity=capacity)
        return PassPreview(
            taken_at=context.now,
            admission=admission,
            vpas=[vpa for vpa in found.vpas if scope.covers(vpa)],
            snapshot=found.snapshot,
            skipped=found.skipped,
            decisions=await preview_pass(context),
            pod_level=self._rules.pod_level,
        )

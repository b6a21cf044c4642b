"""When a pass runs, on which picture of the cluster, and what the next one remembers."""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.kube.lease import AdmissionStatus, StatusLease
from common.kube.targets import Targets
from common.runtime.clock import Clock
from common.runtime.object_errors import ObjectErrors
from updater.execute import Executor, RateLimits, Replacements
from updater.metrics import UpdaterMetrics
from updater.pass_context import PassContext, Rules
from updater.preview import EVERYTHING, NotNow, PassPreview, Scope, preview_pass
from updater.snapshot.caches import Caches
from updater.snapshot.cluster_snapshot import (
    ClusterSnapshot,
    acts,
    key_of,
    skipped_vpas,
    update_mode,
)
from updater.snapshot.pod_matching import Matcher
from updater.snapshot.selection import divide_pods, select_vpas
from updater.snapshot.snapshot_builder import SnapshotBuilder
from updater.state import UpdaterState
from updater.update_pass import ReportingActuator, UpdatePass

logger = logging.getLogger(__name__)

_SHORTEST_PATIENCE = 10.0  # seconds, of who asks for a plan


class Admission(Protocol):
    """Says whether the admission controller would patch a replacement."""

    async def __call__(self) -> AdmissionStatus: ...


async def always_ready() -> AdmissionStatus:
    """For those who told us not to look at the status Lease."""
    return AdmissionStatus.ALIVE


def by_lease(lease: StatusLease, *, max_age: timedelta) -> Admission:
    """Believe the status Lease, if it is no older than ``max_age``."""

    async def read() -> AdmissionStatus:
        return await lease.read(max_age=max_age)

    return read


@dataclass(frozen=True, slots=True, kw_only=True)
class PassInput:
    """What a pass looks at, and what it looks away from."""

    vpas: Sequence[VerticalPodAutoscaler]
    skipped: Mapping[tuple[str, str], str]  # why, by namespace and name
    snapshot: ClusterSnapshot


class SnapshotMemory:
    """What is remembered of one picture for the next, so that only what changed is looked up."""

    def __init__(self, caches: Caches, targets: Targets, errors: ObjectErrors) -> None:
        self.matcher = Matcher(caches.controllers, targets, errors)
        self.builder = SnapshotBuilder(caches.controllers, errors)


class Updater:
    """Runs passes, one after the other; owns what is remembered between them."""

    def __init__(
        self,
        *,
        caches: Caches,
        targets: Targets,
        admission: Admission,
        ignored_namespaces: Sequence[str],
        rules: Rules,
        actuator: ReportingActuator,
        limits: RateLimits,
        metrics: UpdaterMetrics,
        clock: Clock,
        stop: asyncio.Event,
        replacements: Replacements | None = None,
    ) -> None:
        self._replacements = replacements
        self._caches = caches
        self._targets = targets
        self._admission = admission
        self._ignored_namespaces = ignored_namespaces
        self._rules = rules
        self._actuator = actuator
        self._limits = limits
        self._metrics = metrics
        self._clock = clock
        self._stop = stop
        self._attempts = UpdaterState()
        self._memory = SnapshotMemory(caches, targets, metrics.object_errors)
        self.passes = 0  # that were begun
        self._admission_status = AdmissionStatus.ALIVE
        self._was_fresh = True
        self._skipped: Mapping[tuple[str, str], str] = {}
        self._deprecated = 0
        self._turn = asyncio.Lock()  # of a pass or of a rehearsal, first come first served
        self._planning = False

    async def run_once(self) -> None:
        """One pass: look, decide, act. Does nothing while the caches can't be believed.

        Source: updater.md 2.
        """
        async with self._turn:
            await self._run_once()

    async def plan(self, scope: Scope = EVERYTHING) -> PassPreview | NotNow:
        """What a pass would decide now; nothing is done, and the next pass never knows of it.

        It waits for the pass that is going on, or its memory would be half a pass old. The next
        pass may have to wait for it, half an interval at most, and never for two in a row.
        """
        if self._planning:
            return NotNow.PLANNING
        seconds = max(self._rules.interval.total_seconds(), _SHORTEST_PATIENCE)
        self._planning = True
        try:
            try:
                async with asyncio.timeout(seconds):
                    await self._turn.acquire()
            except TimeoutError:
                return NotNow.UNDER_WAY
            try:
                async with asyncio.timeout(seconds / 2):
                    return await self._plan(scope)
            except TimeoutError:
                return NotNow.TOO_SLOW
            finally:
                self._turn.release()
        finally:
            self._planning = False

    async def _plan(self, scope: Scope) -> PassPreview | NotNow:
        if not await self._caches.check():
            return NotNow.NOT_FRESH
        admission = await self._admission()
        errors = self._metrics.object_errors
        afresh = SnapshotMemory(
            self._caches, self._targets, errors
        )  # a part of the picture would spoil it
        picture = await self._take(afresh, scope)
        if not self._caches.fresh:
            return NotNow.NOT_FRESH
        taken_at = self._clock.now()
        decisions = await preview_pass(
            picture.snapshot,
            PassContext.of(
                picture.snapshot,
                self._attempts,
                rules=self._rules,
                now=taken_at,
                admission_ready=admission.allows_eviction,
                errors=errors,
            ),
        )
        return PassPreview(
            taken_at=taken_at,
            admission=admission,
            vpas=[vpa for vpa in picture.vpas if scope.covers(vpa)],
            snapshot=picture.snapshot,
            skipped=picture.skipped,
            decisions=decisions,
            pod_level=self._rules.pod_level,
        )

    async def _run_once(self) -> None:
        with self._timed("total", self._metrics):
            if not self._believe(fresh=await self._caches.check()):
                return
            deadline = asyncio.get_running_loop().time() + self._rules.interval.total_seconds()
            try:
                async with asyncio.timeout_at(deadline):
                    status = await self._look_at_admission()
                    picture = await self._take(self._memory, metrics=self._metrics)
            except TimeoutError:
                logger.warning("pass skipped, looking at the cluster took too long")
                return
            if not self._believe(fresh=self._caches.fresh):
                return  # the API server went away while we looked
            self._tell_skipped(picture.skipped)
            self._tell_deprecated(picture.vpas)
            self.passes += 1
            context = PassContext.of(
                picture.snapshot,
                self._attempts,
                rules=self._rules,
                now=self._clock.now(),
                admission_ready=status.allows_eviction,
                errors=self._metrics.object_errors,
                templates=self._replacements,
            )
            executor = Executor(
                live=self._caches,
                actuator=self._actuator,
                replacements=self._replacements,
                limits=self._limits,
                metrics=self._metrics,
                clock=self._clock,
                deadline=deadline,
                stop=self._stop,
            )
            current = UpdatePass(
                snapshot=picture.snapshot,
                context=context,
                executor=executor,
                reporter=self._actuator,
                metrics=self._metrics,
            )
            with self._timed("EvictPods", self._metrics):
                after = await current.run(first=self.passes)
            there = {vpa.metadata.uid: vpa for vpa in self._caches.vpas.snapshot.items()}
            self._attempts = after.about(there.keys())
            self._metrics.keep_only({key_of(vpa) for vpa in there.values()})
            breakers = self._attempts.breakers.items()
            self._metrics.publish_suspended(
                key_of(there[uid]) for uid, each in breakers if each.suspends and acts(there[uid])
            )

    def _believe(self, *, fresh: bool) -> bool:
        """Say it once when the caches stop or start to follow the API server."""
        if fresh != self._was_fresh:
            self._was_fresh = fresh
            if fresh:
                logger.info("caches follow the API server again, passes go on")
            else:
                logger.warning("passes are skipped until the caches follow the API server again")
        return fresh

    async def _look_at_admission(self) -> AdmissionStatus:
        status = await self._admission()
        if status is not self._admission_status:
            self._admission_status = status
            if status.allows_eviction:
                logger.info("admission controller is alive, evictions go on")
            else:
                logger.warning(
                    "no evictions, a replacement might not be patched",
                    extra={"admission": status.value},
                )
        return status

    def _tell_skipped(self, skipped: Mapping[tuple[str, str], str]) -> None:
        """One line for each VPA, as long as nothing about it changes."""
        for key, why in skipped.items():
            if self._skipped.get(key) != why:
                logger.warning("vpa skipped", extra={"vpa": "/".join(key), "cause": why})
        self._skipped = skipped

    def _tell_deprecated(self, vpas: Iterable[VerticalPodAutoscaler]) -> None:
        """One line for all VPAs of mode Auto, as long as they are as many."""
        count = sum(update_mode(vpa) is UpdateMode.AUTO for vpa in vpas)
        if count not in (0, self._deprecated):
            logger.warning("mode Auto is deprecated, and acts like Recreate", extra={"vpas": count})
        self._deprecated = count

    async def _take(
        self,
        memory: SnapshotMemory,
        scope: Scope = EVERYTHING,
        *,
        metrics: UpdaterMetrics | None = None,
    ) -> PassInput:
        """Freeze the cluster; afterwards nobody looks at the caches again."""
        self._targets.begin_cycle(self._rules.interval.total_seconds())
        with self._timed("ListVPAs", metrics):
            vpas = scope.reach(
                vpa
                for vpa in self._caches.vpas.snapshot.items()
                if vpa.metadata.namespace not in self._ignored_namespaces
            )
            selected, unresolved = await select_vpas(
                vpas, self._targets, self._metrics.object_errors
            )
        with self._timed("ListPods", metrics):
            pods = await divide_pods(self._caches.pods.snapshot, scope.namespaces(vpas))
        with self._timed("FilterPods", metrics):
            matched = await memory.matcher.match(pods.live, selected)
        with self._timed("AdmissionInit", metrics):
            snapshot = await memory.builder.freeze(
                [each for each in selected if scope.covers(each.vpa)],
                matched,
                pods,
                self._caches.limit_ranges.snapshot,
                owing=self._attempts.owing,
            )
        snapshot = replace(snapshot, quotas=self._caches.quotas_by_namespace())
        skipped = skipped_vpas(vpas, self._rules.features) | unresolved
        nodes = self._caches.nodes.snapshot.by_namespace().get("", {})
        snapshot = replace(snapshot, nodes=nodes)
        return PassInput(vpas=vpas, skipped=skipped, snapshot=snapshot)

    @contextlib.contextmanager
    def _timed(self, step: str, metrics: UpdaterMetrics | None) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            yield
        finally:
            if metrics is not None:
                metrics.observe_step(step, loop.time() - started)

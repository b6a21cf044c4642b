"""Sends the actions of plans: one call each, as rate limits and a last look allow."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.api.core import Pod
from common.errors import DecodeError, KubeError
from common.patches import Operation
from common.recommendation.changes import ResourceChange
from common.runtime.clock import Clock
from common.runtime.rate_limit import RateLimiter
from common.runtime.service import unless_stopped
from common.target.owners import Controller
from updater.decision import Decision, Reason, leave, wait
from updater.failures import is_infeasible
from updater.fold import Accepted, CallResult, NotSent, Refused, Tried
from updater.metrics import UpdaterMetrics, VpaLabels
from updater.plan.actions import EvictPod, PodPlan, ResizePod, TryReplacement, UnboostPod
from updater.resize.resize_plan import annotation_operations, is_marked

# Calls under way at a time. An eviction takes a real API server a tenth of a second
# (benchmarks/README.md), and the updater would only wait.
MOST_CALLS = 32

_TOO_LATE = "its time was up"


class Actuator(Protocol):
    """Changes pods; ``actuation.PodActuator`` and the fakes of tests."""

    async def evict(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        reason: Reason,
        changes: Sequence[ResourceChange],
    ) -> None:
        """Evict the pod.

        Raises:
            KubeError: the API server refused, or did not answer.
        """

    async def resize(
        self,
        pod: Pod,
        vpa: VerticalPodAutoscaler,
        operations: Sequence[Operation],
        reason: Reason,
    ) -> Pod:
        """Resize the pod in place, and return it as it is from then on.

        Raises:
            KubeError: the API server refused, or did not answer.
        """

    async def annotate(self, pod: Pod, operations: Sequence[Operation]) -> None:
        """Change the annotations of a resized pod; a failure is only logged."""


class Replacements(Protocol):
    """Creates replacements in a dry run; ``actuation.TemplatePods`` and the fakes of tests."""

    def supports(self, controller: Controller) -> bool:
        """Return whether the controller makes its pods from a template that can be read."""

    def generation(self, controller: Controller) -> int:
        """Return the generation of the controller, which changes with its template."""

    async def create(self, pod: Pod, controller: Controller) -> Pod:
        """Return the pod that would follow, as the API server would store it.

        Raises:
            KubeError: the API server refused it, or did not answer.
            DecodeError: the answer can't be read.
        """


class LiveState(Protocol):
    """The cluster as it is by now; ``snapshot.Caches`` and the fakes of tests.

    A rate limit may hold a call up until the end of its pass, so each call looks here once more.
    """

    async def check(self) -> bool:
        """Return whether the caches follow the API server."""

    def has_pod(self, pod: Pod) -> bool:
        """Return whether the pod is there, with the same owners, and isn't being deleted."""

    def has_vpa(self, vpa: VerticalPodAutoscaler) -> bool:
        """Return whether the VPA is there with the same spec."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """Rate limits, one for each kind of action; None: no limit."""

    evictions: RateLimiter | None = None
    resizes: RateLimiter | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """The VPA of the actions, and the labels of its metrics."""

    vpa: VerticalPodAutoscaler
    mode: UpdateMode
    labels: VpaLabels


class Executor:
    """Sends the actions of one pass, of all its VPAs at the same time.

    The end of the pass cancels no call that was sent, or the next pass would not know of it. Once
    the pass is over, ``over`` says why, and nothing more is sent.
    """

    def __init__(
        self,
        *,
        live: LiveState,
        actuator: Actuator,
        replacements: Replacements | None,
        limits: RateLimits,
        metrics: UpdaterMetrics,
        clock: Clock,
        deadline: float,
        stop: asyncio.Event,
    ) -> None:
        self._live = live
        self._actuator = actuator
        self._replacements = replacements
        self._limits = limits
        self._metrics = metrics
        self._clock = clock
        self._deadline = deadline  # on the event loop's clock
        self._stop = stop
        self._calls = asyncio.Semaphore(MOST_CALLS)
        self.over = ""

    async def execute(self, target: Target, plans: Sequence[PodPlan]) -> Mapping[str, CallResult]:
        """Return the results of the actions, by pod UID.

        All are sent at the same time, in the order of the plan as far as limits hold them up. One
        that breaks has no result.
        """
        results: dict[str, CallResult] = {}
        async with asyncio.TaskGroup() as group:
            for each in plans:
                if each.action is not None:
                    group.create_task(self._run(target, each, results))
        return results

    async def _run(self, target: Target, planned: PodPlan, results: dict[str, CallResult]) -> None:
        pod, action, labels = planned.pod, planned.action, target.labels
        meta, metrics = pod.metadata, self._metrics
        missed_resize = partial(metrics.resize_failed, labels, "InPlaceUpdateRateLimiterWaitFailed")
        missed_eviction = partial(metrics.eviction_failed, labels, "EvictionRateLimiterWaitFailed")
        match action:
            case EvictPod():
                stage, limiter, missed = "evict", self._limits.evictions, missed_eviction
                call = partial(self._evict, target, pod, action)
            case ResizePod():
                stage, limiter, missed = "resize", self._limits.resizes, missed_resize
                call = partial(self._resize, target, pod, action)
            case UnboostPod():
                stage, limiter, missed = "unboost", self._limits.resizes, missed_resize
                call = partial(self._unboost, target, pod, action)
            case TryReplacement(controller):
                stage, limiter, missed = "evict", None, missed_eviction
                call = partial(self._try, pod, controller)
            case _:
                return
        with metrics.object_errors.around(stage, "Pod", meta.namespace, meta.name):
            if not await self._within_limit(limiter, missed):
                results[meta.uid] = NotSent(wait(Reason.RATE_LIMITED))
                return
            async with self._calls:
                held = await self._last_look(pod, target.vpa)
                results[meta.uid] = await call() if held is None else NotSent(held)

    # Calls

    async def _evict(self, target: Target, pod: Pod, action: EvictPod) -> CallResult:
        try:
            await self._actuator.evict(pod, target.vpa, action.reason, action.changes)
        except KubeError as error:
            self._metrics.eviction_failed(target.labels, "EvictionError")
            return Refused(self._clock.now(), error)
        self._metrics.evicted(target.labels)
        return Accepted(self._clock.now(), pod)

    async def _resize(self, target: Target, pod: Pod, action: ResizePod) -> CallResult:
        operations = action.plan.operations
        try:
            resized = await self._actuator.resize(pod, target.vpa, operations, action.reason)
        except KubeError as error:
            cause = "Infeasible" if is_infeasible(error, mode=target.mode) else "Error"
            self._metrics.resize_failed(target.labels, f"InPlaceUpdate{cause}")
            return Refused(self._clock.now(), error)
        if not is_marked(resized):
            await self._actuator.annotate(resized, annotation_operations(resized))
        self._metrics.resized(target.labels)
        return Accepted(self._clock.now(), resized)

    async def _unboost(self, target: Target, pod: Pod, action: UnboostPod) -> CallResult:
        resized, plan = pod, action.plan
        if plan.changes:
            try:
                resized = await self._actuator.resize(
                    pod, target.vpa, plan.operations, Reason.STARTUP_BOOST_OVER
                )
            except KubeError as error:
                self._metrics.resize_failed(target.labels, "UnboostError")
                return Refused(self._clock.now(), error)
        await self._actuator.annotate(resized, annotation_operations(resized, action.annotations))
        if plan.changes:
            self._metrics.resized(target.labels)
        return Accepted(self._clock.now(), resized)

    async def _try(self, pod: Pod, controller: Controller) -> CallResult:
        if self._replacements is None:
            raise AssertionError(controller)
        try:
            return Tried(await self._replacements.create(pod, controller))
        except (KubeError, DecodeError) as error:
            return Tried(error)

    # What holds calls up

    async def _within_limit(self, limiter: RateLimiter | None, missed: Callable[[], None]) -> bool:
        """Wait for the rate limit; False when the pass is over before that.

        ``missed`` counts the action for which the rate limit ends the pass.
        """
        if limiter is None or self.over:
            return True
        try:
            async with asyncio.timeout_at(self._deadline):
                await unless_stopped(limiter.acquire, stop=self._stop)
        except TimeoutError:
            if not self.over:
                missed()
                self.over = _TOO_LATE
            return False
        return True

    async def _last_look(self, pod: Pod, vpa: VerticalPodAutoscaler) -> Decision | None:
        """Return why nothing is to be sent about the pod any more, if that is so.

        The end of a pass is that of its time, rate limit or not: the snapshot that it decides on
        is that old by then, and the next pass begins at once.
        """
        if not self.over:
            self.over = await self._ended()
        if self.over:
            return wait(Reason.NO_TURN)
        if not self._live.has_pod(pod):
            return leave(Reason.GONE)
        return None if self._live.has_vpa(vpa) else wait(Reason.VPA_CHANGED)

    async def _ended(self) -> str:
        if self._stop.is_set():
            return "the process is to end"
        if asyncio.get_running_loop().time() >= self._deadline:
            return _TOO_LATE
        fresh = await self._live.check()
        return "" if fresh else "the caches do not follow the API server any more"

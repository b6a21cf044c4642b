"""Sends the actions of plans, after the rate limit and a last check of the caches."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.errors import DecodeError, KubeError
from common.runtime.clock import Clock
from common.runtime.rate_limit import RateLimiter
from common.runtime.service import unless_stopped
from common.target.owners import Controller
from updater.action_history import ActionHistory
from updater.actuation import PodActuator, TemplatePods
from updater.call_results import Accepted, CallResult, NotSent, Refused, Tried
from updater.decision import Decision, Reason, leave, wait
from updater.failures import is_infeasible
from updater.metrics import UpdaterMetrics, VpaLabels
from updater.plan.actions import EvictPod, PodPlan, ResizePod, TryReplacement
from updater.plan.pod_outcome import PodOutcome
from updater.resize.resize_plan import annotation_operations, is_marked
from updater.snapshot.cluster_snapshot import AutoscaledPods

# Concurrent calls. An eviction takes a real API server 0.1 s (benchmarks/README.md).
MOST_CALLS = 32

_TOO_LATE = "its time was up"


class LiveState(Protocol):
    """The present state of the cluster; ``snapshot.Caches`` and the fakes of tests.

    Each call checks it before it is sent, because a rate limit may delay calls.
    """

    async def check(self) -> bool:
        """Return whether the caches follow the API server."""

    def has_pod(self, pod: Pod) -> bool:
        """Return whether the pod exists with the same owners and isn't terminating."""

    def has_vpa(self, vpa: VerticalPodAutoscaler) -> bool:
        """Return whether the VPA exists with the same spec."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """Rate limits of evictions and resizes; None: no limit."""

    evictions: RateLimiter | None = None
    resizes: RateLimiter | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """The VPA of the actions with its pods, and the labels of its metrics."""

    scaled: AutoscaledPods
    labels: VpaLabels

    @property
    def vpa(self) -> VerticalPodAutoscaler:
        """Return the VPA."""
        return self.scaled.vpa


class Executor:
    """Sends the actions of one pass, of all its VPAs concurrently.

    The end of the pass cancels no call that was sent, so that its result is known. ``over`` is the
    cause of the end of the pass; then nothing more is sent.
    """

    def __init__(
        self,
        *,
        live: LiveState,
        actuator: PodActuator,
        replacements: TemplatePods | None,
        limits: RateLimits,
        metrics: UpdaterMetrics,
        history: ActionHistory,
        clock: Clock,
        deadline: float,
        stop: asyncio.Event,
    ) -> None:
        self._live = live
        self._actuator = actuator
        self._replacements = replacements
        self._limits = limits
        self._metrics = metrics
        self.history = history
        self._clock = clock
        self._deadline = deadline  # on the event loop's clock
        self._stop = stop
        self._calls = asyncio.Semaphore(MOST_CALLS)
        self.over = ""

    async def execute(self, target: Target, plans: Sequence[PodPlan]) -> Mapping[str, CallResult]:
        """Send the actions concurrently, and return their results by pod UID.

        Rate limits pass them in the order of the plan. An action with an unexpected error has no
        result.
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
                call = partial(self._evict, target, planned.outcome)
            case ResizePod(unboosted=unboosted):
                stage = "unboost" if unboosted else "resize"
                limiter, missed = self._limits.resizes, missed_resize
                call = partial(self._resize, target, planned.outcome, action)
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
                held = await self._last_check(pod, target.vpa)
                results[meta.uid] = await call() if held is None else NotSent(held)

    # Calls

    async def _evict(self, target: Target, outcome: PodOutcome) -> CallResult:
        pod, reason = outcome.pod, outcome.decision.reason
        result: Accepted | Refused
        try:
            await self._actuator.evict(pod, target.vpa, reason, outcome.subject.changes)
        except KubeError as error:
            self._metrics.eviction_failed(target.labels, "EvictionError")
            result = Refused(self._clock.now(), error)
        else:
            self._metrics.evicted(target.labels)
            result = Accepted(self._clock.now(), pod)
        self.history.add_eviction(target.scaled, outcome, result)
        return result

    async def _resize(self, target: Target, outcome: PodOutcome, action: ResizePod) -> CallResult:
        resized, plan, unboosted = outcome.pod, action.plan, action.unboosted
        if plan.changes:
            try:
                decision = outcome.decision
                resized = await self._actuator.resize(
                    resized,
                    target.vpa,
                    plan.operations,
                    decision.reason,
                    detail=decision.detail,
                )
            except KubeError as error:
                infeasible = is_infeasible(error, mode=target.labels.mode)
                cause = f"InPlaceUpdate{'Infeasible' if infeasible else 'Error'}"
                self._metrics.resize_failed(target.labels, "UnboostError" if unboosted else cause)
                refused = Refused(self._clock.now(), error)
                self.history.add_resize(target.scaled, outcome, action, refused)
                return refused
            accepted = Accepted(self._clock.now(), resized)
            self.history.add_resize(target.scaled, outcome, action, accepted)
        if unboosted or not is_marked(resized):
            await self._actuator.annotate(resized, annotation_operations(resized, unboosted))
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

    # Limits and checks before a call

    async def _within_limit(self, limiter: RateLimiter | None, missed: Callable[[], None]) -> bool:
        """Wait for the rate limit; return False if the pass ends before.

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

    async def _last_check(self, pod: Pod, vpa: VerticalPodAutoscaler) -> Decision | None:
        """Return the decision not to send the call; None: send it.

        The pass also ends at its deadline, because its snapshot is old then and the next pass is
        due.
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

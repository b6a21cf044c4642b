"""Acts on one pod, and settles its budget, its figures and its memory."""

import asyncio
import contextlib
import logging
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from common.api.core import Pod
from common.errors import KubeError
from common.runtime.clock import Clock
from common.runtime.rate_limit import RateLimiter
from common.runtime.service import unless_stopped
from updater.attempts import PodMemory, SentResize
from updater.decision import Decision, Reason, evict, leave, resize, wait
from updater.failures import (
    after_refused_eviction,
    after_refused_resize,
    is_infeasible,
    may_have_happened,
)
from updater.ledger import Ledger
from updater.metrics import Metrics
from updater.resize_plan import ResizePlan, annotation_operations, is_marked
from updater.update_order import OomKill
from updater.work import Hands, Present, Work

logger = logging.getLogger(__name__)

Outcome = tuple[Decision, PodMemory]
"""How the pod ended, and what to remember of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Rate limits, one for each kind of action; None: no limit."""

    evictions: RateLimiter | None = None
    resizes: RateLimiter | None = None


class PassOverError(Exception):
    """The pass may not act any more; the text says why."""


class Sender:
    """Sends evictions and resizes, as the rate limits allow."""

    def __init__(
        self,
        *,
        present: Present,
        hands: Hands,
        turns: Turns,
        ledger: Ledger,
        metrics: Metrics,
        interval: timedelta,
        clock: Clock,
        now: datetime,
        deadline: float,
        stop: asyncio.Event,
    ) -> None:
        self._present = present
        self._hands = hands
        self._turns = turns
        self._ledger = ledger
        self._metrics = metrics
        self._interval = interval
        self._clock = clock
        self._now = now
        self._deadline = deadline  # on the event loop's clock
        self._stop = stop

    async def evict(self, pod: Pod, reason: Reason, memory: PodMemory, work: Work) -> Outcome:
        """Send one eviction; a refused one costs nothing.

        Raises:
            PassOverError: there was no turn left for it.
        """
        if not await self._turn(self._turns.evictions):
            self._metrics.eviction_failed(work.labels, "EvictionRateLimiterWaitFailed")
            raise self._over(pod, memory)
        overtaken = self._overtaken(pod, work)
        if overtaken is not None:
            return overtaken, memory
        pending = pod.status.phase == "Pending"
        try:
            await self._hands.evict(pod, work.scaled.vpa, reason)
        except KubeError as error:
            self._metrics.eviction_failed(work.labels, "EvictionError")
            _log_refusal("eviction refused", pod, error)
            if may_have_happened(error) and not pending:
                work.spend(pod)
            return after_refused_eviction(error), memory
        if not pending:
            work.spend(pod)
        work.evicted = True
        self._metrics.evicted(work.labels)
        return evict(reason), replace(memory, evicted=True)

    async def resize(
        self,
        pod: Pod,
        plan: ResizePlan,
        reason: Reason,
        memory: PodMemory,
        work: Work,
        *,
        ooms: Collection[OomKill] = (),
    ) -> Outcome:
        """Send one resize of a pod that is to be updated; ``ooms`` are what it answers.

        Raises:
            PassOverError: there was no turn left for it.
        """
        if not await self._turn(self._turns.resizes):
            self._metrics.resize_failed(work.labels, "InPlaceUpdateRateLimiterWaitFailed")
            raise self._over(pod, memory)
        overtaken = self._overtaken(pod, work)
        if overtaken is not None:
            return overtaken, memory
        try:
            generation = await self._hands.resize(pod, plan.operations, reason)
        except KubeError as error:
            mode = work.scaled.mode
            cause = "Infeasible" if is_infeasible(error, mode=mode) else "Error"
            self._metrics.resize_failed(work.labels, f"InPlaceUpdate{cause}")
            self._note_refused_resize(pod, error, work)
            return after_refused_resize(
                error,
                memory,
                mode=mode,
                targets=plan.targets,
                interval=self._interval,
                now=self._now,
            )
        if not is_marked(pod):
            await self._hands.annotate(pod, annotation_operations(pod))
        spent = memory.spent_ooms.union(ooms)
        return resize(reason), self._sent(pod, plan, generation, memory, work, spent_ooms=spent)

    async def unboost(
        self,
        pod: Pod,
        plan: ResizePlan,
        annotations: Collection[str],
        memory: PodMemory,
        work: Work,
    ) -> Outcome:
        """Take back start-up boosts: resize, if that changes anything, and drop the annotations.

        A refusal never leads to an eviction; the next pass tries again.

        Raises:
            PassOverError: there was no turn left for it.
        """
        if not await self._turn(self._turns.resizes):
            self._metrics.resize_failed(work.labels, "InPlaceUpdateRateLimiterWaitFailed")
            raise self._over(pod, memory)
        overtaken = self._overtaken(pod, work)
        if overtaken is not None:
            return overtaken, memory
        generation = 0
        if plan.changes:
            try:
                generation = await self._hands.resize(
                    pod, plan.operations, Reason.STARTUP_BOOST_OVER
                )
            except KubeError as error:
                self._metrics.resize_failed(work.labels, "UnboostError")
                self._note_refused_resize(pod, error, work)
                return wait(Reason.UNBOOST_FAILED), memory
        await self._hands.annotate(pod, annotation_operations(pod, annotations))
        decision = resize(Reason.STARTUP_BOOST_OVER)
        if not plan.changes:
            return decision, memory
        return decision, self._sent(pod, plan, generation, memory, work)

    def _sent(
        self,
        pod: Pod,
        plan: ResizePlan,
        generation: int,
        memory: PodMemory,
        work: Work,
        *,
        spent_ooms: frozenset[OomKill] = frozenset(),
    ) -> PodMemory:
        work.spend(pod)
        work.resized = True
        self._metrics.resized(work.labels)
        sent = SentResize(
            at=self._clock.now(),
            generation=generation,
            resource_version=pod.metadata.resource_version,
            restarts=plan.restarts,
        )
        return PodMemory(
            sent=sent, spent_ooms=spent_ooms or memory.spent_ooms, decision=memory.decision
        )

    def _note_refused_resize(self, pod: Pod, error: KubeError, work: Work) -> None:
        _log_refusal("resize refused", pod, error)
        if may_have_happened(error):
            work.spend(pod)

    async def _turn(self, limiter: RateLimiter | None) -> bool:
        """Wait for the rate limit; False when the pass is over before that.

        The end of a pass is that of its time, rate limit or not: the picture that it decides on
        is that old by then, and the next pass begins at once.

        Raises:
            PassOverError: the process is to end, or the caches don't follow the API server.
        """
        has_turn = limiter is None
        if limiter is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._deadline):
                    has_turn = await unless_stopped(limiter.acquire, stop=self._stop)
        if self._stop.is_set():
            raise PassOverError("the process is to end")
        if not await self._present.check():
            raise PassOverError("the caches do not follow the API server any more")
        return has_turn and asyncio.get_running_loop().time() < self._deadline

    def _overtaken(self, pod: Pod, work: Work) -> Decision | None:
        """Why the pod is none of ours any more, if that is so."""
        if not self._present.has_pod(pod):
            return leave(Reason.GONE)
        return None if self._present.has_vpa(work.scaled.vpa) else wait(Reason.VPA_CHANGED)

    def _over(self, pod: Pod, memory: PodMemory) -> PassOverError:
        self._ledger.settle(pod, wait(Reason.RATE_LIMITED), memory)
        return PassOverError("no turn was left before its end")


def _log_refusal(message: str, pod: Pod, error: KubeError) -> None:
    logger.info(
        message,
        extra={
            "pod": f"{pod.metadata.namespace}/{pod.metadata.name}",
            "status": error.status,
            "reason": error.reason,
            "error": str(error),
        },
    )

"""Acts on one pod, and settles its budget, its figures and its memory."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from common.api.core import Pod
from common.errors import KubeError, NotLeadingError
from common.recommendation.changes import ResourceChange, patch_changes, summary
from common.runtime.clock import Clock
from common.runtime.rate_limit import RateLimiter
from common.runtime.service import unless_stopped
from updater.attempts import PodMemory, RefusedCall, SentResize
from updater.decision import Decision, Reason, evict, leave, resize, wait
from updater.failures import (
    after_refused_eviction,
    after_refused_resize,
    is_infeasible,
    may_have_happened,
)
from updater.finished_resizes import before_next_resize
from updater.metrics import UpdaterMetrics
from updater.resize import WHOLE, Attempt
from updater.resize_plan import ResizePlan, annotation_operations, is_marked
from updater.update_order import OomKill
from updater.work import Hands, Present, Work

logger = logging.getLogger(__name__)

_TOO_LATE = "its time was up"
_RESIZE_MISSED = "InPlaceUpdateRateLimiterWaitFailed"

Outcome = tuple[Decision, PodMemory]
"""How the pod ended, and what to remember of it."""

Ask = Callable[[Pod, asyncio.Semaphore], Coroutine[Any, Any, Decision | None]]
"""Asks about the replacement of a pod; each call takes its place among those under way."""

# Calls under way at a time. An eviction takes a real API server a tenth of a second
# (benchmarks/README.md), and the updater would only wait.
CALLS_ABREAST = 32

# An API server gives a call up after a minute (--request-timeout), whoever still waits for it.
LATEST = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Rate limits, one for each kind of action; None: no limit."""

    evictions: RateLimiter | None = None
    resizes: RateLimiter | None = None


class Sender:
    """Sends evictions and resizes, as the rate limits allow.

    Each takes a pod whose part of the budget is reserved, and gives it back unless the call was,
    or may have been, carried out. Once the pass is over, ``over`` says why, and nothing more is
    sent.
    """

    def __init__(
        self,
        *,
        present: Present,
        hands: Hands,
        turns: Turns,
        metrics: UpdaterMetrics,
        interval: timedelta,
        pace: timedelta,
        clock: Clock,
        now: datetime,
        deadline: float,
        stop: asyncio.Event,
    ) -> None:
        self._present = present
        self._hands = hands
        self._turns = turns
        self._metrics = metrics
        self._interval = interval
        self._pace = pace
        self._clock = clock
        self._now = now
        self._deadline = deadline  # on the event loop's clock
        self._stop = stop
        self._calls = asyncio.Semaphore(CALLS_ABREAST)
        self.over = ""

    async def evict(
        self,
        pod: Pod,
        reason: Reason,
        memory: PodMemory,
        work: Work,
        *,
        changes: Sequence[ResourceChange],
        ask: Ask | None = None,
    ) -> Outcome:
        """Send one eviction; a refused one costs nothing. ``changes`` are what it is for.

        ``ask`` asks the API server about the replacement first, and returns why nothing is sent.
        The rate limit of evictions doesn't count that.
        """
        held = None if ask is None else await self._asked(ask, pod, work)
        if held is not None:
            return held, memory
        missed = partial(
            self._metrics.eviction_failed, work.labels, "EvictionRateLimiterWaitFailed"
        )
        held = await self._turn(self._turns.evictions, pod, work, missed)
        if held is not None:
            return held, memory
        try:
            await self._hands.evict(pod, work.scaled.vpa, reason, changes)
        except KubeError as error:
            self._metrics.eviction_failed(work.labels, "EvictionError")
            memory = _note_refusal("eviction refused", pod, error, work, memory, changes=changes)
            if may_have_happened(error):
                work.note_eviction(pod, now=self._clock.now())
                memory = self._unanswered(memory)
            return after_refused_eviction(error), memory
        finally:
            self._calls.release()
        work.evicted = True
        work.note_eviction(pod, now=self._clock.now())
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
        attempt: Attempt = WHOLE,
    ) -> Outcome:
        """Send one resize of a pod that is to be updated; ``ooms`` are what it answers."""
        missed = partial(self._metrics.resize_failed, work.labels, _RESIZE_MISSED)
        held = await self._turn(self._turns.resizes, pod, work, missed)
        if held is not None:
            return held, memory
        try:
            try:
                vpa = work.scaled.vpa
                resized = await self._hands.resize(pod, vpa, plan.operations, reason)
            except KubeError as error:
                mode = work.scaled.mode
                cause = "Infeasible" if is_infeasible(error, mode=mode) else "Error"
                self._metrics.resize_failed(work.labels, f"InPlaceUpdate{cause}")
                changes = patch_changes(pod, plan.operations)
                memory = _note_refusal("resize refused", pod, error, work, memory, changes=changes)
                if plan.restarts and may_have_happened(error):
                    memory = self._unanswered(memory)
                return after_refused_resize(
                    error,
                    memory,
                    mode=mode,
                    targets=plan.targets,
                    interval=self._interval,
                    pace=self._pace,
                    attempt=attempt,
                    now=self._now,
                )
            if not is_marked(resized):
                await self._hands.annotate(resized, annotation_operations(resized))
        finally:
            self._calls.release()
        after = self._sent(pod, plan, resized, memory, work, ooms=ooms, attempt=attempt)
        if plan.withdraws:
            work.release(pod)  # its containers saw nothing of it
        return resize(reason), after

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
        """
        missed = partial(self._metrics.resize_failed, work.labels, _RESIZE_MISSED)
        held = await self._turn(self._turns.resizes, pod, work, missed)
        if held is not None:
            return held, memory
        resized = pod
        try:
            if plan.changes:
                try:
                    resized = await self._hands.resize(
                        pod, work.scaled.vpa, plan.operations, Reason.STARTUP_BOOST_OVER
                    )
                except KubeError as error:
                    self._metrics.resize_failed(work.labels, "UnboostError")
                    changes = patch_changes(pod, plan.operations)
                    memory = _note_refusal(
                        "resize refused", pod, error, work, memory, changes=changes
                    )
                    if plan.restarts and may_have_happened(error):
                        memory = self._unanswered(memory)
                    return wait(Reason.UNBOOST_FAILED), memory
            await self._hands.annotate(resized, annotation_operations(resized, annotations))
        finally:
            self._calls.release()
        decision = resize(Reason.STARTUP_BOOST_OVER)
        if not plan.changes:
            work.release(pod)  # its containers saw nothing of it
            return decision, memory
        return decision, self._sent(pod, plan, resized, memory, work)

    def _sent(
        self,
        pod: Pod,
        plan: ResizePlan,
        resized: Pod,
        memory: PodMemory,
        work: Work,
        *,
        ooms: Collection[OomKill] = (),
        attempt: Attempt = WHOLE,
    ) -> PodMemory:
        work.resized = True
        self._metrics.resized(work.labels)
        finished = before_next_resize(pod, memory)
        sent = SentResize(
            at=self._clock.now(),
            generation=resized.metadata.generation,
            resource_version=pod.metadata.resource_version,
            restarts=plan.restarts,
            withdraws=plan.withdraws,
            ooms=frozenset(ooms),
            pending_since=attempt.pending_since,
        )
        return PodMemory(
            sent=sent,
            infeasible=attempt.rest,
            resized_at=finished.resized_at,
            spent_ooms=finished.spent_ooms,
            killed_at=memory.killed_at,
            blocked=memory.blocked,
            decision=memory.decision,
        )

    def _unanswered(self, memory: PodMemory) -> PodMemory:
        """The pod's part of the budget stays taken for a while, whatever the next passes see."""
        return replace(memory, unanswered_until=self._clock.now() + LATEST)

    async def _asked(self, ask: Ask, pod: Pod, work: Work) -> Decision | None:
        """Return why no eviction is to be sent, and give the budget back then."""
        held = await self._held(pod, work) or await ask(pod, self._calls)
        if held is not None:
            work.release(pod)
        return held

    async def _turn(
        self, limiter: RateLimiter | None, pod: Pod, work: Work, missed: Callable[[], None]
    ) -> Decision | None:
        """Wait for a call's turn; or why none is to be sent, and the budget is given back then.

        Whoever has the turn releases ``self._calls`` afterwards. ``missed`` counts the one for
        which the rate limit ends the pass.
        """
        if not await self._within_limit(limiter, missed):
            work.release(pod)
            return wait(Reason.RATE_LIMITED)
        await self._calls.acquire()
        held: Decision | None = wait(Reason.NO_TURN)
        try:
            held = await self._held(pod, work)
        finally:
            if held is not None:
                self._calls.release()
                work.release(pod)
        return held

    async def _within_limit(self, limiter: RateLimiter | None, missed: Callable[[], None]) -> bool:
        """Wait for the rate limit; False when the pass is over before that."""
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

    async def _held(self, pod: Pod, work: Work) -> Decision | None:
        """Why nothing is to be sent about the pod any more, if that is so.

        The end of a pass is that of its time, rate limit or not: the picture that it decides on
        is that old by then, and the next pass begins at once.
        """
        if not self.over:
            self.over = await self._ended()
        if self.over:
            return wait(Reason.NO_TURN)
        if not self._present.has_pod(pod):
            return leave(Reason.GONE)
        return None if self._present.has_vpa(work.scaled.vpa) else wait(Reason.VPA_CHANGED)

    async def _ended(self) -> str:
        if self._stop.is_set():
            return "the process is to end"
        if asyncio.get_running_loop().time() >= self._deadline:
            return _TOO_LATE
        fresh = await self._present.check()
        return "" if fresh else "the caches do not follow the API server any more"


def _note_refusal(
    message: str,
    pod: Pod,
    error: KubeError,
    work: Work,
    memory: PodMemory,
    *,
    changes: Sequence[ResourceChange],
) -> PodMemory:
    """Log a refusal that is another one than the last (X114), and give the budget back.

    A Lease that may have run out refuses every call and ends the process, which reports it.
    """
    refused = RefusedCall(message, error.status, error.reason, str(error))
    if refused != memory.refused and not isinstance(error, NotLeadingError):
        meta, vpa = pod.metadata, work.scaled.vpa.metadata
        logger.info(
            message,
            extra={
                "pod": f"{meta.namespace}/{meta.name}",
                "vpa": f"{vpa.namespace}/{vpa.name}",
                "changes": summary(changes),
                "status": error.status,
                "reason": error.reason,
                "error": str(error),
            },
        )
        memory = replace(memory, refused=refused)
    if not may_have_happened(error):
        work.release(pod)
    return memory

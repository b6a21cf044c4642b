"""One pass over all pods: decide, act, settle, for each of them in order."""

import asyncio
import logging
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime

from common.annotations import boosted_containers
from common.api.autoscaling import UpdateMode
from common.api.core import Pod
from common.errors import KubeError
from common.runtime.clock import Clock
from common.runtime.rate_limit import RateLimiter
from common.target.owners import Controller
from updater.attempts import Attempts, PodMemory, SentResize
from updater.candidate import Candidate, judge_pod, note_resizing, plan_candidate
from updater.decision import Action, Decision, Reason, resize, wait
from updater.disruption import (
    ReplicaGroup,
    decide_eviction,
    groups_of,
    replica_group,
)
from updater.eviction_requirements import requirements_met
from updater.failures import (
    after_refused_eviction,
    after_refused_resize,
    is_infeasible,
    may_have_happened,
)
from updater.live_pod import LivePod, resized_at
from updater.metrics import Metrics, PassFigures, VpaLabels, size_label
from updater.resize import (
    ResizeDecision,
    ResizeStatus,
    decide_resize,
    resize_status,
    resizing_since,
    unfinished,
)
from updater.resize_plan import (
    ResizePlan,
    annotation_operations,
    is_marked,
    unfinished_restarts,
)
from updater.snapshot import AutoscaledPods, ClusterSnapshot, has_startup_boost
from updater.update_order import rank
from updater.work import Hands, Rules, Work

logger = logging.getLogger(__name__)

_IN_PLACE = (UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE)


class PassOverError(Exception):
    """The pass has no time left for another action."""


class Pass:
    """Works through one snapshot once; what it learned is in ``attempts`` afterwards."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        attempts: Attempts,
        *,
        rules: Rules,
        hands: Hands,
        metrics: Metrics,
        eviction_turns: RateLimiter,
        resize_turns: RateLimiter,
        clock: Clock,
        admission_ready: bool,
        deadline: float,
    ) -> None:
        self._snapshot = snapshot
        self._before = attempts
        self._rules = rules
        self._hands = hands
        self._metrics = metrics
        self._eviction_turns = eviction_turns
        self._resize_turns = resize_turns
        self._clock = clock
        self._now = clock.now()
        self._admission_ready = admission_ready
        self._deadline = deadline  # on the event loop's clock
        self._figures = PassFigures()
        self._changed: dict[str, PodMemory] = {}

    @property
    def attempts(self) -> Attempts:
        """What to remember for the next pass."""
        return self._before.followed_by(self._changed, living=self._snapshot.living)

    async def run(self, *, first: int = 0) -> None:
        """Visit every VPA once, starting with the one at ``first``.

        Where a rate limit ends passes early, a start that moves on gives every VPA its turn.
        """
        autoscaled = self._snapshot.autoscaled
        start = first % len(autoscaled) if autoscaled else 0
        try:
            for scaled in (*autoscaled[start:], *autoscaled[:start]):
                await self._update(scaled)
        except PassOverError:
            logger.warning("pass ended early, the rate limit leaves no turn before its end")
        finally:
            self._metrics.publish(self._figures)

    async def _update(self, scaled: AutoscaledPods) -> None:
        live = [pod for pod in scaled.pods if not self._memory(pod).evicted]
        meta = scaled.vpa.metadata
        labels = VpaLabels(size_label(len(live)), scaled.mode, meta.name, meta.namespace)
        self._figures.controlled[labels.size, scaled.mode.value] += len(live)
        self._metrics.prepare(labels)
        work = Work(scaled, labels, self._groups(scaled, live))
        if scaled.mode in (UpdateMode.OFF, UpdateMode.INITIAL):
            return
        if scaled.mode is UpdateMode.IN_PLACE and not self._rules.features.in_place:
            logger.debug(
                "vpa skipped, the feature gate InPlace is off",
                extra={"vpa": f"{meta.namespace}/{meta.name}"},
            )
            return
        candidates = self._candidates(scaled, live)
        try:
            if scaled.mode in _IN_PLACE:
                await self._evict_all(await self._resize_all(candidates, work), work)
            else:
                due = [(candidate, candidate.why) for candidate in candidates]
                self._count_evictable(due, work)
                await self._evict_all(due, work)
        finally:
            self._count_done(work)

    # Judging

    def _memory(self, pod: Pod) -> PodMemory:
        uid = pod.metadata.uid
        return self._changed.get(uid) or self._before.of(uid)

    def _groups(
        self, scaled: AutoscaledPods, live: Collection[LivePod]
    ) -> dict[Controller, ReplicaGroup]:
        policy = scaled.vpa.spec.update_policy
        own = None if policy is None else policy.min_replicas
        rules = self._rules.disruption
        if own is not None:
            rules = replace(rules, min_replicas=own)
        return {
            controller: replica_group(
                controller,
                pods,
                replicas=scaled.replicas.get(controller),
                out={pod.metadata.uid for pod in pods if self._is_out(pod)},
                boosted=any(boosted_containers(pod.metadata.annotations) for pod in pods),
                mode=scaled.mode,
                policy=rules,
            )
            for controller, pods in groups_of(live, scaled.controllers).items()
        }

    def _is_out(self, pod: Pod) -> bool:
        """Whether an unfinished resize restarts the pod's containers (D32)."""
        sent = self._memory(pod).sent
        if sent is not None and sent.restarts and not self._memory(pod).shows(pod):
            return True
        status = resize_status(pod)
        if status is ResizeStatus.INFEASIBLE:
            return False  # the kubelet has dropped it: nothing is going to restart
        return unfinished_restarts(pod, resizing=status is not ResizeStatus.NONE)

    def _candidates(self, scaled: AutoscaledPods, live: Iterable[LivePod]) -> list[Candidate]:
        """The pods that are worth an update, best first; the others are settled at once."""
        boosting = self._rules.features.cpu_startup_boost and has_startup_boost(scaled.vpa)
        candidates = []
        for pod in live:
            memory = note_resizing(self._memory(pod), resize_status(pod), now=self._now)
            if not memory.shows(pod):
                self._settle(pod, wait(Reason.RESIZE_SENT), memory)
                continue
            if boosting and boosted_containers(pod.metadata.annotations):
                self._settle(pod, wait(Reason.STARTUP_BOOSTED), memory)
                continue
            judged = judge_pod(
                pod,
                scaled.vpa,
                scaled.limit_ranges,
                memory=memory,
                resized_at=_last_resize(pod, memory),
                thresholds=self._rules.thresholds,
                features=self._rules.features,
                now=self._now,
            )
            if isinstance(judged, Decision):
                self._settle(pod, judged, memory)
            else:
                self._changed[pod.metadata.uid] = memory
                candidates.append(judged)
        candidates.sort(key=lambda candidate: rank(candidate.drift, candidate.pod))
        return candidates

    def _settle(self, pod: Pod, decision: Decision, memory: PodMemory) -> None:
        """Write down how the pod ended in this pass; a change of that is worth a line."""
        self._figures.candidates[decision] += 1
        self._changed[pod.metadata.uid] = replace(memory, decision=decision)
        if memory.decision != decision:
            logger.info(
                "pod decided",
                extra={
                    "pod": f"{pod.metadata.namespace}/{pod.metadata.name}",
                    "decision": decision.action.value,
                    "reason": decision.reason.value,
                },
            )

    # In place

    async def _resize_all(
        self, candidates: Iterable[Candidate], work: Work
    ) -> list[tuple[Candidate, Reason]]:
        """Resize what can be resized; what is to be evicted instead, and why."""
        scaled = work.scaled
        plans = [
            (candidate, plan_candidate(candidate, scaled.vpa, scaled.limit_ranges))
            for candidate in candidates
        ]
        first = [self._decide_resize(candidate, plan, work) for candidate, plan in plans]
        updatable = sum(_is_due(decided.decision) for decided in first)
        self._figures.updatable[work.labels.size] += updatable
        self._figures.vpas_updatable[work.labels.size] += updatable > 0
        evictions = []
        for candidate, plan in plans:
            decided = self._decide_resize(candidate, plan, work)
            memory = replace(self._memory(candidate.pod), infeasible=decided.infeasible)
            decision = decided.decision
            if decision.action is Action.RESIZE:
                decision, memory = await self._resize(candidate, plan, memory, work)
            if decision.action is Action.EVICT:
                self._changed[candidate.pod.metadata.uid] = memory
                evictions.append((candidate, decision.reason))
                continue
            if decision.reason is Reason.INFEASIBLE_CACHED:
                self._metrics.skipped_infeasible(work.labels)
                if memory.decision != decision:
                    self._hands.tell_skipped(candidate.pod, decision.reason)
            self._settle(candidate.pod, decision, memory)
        return evictions

    def _decide_resize(self, candidate: Candidate, plan: ResizePlan, work: Work) -> ResizeDecision:
        pod, memory = candidate.pod, self._memory(candidate.pod)
        return decide_resize(
            candidate.why,
            pod,
            mode=work.scaled.mode,
            group=work.group(pod),
            plan=plan,
            unfinished=self._unfinished(pod, memory),
            held=memory.held(self._now),
            infeasible=memory.infeasible,
            skip_budget=self._rules.disruption.in_place_skips_budget,
        )

    def _unfinished(self, pod: Pod, memory: PodMemory) -> Reason | None:
        since = resizing_since(
            pod,
            sent_at=None if memory.sent is None else memory.sent.at,
            first_seen=memory.resizing_seen_at,
        )
        return unfinished(
            resize_status(pod), since=since, timeouts=self._rules.timeouts, now=self._now
        )

    async def _resize(
        self, candidate: Candidate, plan: ResizePlan, memory: PodMemory, work: Work
    ) -> tuple[Decision, PodMemory]:
        """Send one resize and settle its budget; what came of it, and what to remember."""
        pod = candidate.pod
        await self._turn(self._resize_turns, pod, memory, work)
        try:
            generation = await self._hands.resize(pod, plan.operations, candidate.why)
        except KubeError as error:
            if may_have_happened(error):
                work.spend(pod)
            return self._refused(error, plan, memory, work)
        work.spend(pod)
        work.resized = True
        self._metrics.resized(work.labels)
        if not is_marked(pod):
            await self._hands.annotate(pod, annotation_operations(pod))
        sent = SentResize(
            at=self._clock.now(),
            generation=generation,
            resource_version=pod.metadata.resource_version,
            restarts=plan.restarts,
        )
        return resize(candidate.why), PodMemory(
            sent=sent,
            spent_ooms=memory.spent_ooms.union(candidate.ooms),
            decision=memory.decision,
        )

    def _refused(
        self, error: KubeError, plan: ResizePlan, memory: PodMemory, work: Work
    ) -> tuple[Decision, PodMemory]:
        mode = work.scaled.mode
        cause = "Infeasible" if is_infeasible(error, mode=mode) else "Error"
        self._metrics.resize_failed(work.labels, f"InPlaceUpdate{cause}")
        logger.info(
            "resize refused",
            extra={"status": error.status, "reason": error.reason, "error": str(error)},
        )
        return after_refused_resize(
            error,
            memory,
            mode=mode,
            targets=plan.targets,
            interval=self._rules.interval,
            now=self._now,
        )

    # Evictions

    def _count_evictable(self, due: Iterable[tuple[Candidate, Reason]], work: Work) -> None:
        count = sum(
            self._decide_eviction(candidate, why, work).action is Action.EVICT
            for candidate, why in due
        )
        key = (work.labels.size, work.labels.mode.value)
        self._figures.evictable[key] += count
        self._figures.vpas_evictable[key] += count > 0

    async def _evict_all(self, due: Iterable[tuple[Candidate, Reason]], work: Work) -> None:
        """Evict the pods, best first, as far as their groups' budgets go."""
        for candidate, why in due:
            memory = self._memory(candidate.pod)
            decision = self._decide_eviction(candidate, why, work)
            if decision.action is Action.EVICT:
                decision, memory = await self._evict(candidate.pod, decision, memory, work)
            self._settle(candidate.pod, decision, memory)

    def _decide_eviction(self, candidate: Candidate, why: Reason, work: Work) -> Decision:
        pod, policy = candidate.pod, work.scaled.vpa.spec.update_policy
        return decide_eviction(
            why,
            pod,
            group=work.group(pod),
            unfinished=self._unfinished(pod, self._memory(pod)),
            requirements_met=requirements_met(
                None if policy is None else policy.eviction_requirements or (),
                requests=candidate.requests,
                containers=candidate.processed.containers,
            ),
            admission_ready=self._admission_ready,
        )

    async def _evict(
        self, pod: Pod, decision: Decision, memory: PodMemory, work: Work
    ) -> tuple[Decision, PodMemory]:
        """Send one eviction and settle its budget; an error costs nothing, as far as we know."""
        await self._turn(self._eviction_turns, pod, memory, work)
        pending = pod.status.phase == "Pending"
        try:
            await self._hands.evict(pod, work.scaled.vpa, decision.reason)
        except KubeError as error:
            self._metrics.eviction_failed(work.labels, "EvictionError")
            logger.info(
                "eviction refused",
                extra={
                    "pod": f"{pod.metadata.namespace}/{pod.metadata.name}",
                    "status": error.status,
                    "error": str(error),
                },
            )
            if may_have_happened(error) and not pending:
                work.spend(pod)
            return after_refused_eviction(error), memory
        if not pending:
            work.spend(pod)
        work.evicted = True
        self._metrics.evicted(work.labels)
        return decision, replace(memory, evicted=True)

    # Pace and figures

    async def _turn(self, limiter: RateLimiter, pod: Pod, memory: PodMemory, work: Work) -> None:
        """Wait for the rate limit, but not beyond the end of the pass."""
        try:
            async with asyncio.timeout_at(self._deadline):
                await limiter.acquire()
        except TimeoutError:
            self._settle(pod, wait(Reason.RATE_LIMITED), memory)
            if limiter is self._eviction_turns:
                self._metrics.eviction_failed(work.labels, "EvictionRateLimiterWaitFailed")
            else:
                self._metrics.resize_failed(work.labels, "InPlaceUpdateRateLimiterWaitFailed")
            raise PassOverError from None

    def _count_done(self, work: Work) -> None:
        key = (work.labels.size, work.labels.mode.value)
        self._figures.vpas_evicted[key] += work.evicted
        self._figures.vpas_updated[work.labels.size] += work.resized


def _last_resize(pod: LivePod, memory: PodMemory) -> datetime | None:
    times = [resized_at(pod), None if memory.sent is None else memory.sent.at]
    return max((time for time in times if time is not None), default=None)


def _is_due(decision: Decision) -> bool:
    return decision.action in (Action.RESIZE, Action.EVICT)

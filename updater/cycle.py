"""One pass over all pods: decide, act, settle, for each VPA in order."""

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from common.annotations import boosted_containers
from common.api.autoscaling import UpdateMode
from common.api.core import Pod
from common.runtime.clock import Clock
from common.target.owners import Controller
from updater.attempts import Attempts, PodMemory
from updater.candidate import (
    Candidate,
    is_out,
    judge_pod,
    last_resize,
    note_resizing,
    plan_candidate,
    plan_unboost,
)
from updater.decision import Action, Decision, Reason, wait
from updater.disruption import (
    ReplicaGroup,
    decide_eviction,
    groups_of,
    replica_group,
)
from updater.eviction_requirements import requirements_met
from updater.ledger import Ledger
from updater.live_pod import LivePod
from updater.metrics import Metrics, VpaLabels, size_label
from updater.resize import (
    ResizeDecision,
    decide_resize,
    resize_status,
    resizing_since,
    unfinished,
)
from updater.resize_plan import ResizePlan
from updater.sending import PassOverError, Sender, Turns
from updater.snapshot import AutoscaledPods, ClusterSnapshot
from updater.startup_boost import (
    boost_duration,
    decide_unboost,
    expired_boosts,
    has_startup_boost,
)
from updater.update_order import rank
from updater.work import Hands, Present, Rules, Work

logger = logging.getLogger(__name__)

# How many VPAs are worked on at a time. An eviction takes a real API server a tenth of a second
# (benchmarks/README.md), and the updater would only wait.
_WORKERS = 10
_IN_PLACE = (UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE)
_NEW_PODS_ONLY = (UpdateMode.OFF, UpdateMode.INITIAL)


class Pass:
    """Works through one snapshot once; what it learned is in ``attempts`` afterwards."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        attempts: Attempts,
        *,
        rules: Rules,
        present: Present,
        hands: Hands,
        metrics: Metrics,
        turns: Turns,
        clock: Clock,
        admission_ready: bool,
        deadline: float,
        stop: asyncio.Event,
    ) -> None:
        self._snapshot = snapshot
        self._rules = rules
        self._hands = hands
        self._metrics = metrics
        self._now = clock.now()
        self._admission_ready = admission_ready
        self._ledger = Ledger(attempts)
        self._sender = Sender(
            present=present,
            hands=hands,
            turns=turns,
            ledger=self._ledger,
            metrics=metrics,
            interval=rules.interval,
            clock=clock,
            now=self._now,
            deadline=deadline,
            stop=stop,
        )

    @property
    def attempts(self) -> Attempts:
        """What to remember for the next pass."""
        return self._ledger.attempts(self._snapshot.living)

    async def run(self, *, first: int = 0) -> None:
        """Visit every VPA once, a few at a time, starting with the one at ``first``.

        Pods of one VPA are acted on one after the other: each counts against what the next may.
        Where a rate limit ends passes early, a start that moves on gives every VPA its turn.
        """
        autoscaled = self._snapshot.autoscaled
        start = first % len(autoscaled) if autoscaled else 0
        left = iter((*autoscaled[start:], *autoscaled[:start]))
        pace = asyncio.Lock()
        try:
            async with asyncio.TaskGroup() as group:
                workers = [group.create_task(self._work(left, pace)) for _ in range(_WORKERS)]
        finally:
            self._metrics.publish(self._ledger.figures)
        causes = [over for over in (worker.result() for worker in workers) if over is not None]
        if causes:
            logger.warning("pass ended early", extra={"cause": str(causes[0])})

    async def _work(
        self, left: Iterator[AutoscaledPods], pace: asyncio.Lock
    ) -> PassOverError | None:
        """Take one VPA after the other; returns why it stopped before the last one, if it did.

        The end of the pass cancels nobody: a call that has been sent is waited for, or the
        next pass would not know of it.
        """
        try:
            for scaled in left:
                async with pace:  # one worker at a time goes on, or ten think at a stretch
                    await asyncio.sleep(0)  # watches, health and the Lease have their turn
                await self._update(scaled)
        except PassOverError as over:
            return over
        return None

    async def _update(self, scaled: AutoscaledPods) -> None:
        live = [pod for pod in scaled.pods if not self._ledger.memory(pod).evicted]
        meta = scaled.vpa.metadata
        labels = VpaLabels(size_label(len(live)), scaled.mode, meta.name, meta.namespace)
        self._ledger.figures.controlled[labels.size, scaled.mode.value] += len(live)
        self._metrics.prepare(labels)
        work = Work(scaled, labels, self._groups(scaled, live))
        try:
            live = await self._unboost_all(live, work)
            if scaled.mode in _NEW_PODS_ONLY:
                return
            if scaled.mode is UpdateMode.IN_PLACE and not self._rules.features.in_place:
                return
            candidates = self._candidates(scaled, live)
            if scaled.mode in _IN_PLACE:
                await self._evict_all(await self._resize_all(candidates, work), work)
            else:
                due = [(candidate, candidate.why) for candidate in candidates]
                self._count_evictable(due, work)
                await self._evict_all(due, work)
        finally:
            self._count_done(work)

    # Judging

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
                out={pod.metadata.uid for pod in pods if is_out(pod, self._ledger.memory(pod))},
                boosted=any(boosted_containers(pod.metadata.annotations) for pod in pods),
                mode=scaled.mode,
                policy=rules,
            )
            for controller, pods in groups_of(live, scaled.controllers).items()
        }

    def _candidates(self, scaled: AutoscaledPods, live: Iterable[LivePod]) -> list[Candidate]:
        """The pods that are worth an update, best first; the others are settled at once."""
        candidates = []
        for pod in live:
            memory = note_resizing(self._ledger.memory(pod), resize_status(pod), now=self._now)
            if not memory.shows(pod):
                self._ledger.settle(pod, wait(Reason.RESIZE_SENT), memory)
                continue
            judged = judge_pod(
                pod,
                scaled.vpa,
                scaled.limit_ranges,
                memory=memory,
                resized_at=last_resize(pod, memory),
                thresholds=self._rules.thresholds,
                features=self._rules.features,
                now=self._now,
            )
            if isinstance(judged, Decision):  # refusals from now on are not in a row with earlier
                self._ledger.settle(pod, judged, replace(memory, refusal=None))
            else:
                self._ledger.remember(pod, memory)
                candidates.append(judged)
        candidates.sort(key=lambda candidate: rank(candidate.drift, candidate.pod))
        return candidates

    def _unfinished(self, pod: Pod, memory: PodMemory) -> Reason | None:
        since = resizing_since(
            pod,
            sent_at=None if memory.sent is None else memory.sent.at,
            first_seen=memory.resizing_seen_at,
        )
        return unfinished(
            resize_status(pod), since=since, timeouts=self._rules.timeouts, now=self._now
        )

    # Start-up boosts

    async def _unboost_all(self, live: list[LivePod], work: Work) -> list[LivePod]:
        """Take back the boosts that are over; the pods that never had one, or not any more.

        Source: updater.md 11.
        """
        vpa = work.scaled.vpa
        if not (self._rules.features.cpu_startup_boost and has_startup_boost(vpa)):
            return live
        others = []
        for pod in live:
            memory = self._ledger.memory(pod)
            if not boosted_containers(pod.metadata.annotations):
                others.append(pod)
            elif not memory.shows(pod):
                self._ledger.settle(pod, wait(Reason.RESIZE_SENT), memory)
            else:
                decision, memory = await self._unboost(pod, memory, work)
                self._ledger.settle(pod, decision, memory)
        return others

    async def _unboost(
        self, pod: LivePod, memory: PodMemory, work: Work
    ) -> tuple[Decision, PodMemory]:
        scaled = work.scaled
        expired = expired_boosts(
            pod, duration_of=lambda name: boost_duration(scaled.vpa, name), now=self._now
        )
        decision = decide_unboost(pod, group=work.group(pod), expired=expired)
        if decision.action is not Action.RESIZE:
            return decision, memory
        planned = plan_unboost(
            pod, scaled.vpa, scaled.limit_ranges, mode=scaled.mode, expired=expired
        )
        if isinstance(planned, Decision):
            return planned, memory
        plan, annotations = planned
        return await self._sender.unboost(pod, plan, annotations, memory, work)

    # In place

    async def _resize_all(
        self, candidates: Iterable[Candidate], work: Work
    ) -> list[tuple[Candidate, Reason]]:
        """Resize what can be resized; what is to be evicted instead, and why."""
        plans = self._plans(candidates, work.scaled)
        self._count_updatable(plans, work)
        evictions = []
        for candidate, plan in plans:
            pod = candidate.pod
            decided = self._decide_resize(candidate, plan, work)
            decision = decided.decision
            memory = replace(self._ledger.memory(pod), infeasible=decided.infeasible)
            if decision.action is Action.RESIZE:
                decision, memory = await self._sender.resize(
                    pod, plan, candidate.why, memory, work, ooms=candidate.ooms
                )
            if decision.action is Action.EVICT:
                self._ledger.remember(pod, memory)
                evictions.append((candidate, decision.reason))
                continue
            if decision.reason is Reason.INFEASIBLE_CACHED:
                self._metrics.skipped_infeasible(work.labels)
                if memory.decision != decision:
                    self._hands.tell_skipped(pod, decision.reason)
            self._ledger.settle(pod, decision, memory)
        return evictions

    def _plans(
        self, candidates: Iterable[Candidate], scaled: AutoscaledPods
    ) -> list[tuple[Candidate, ResizePlan]]:
        plans = []
        for candidate in candidates:
            planned = plan_candidate(candidate, scaled.vpa, scaled.limit_ranges)
            if isinstance(planned, Decision):
                self._ledger.settle(candidate.pod, planned, self._ledger.memory(candidate.pod))
            else:
                plans.append((candidate, planned))
        return plans

    def _decide_resize(self, candidate: Candidate, plan: ResizePlan, work: Work) -> ResizeDecision:
        pod, memory = candidate.pod, self._ledger.memory(candidate.pod)
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

    # Evictions

    async def _evict_all(self, due: Iterable[tuple[Candidate, Reason]], work: Work) -> None:
        """Evict the pods, best first, as far as their groups' budgets go."""
        for candidate, why in due:
            pod, memory = candidate.pod, self._ledger.memory(candidate.pod)
            decision = self._decide_eviction(candidate, why, work)
            if decision.action is Action.EVICT:
                decision, memory = await self._sender.evict(pod, decision.reason, memory, work)
            self._ledger.settle(pod, decision, memory)

    def _decide_eviction(self, candidate: Candidate, why: Reason, work: Work) -> Decision:
        pod, policy = candidate.pod, work.scaled.vpa.spec.update_policy
        return decide_eviction(
            why,
            pod,
            group=work.group(pod),
            unfinished=self._unfinished(pod, self._ledger.memory(pod)),
            requirements_met=requirements_met(
                None if policy is None else policy.eviction_requirements or (),
                requests=candidate.requests,
                containers=candidate.processed.containers,
            ),
            admission_ready=self._admission_ready,
        )

    # Figures

    def _count_evictable(self, due: Iterable[tuple[Candidate, Reason]], work: Work) -> None:
        count = sum(
            self._decide_eviction(candidate, why, work).action is Action.EVICT
            for candidate, why in due
        )
        key = (work.labels.size, work.labels.mode.value)
        self._ledger.figures.evictable[key] += count
        self._ledger.figures.vpas_evictable[key] += count > 0

    def _count_updatable(self, plans: Iterable[tuple[Candidate, ResizePlan]], work: Work) -> None:
        count = sum(
            self._decide_resize(candidate, plan, work).decision.action
            in (Action.RESIZE, Action.EVICT)
            for candidate, plan in plans
        )
        self._ledger.figures.updatable[work.labels.size] += count
        self._ledger.figures.vpas_updatable[work.labels.size] += count > 0

    def _count_done(self, work: Work) -> None:
        key = (work.labels.size, work.labels.mode.value)
        self._ledger.figures.vpas_evicted[key] += work.evicted
        self._ledger.figures.vpas_updated[work.labels.size] += work.resized

"""One VPA in one pass: its pods are judged, resized, and evicted where that is left."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial

from common.annotations import boosted_containers
from common.api.core import Pod
from common.recommendation.changes import patch_changes
from common.runtime.object_errors import Boundary
from common.runtime.pausing import pausing
from common.target.controlling import has_startup_boost
from updater.abreast import Begin, act_abreast
from updater.candidate import Candidate, note_kills, plan_unboost
from updater.candidate_plan import Planner, plan_candidate_part
from updater.decision import Action, Decision, Reason, wait
from updater.disruption import decide_eviction
from updater.eviction_requirements import requirements_met
from updater.judging import Judge
from updater.ledger import Subject
from updater.live_pod import LivePod
from updater.metrics import VpaLabels, size_label
from updater.pass_context import Due, Means
from updater.pending_resize import plan_other_specs
from updater.pod_reports import PodReports
from updater.preflight import Preflight
from updater.resize import not_sent
from updater.resize_choice import ChosenResize, ResizeChoice, rollout_holds
from updater.resize_plan import ResizePlan
from updater.snapshot import IN_PLACE, AutoscaledPods
from updater.startup_boost import (
    boost_duration,
    decide_unboost,
    expired_boosts,
    first_expiry,
)
from updater.unlearnt_ooms import hold_eviction
from updater.work import Work

_PENDING = (Reason.RESIZE_INFEASIBLE, Reason.RESIZE_DEFERRED_TOO_LONG)
_SLICE = 500  # pods before other tasks get their turn


class VpaPass:
    """First :meth:`resize`, then :meth:`evict`, if it says that something is left."""

    def __init__(self, scaled: AutoscaledPods, means: Means) -> None:
        self.scaled = scaled
        self._rules = means.rules
        self._ledger = means.ledger
        self._sender = means.sender
        self._metrics = means.metrics
        self._admission_ready = means.admission_ready
        self._nodes = means.nodes
        self._now = means.now
        self._reports = PodReports(scaled, means.ledger, means.hands)
        self._judge = Judge(
            scaled,
            rules=means.rules,
            daemons=means.daemons,
            ledger=means.ledger,
            note_blocked=self._reports.note_blocked,
            errors=means.metrics.object_errors,
            now=means.now,
        )
        self._live = self._judge.live
        meta = scaled.vpa.metadata
        labels = VpaLabels(size_label(len(self._live)), scaled.mode, meta.name, meta.namespace)
        self._evictions = None if means.trackers is None else means.trackers.of(scaled)
        self._preflight = Preflight(
            scaled,
            self._evictions,
            most_boost=self._rules.most_boost,
            pod_level=self._rules.pod_level,
            quota_use=means.quota_use,
            dry_runs=means.dry_runs,
        )
        self._work = Work(scaled, labels, self._judge.groups, self._evictions)
        self._due: Sequence[Due] = ()

    async def resize(self) -> bool:
        """Do all but the evictions; whether some are to be done."""
        if self._evictions is not None:
            self._evictions.observe_if_waiting()
        if not self.scaled.pods:
            return False
        labels, mode = self._work.labels, self.scaled.mode
        self._ledger.figures.controlled[labels.size, mode.value] += len(self._live)
        self._metrics.prepare(labels)
        if self._judge.has_daemons:
            self._work.count_groups()
        others = await self._unboost_all()
        if self._judge.acts_on_running_pods:
            candidates = await self._judge.candidates(others)
            for each in candidates:
                self._reports.expect(each.pod, Subject(self.scaled.vpa, each))
            if mode in IN_PLACE:
                self._due = await self._resize_all(candidates)
            else:
                unhurried = pausing(candidates, every=_SLICE)
                self._due = [self._is_due(each, each.why) async for each in unhurried]
                self._count_evictable()
        if not self._due:
            self._count_done()
            rest = self._judge.rest
            if rest is not None:
                self._ledger.rest(self.scaled, rest)
        return bool(self._due)

    async def evict(self) -> None:
        """Evict the pods that :meth:`resize` left to it, best first, as far as budgets go."""
        await act_abreast(
            self._due,
            lane=lambda due: self._work.workload(due.pod),
            decide=self._evict,
            settle=lambda due, decision: self._reports.settle_unsent(due.pod, decision),
            around=lambda due: self._around("evict", due.pod),
        )
        self._count_done()

    # Start-up boosts

    async def _unboost_all(self) -> Sequence[LivePod]:
        """Take back the boosts that are over; the pods that never had one, or not any more.

        Source: updater.md 11.
        """
        features = self._rules.features
        if not (features.cpu_startup_boost and has_startup_boost(self.scaled.vpa)):
            return self._live
        boosted: list[LivePod] = []
        others: list[LivePod] = []
        for pod in self._live:
            (boosted if boosted_containers(pod.metadata.annotations) else others).append(pod)
        await act_abreast(
            boosted,
            lane=self._work.workload,
            decide=self._unboost,
            settle=self._reports.settle,
            around=partial(self._around, "unboost"),
        )
        return others

    def _unboost(self, pod: Pod) -> Decision | Begin:
        scaled = self.scaled
        if not self._ledger.memory(pod).shows(pod):
            return wait(Reason.RESIZE_SENT)
        duration_of = partial(boost_duration, scaled.vpa)
        expired = expired_boosts(pod, duration_of=duration_of, now=self._now)
        decision = decide_unboost(
            pod,
            group=self._work.group(pod),
            expired=expired,
            until=first_expiry(pod, duration_of=duration_of),
        )
        if decision.action is not Action.RESIZE:
            return decision
        planned = plan_unboost(
            pod,
            scaled.vpa,
            scaled.limit_ranges,
            mode=scaled.mode,
            expired=expired,
            killed_at=self._ledger.memory(pod).killed_at,
            now=self._now,
            pod_level=self._rules.pod_level,
        )
        if isinstance(planned, Decision):
            return planned
        plan, annotations = planned
        changes = patch_changes(pod, plan.operations)
        self._reports.expect(pod, Subject(scaled.vpa, resize=changes))
        if rollout_holds(pod, plan, self._work.group(pod)):
            return wait(Reason.ROLLOUT_IN_PROGRESS)
        refused = self._preflight.resize(pod, plan)
        if refused is not None:
            decision = not_sent(refused)
            self._reports.remember_blocked(pod, decision, self._ledger.memory(pod))
            return decision

        async def unboost() -> None:
            memory = note_kills(self._ledger.memory(pod), pod)
            decision, after = await self._sender.unboost(pod, plan, annotations, memory, self._work)
            after = self._reports.note_blocked(pod, decision, after)
            self._reports.settle_as(pod, (decision, after))

        return self._begin(pod, self._preflight.resizing(pod, plan, unboost))

    # In place

    async def _resize_all(self, candidates: Iterable[Candidate]) -> list[Due]:
        """Resize what can be resized; what is to be evicted instead, and why."""
        plans = await self._plans(candidates)
        self._count_updatable(plans)
        evictions: dict[str, Reason] = {}  # by UID

        def settle(pod: Pod, decision: Decision) -> None:
            if decision.action is Action.EVICT:
                evictions[pod.metadata.uid] = decision.reason
            else:
                self._settle_unresized(pod, decision)

        def resize(candidate: Candidate, plan: ResizePlan) -> Decision | Begin:
            pod = candidate.pod
            chosen = self._choice(candidate, plan).choose()
            memory = replace(self._ledger.memory(pod), infeasible=chosen.infeasible)
            if chosen.decision.action is not Action.RESIZE:
                self._reports.remember_blocked(pod, chosen.decision, memory)
                return chosen.decision
            self._ledger.remember(pod, memory)

            async def send() -> None:
                settle(pod, await self._send(candidate, chosen))

            return self._begin(pod, self._preflight.resizing(pod, chosen.plan, send))

        await act_abreast(
            plans,
            lane=lambda planned: self._work.workload(planned[0].pod),
            decide=lambda planned: resize(*planned),
            settle=lambda planned, decision: settle(planned[0].pod, decision),
            around=lambda planned: self._around("resize", planned[0].pod),
        )
        return [
            self._is_due(candidate, evictions[candidate.pod.metadata.uid], plan)
            for candidate, plan in plans
            if candidate.pod.metadata.uid in evictions
        ]

    def _settle_unresized(self, pod: Pod, decision: Decision) -> None:
        if decision.reason is Reason.INFEASIBLE_CACHED:
            self._metrics.skipped_infeasible(self._work.labels)
        self._reports.settle(pod, decision)

    async def _plans(self, candidates: Iterable[Candidate]) -> list[tuple[Candidate, ResizePlan]]:
        plans, planner = [], Planner(self.scaled.vpa, self.scaled.limit_ranges)
        async for candidate in pausing(candidates, every=_SLICE):
            with self._around("plan", candidate.pod):
                planned = planner.plan(candidate)
                if isinstance(planned, Decision):
                    self._reports.settle(candidate.pod, planned)
                else:
                    plans.append((candidate, planned))
        return plans

    def _choice(self, candidate: Candidate, plan: ResizePlan) -> ResizeChoice:
        pod, memory, scaled = candidate.pod, self._ledger.memory(candidate.pod), self.scaled
        node = self._nodes.of(pod.node_name) if isinstance(pod, LivePod) else None
        refusal = memory.held(self._now, plan.targets, node)
        return ResizeChoice(
            candidate=candidate,
            plan=plan,
            mode=scaled.mode,
            group=self._work.group(pod),
            node=node,
            infeasible=memory.infeasible,
            held=None if refusal is None else wait(refusal.reason, until=refusal.until),
            unfinished=self._judge.unfinished(pod, memory),
            since=self._judge.resizing_since(pod, memory),
            had_its_time=self._judge.has_had_its_time(pod, memory),
            skip_budget=self._rules.disruption.in_place_skips_budget,
            part=partial(plan_candidate_part, candidate, scaled.vpa, scaled.limit_ranges, node),
            other_specs=partial(plan_other_specs, pod, candidate.processed.containers),
            preflight=partial(self._preflight.resize, pod),
        )

    async def _send(self, candidate: Candidate, chosen: ChosenResize) -> Decision:
        """Send a resize and remember what came of it; how the pod ended."""
        pod = candidate.pod
        decision, after = await self._sender.resize(
            pod,
            chosen.plan,
            chosen.decision.reason,
            self._ledger.memory(pod),
            self._work,
            ooms=candidate.ooms,
            attempt=chosen.attempt,
        )
        self._reports.remember_blocked(pod, decision, after)
        return decision

    # Evictions

    def _is_due(self, candidate: Candidate, why: Reason, plan: ResizePlan | None = None) -> Due:
        pod, policy = candidate.pod, self.scaled.vpa.spec.update_policy
        return Due(
            candidate,
            why,
            self._judge.unfinished(pod, self._ledger.memory(pod)),
            requirements_met(
                None if policy is None else policy.eviction_requirements or (),
                requests=candidate.requests,
                containers=candidate.processed.containers,
                policy=self.scaled.vpa.spec.resource_policy,
            ),
            hold_eviction(pod, candidate.unlearnt),
            plan,
        )

    def _evict(self, due: Due) -> Decision | Begin:
        pod, decision = due.pod, self._decide_eviction(due)
        if decision.action is Action.EVICT:
            decision = self._preflight.hold_up(pod) or decision
        if decision.action is not Action.EVICT:
            instead = self._instead(due, decision)
            return decision if instead is None else self._begin(pod, instead)

        async def evict() -> None:
            memory, changes = self._ledger.memory(pod), due.candidate.changes
            reason, work, ask = decision.reason, self._work, self._preflight.ask
            ended = await self._sender.evict(pod, reason, memory, work, changes=changes, ask=ask)
            if ended[0].reason is Reason.EVICTION_REFUSED:
                self._ledger.remember(pod, ended[1])
                instead = self._instead(due, ended[0])
                if instead is not None:
                    return await work.reserved(pod, instead)()
            self._reports.emit_preflight(pod, ended[0])
            return self._reports.settle_as(pod, ended)

        counted = evict if self._evictions is None else self._evictions.counted(evict)
        return self._begin(pod, self._preflight.evicting(pod, counted))

    def _instead(self, due: Due, decision: Decision) -> Begin | None:
        """Return the resize to send while a pending one leads to no eviction (X100, X102)."""
        if due.plan is None or due.why not in _PENDING:
            return None
        choice = self._choice(due.candidate, due.plan)
        chosen = choice.instead(decision, choice.infeasible)
        if chosen is None or chosen.decision.action is not Action.RESIZE:
            return None

        async def send() -> None:
            self._reports.settle(due.pod, await self._send(due.candidate, chosen))

        return self._preflight.resizing(due.pod, chosen.plan, send)

    def _decide_eviction(self, due: Due) -> Decision:
        return due.unlearnt or decide_eviction(
            due.why,
            due.pod,
            group=self._work.group(due.pod),
            unfinished=due.unfinished,
            requirements_met=due.requirements_met,
            admission_ready=self._admission_ready,
        )

    # What is sent, and counted

    def _around(self, stage: str, pod: Pod) -> Boundary:
        meta = pod.metadata
        return self._metrics.object_errors.around(stage, "Pod", meta.namespace, meta.name)

    def _begin(self, pod: Pod, call: Begin) -> Decision | Begin:
        """Reserve the pod's part of the budget when the call is begun, unless the pass is over."""
        return wait(Reason.NO_TURN) if self._sender.over else self._work.reserved(pod, call)

    def _count_evictable(self) -> None:
        count = 0
        for due in self._due:
            with self._around("evict", due.pod):
                count += self._decide_eviction(due).action is Action.EVICT
        key = (self._work.labels.size, self._work.labels.mode.value)
        self._ledger.figures.evictable[key] += count
        self._ledger.figures.vpas_evictable[key] += count > 0

    def _count_updatable(self, plans: Collection[tuple[Candidate, ResizePlan]]) -> None:
        count = 0
        for candidate, plan in plans:
            with self._around("resize", candidate.pod):
                chosen = self._choice(candidate, plan).choose()
                count += chosen.decision.action in (Action.RESIZE, Action.EVICT)
        self._ledger.figures.updatable[self._work.labels.size] += count
        self._ledger.figures.vpas_updatable[self._work.labels.size] += count > 0

    def _count_done(self) -> None:
        labels = self._work.labels
        self._ledger.figures.vpas_evicted[labels.size, labels.mode.value] += self._work.evicted
        self._ledger.figures.vpas_updated[labels.size] += self._work.resized

"""Folds the results of a plan's actions into the outcomes of pods and the next progress."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from common.api.core import Pod
from common.errors import DecodeError, KubeError, NotLeadingError
from common.recommendation.resource_changes import ResourceChange, patch_changes
from common.resources import MEMORY
from common.target.owners import Controller
from updater.call_results import Accepted, CallResult, NotSent, Refused, Tried
from updater.capacity.capacity_requests import CapacityDemand
from updater.capacity.reservations import FoundRoom, Reservation, pods_by_workload
from updater.decision import Action, Decision, Reason, wait
from updater.eviction.breaker import record_eviction
from updater.eviction.dry_run_answer import DryRunRefusal, after_answer, after_error, refusal_after
from updater.eviction.replica_groups import Budgets
from updater.failures import after_refused_eviction, after_refused_resize, may_have_happened
from updater.pass_context import PassContext
from updater.plan.actions import EvictPod, PodPlan, ResizePod, TryReplacement
from updater.plan.assessment import Assessment, Undecided
from updater.plan.candidate import Candidate
from updater.plan.finished_resizes import before_next_resize
from updater.plan.pod_outcome import PodOutcome
from updater.plan.progress import VpaProgress
from updater.plan.vpa_plan import VpaPlan
from updater.resize.memory_decrease import SentDecrease
from updater.resize.resize_plan import ResizePlan
from updater.snapshot.live_pod import LivePod
from updater.state import CallRefused, PodMemory, SentResize

# The default --request-timeout of an API server: a call may be carried out until then.
LATEST = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Folded:
    """The progress after a plan's actions, and the outcomes of its pods.

    ``waiting`` pods stay undecided if ``again`` requires another plan; otherwise their outcomes
    are final.
    """

    progress: VpaProgress
    decided: Sequence[PodOutcome]
    waiting: Sequence[PodOutcome]
    again: bool


def fold(
    assessment: Assessment,
    progress: VpaProgress,
    plan: VpaPlan,
    results: Mapping[str, CallResult],
    context: PassContext,
) -> Folded:
    """Fold the results by pod UID.

    A budget is used if its call was accepted or may have been carried out. That includes a missing
    result, which means an unexpected error.
    """
    folding = _Folding(assessment, progress, plan, context)
    for each in plan.pods:
        folding.take(each, results.get(each.pod.metadata.uid))
    return folding.folded()


class _Folding:
    """Collects the consequences of results, one pod after the other."""

    def __init__(
        self,
        assessment: Assessment,
        progress: VpaProgress,
        plan: VpaPlan,
        context: PassContext,
    ) -> None:
        self._scaled = assessment.scaled
        self._progress = replace(
            progress, breaker=plan.breaker, demands=_all_demands(progress.demands, plan.demands)
        )
        self._context = context
        self._budgets = Budgets(assessment.scaled, progress.groups)
        self._reservations: dict[str, Reservation] = {}
        self._known: Mapping[Controller, frozenset[str]] | None = None  # UIDs, by workload
        self._decided: list[PodOutcome] = []
        self._waiting: list[PodOutcome] = []
        self._left = {each.pod.metadata.uid: each for each in progress.undecided}
        self._differs = False  # some result differs from the assumption of the plan

    def folded(self) -> Folded:
        """Return the result."""
        progress = replace(
            self._progress,
            reservations={**self._progress.reservations, **self._reservations},
            groups=self._budgets.groups,
            undecided=tuple(self._left.values()),
        )
        again = self._differs and bool(self._left)
        return Folded(progress, self._decided, self._waiting, again)

    def take(self, planned: PodPlan, result: CallResult | None) -> None:
        """Fold the result of one pod's action; None: no action, or an unexpected error."""
        match planned.action:
            case None:
                self._take_unsent(planned)
            case TryReplacement(controller):
                self._take_dry_run(planned, controller, result)
            case EvictPod(room):
                self._take_eviction(planned, room, result)
            case ResizePod() as action:
                self._take_resize(planned, action, result)

    # Each kind of action

    def _take_unsent(self, planned: PodPlan) -> None:
        if not planned.waits:
            self._decide(planned.outcome)
            return
        outcome = planned.outcome
        waits_for = outcome.decision if outcome.decision.action is not Action.EVICT else None
        self._keep(replace(planned.undecided, memory=outcome.memory, waits_for=waits_for), outcome)

    def _take_dry_run(
        self, planned: PodPlan, controller: Controller, result: CallResult | None
    ) -> None:
        outcome = planned.outcome
        self._differs = True
        match result:
            case NotSent(decision):
                self._decide(replace(outcome, decision=decision))
            case Tried(answer):
                self._answer(controller, self._after_dry_run(planned.pod, answer))
                self._keep(replace(planned.undecided, memory=outcome.memory), outcome)
            case _:
                self._drop(planned.pod)

    def _after_dry_run(self, pod: Pod, answer: Pod | KubeError | DecodeError) -> Decision | None:
        if not isinstance(answer, Pod):
            return after_error(pod, answer)
        vpa, limit_ranges = self._scaled.vpa, self._scaled.limit_ranges
        return after_answer(answer, vpa, limit_ranges, pod_level=self._context.rules.pod_level)

    def _answer(self, controller: Controller, found: Decision | None) -> None:
        context, progress = self._context, self._progress
        before = context.before.dry_runs.get(controller)
        refusal: DryRunRefusal | None = None
        if found is not None and found.is_preflight and context.templates is not None:
            refusal = refusal_after(
                found,
                self._scaled.vpa,
                before=before,
                generation=context.templates.generation(controller),
                interval=context.rules.interval,
                now=context.now,
            )
            found = refusal.decision
        elif found is not None:
            refusal = before  # no result: the next pass repeats the dry run
        refusals = (
            progress.refusals if refusal is None else {**progress.refusals, controller: refusal}
        )
        answers = {**progress.dry_runs, controller: found}
        self._progress = replace(progress, dry_runs=answers, refusals=refusals)

    def _take_eviction(
        self, planned: PodPlan, room: FoundRoom | None, result: CallResult | None
    ) -> None:
        pod, outcome = planned.pod, planned.outcome
        match result:
            case NotSent(decision):
                self._differs = True
                self._decide(replace(outcome, decision=decision))
            case Accepted(at):
                self._count_eviction(pod, at)
                self._reserve(pod, room, at)
                self._progress = replace(self._progress, evicted=True)
                self._decide(replace(outcome, memory=replace(outcome.memory, evicted=True)))
            case Refused(at, error):
                if may_have_happened(error):
                    self._reserve(pod, room, at)
                self._refuse_eviction(planned, at, error)
            case _:
                self._count_eviction(pod, self._context.now)
                self._reserve(pod, room, self._context.now)
                self._drop(pod)

    def _refuse_eviction(self, planned: PodPlan, at: datetime, error: KubeError) -> None:
        changes = planned.outcome.subject.changes
        outcome = _noting_refusal(planned.outcome, "eviction refused", error, changes)
        if may_have_happened(error):
            self._count_eviction(planned.pod, at)
            outcome = _unanswered(outcome, at)
        else:
            self._differs = True
        decision = after_refused_eviction(error)
        outcome = replace(outcome, decision=decision)
        if decision.reason is Reason.EVICTION_REFUSED and planned.undecided.plan is not None:
            again = replace(
                planned.undecided, memory=outcome.memory, refused=decision, waits_for=None
            )
            self._keep(again, outcome)
        else:
            self._decide(outcome)

    def _take_resize(self, planned: PodPlan, action: ResizePod, result: CallResult | None) -> None:
        pod, outcome = planned.pod, planned.outcome
        match result:
            case NotSent(decision):
                self._differs = True
                outcome = replace(outcome, decision=decision)
            case Accepted(at, resized):
                if action.disrupts:
                    self._budgets.spend(pod)
                if action.plan.changes:
                    self._progress = replace(self._progress, resized=True)
                    outcome = replace(outcome, memory=_sent(planned, action, resized, at))
            case Refused(at, error):
                outcome = self._refuse_resize(planned, action, at, error)
            case _:
                self._budgets.spend(pod)
                self._drop(pod)
                return
        outcome = outcome.noting_block()
        if outcome.decision.action is not Action.EVICT:
            self._decide(outcome)
            return
        self._differs = True
        why, memory = outcome.decision.reason, outcome.memory
        self._keep(
            replace(planned.undecided, memory=memory, evict_for=why, waits_for=None), outcome
        )

    def _refuse_resize(
        self, planned: PodPlan, action: ResizePod, at: datetime, error: KubeError
    ) -> PodOutcome:
        pod, rules = planned.pod, self._context.rules
        changes = patch_changes(pod, action.plan.operations)
        outcome = _noting_refusal(planned.outcome, "resize refused", error, changes)
        if not may_have_happened(error):
            self._differs = True
        else:
            if action.disrupts:
                self._budgets.spend(pod)
            if action.plan.restarts:
                outcome = _unanswered(outcome, at)
        if action.unboosted:
            return replace(outcome, decision=wait(Reason.UNBOOST_FAILED))
        decision, memory = after_refused_resize(
            error,
            outcome.memory,
            mode=self._scaled.mode,
            targets=action.plan.targets,
            interval=rules.interval,
            pace=rules.pace,
            attempt=action.attempt,
            now=self._context.now,
        )
        return replace(outcome, decision=decision, memory=memory)

    # Common parts

    def _count_eviction(self, pod: Pod, at: datetime) -> None:
        self._budgets.spend(pod)
        breaker = self._progress.breaker
        if breaker is not None and self._context.rules.checks_outcomes:
            breaker = record_eviction(breaker, pod, self._scaled, now=at)
            self._progress = replace(self._progress, breaker=breaker)

    def _reserve(self, pod: LivePod, room: FoundRoom | None, at: datetime) -> None:
        workload = self._scaled.workload_of(pod)
        if room is None or workload is None:
            return
        if self._known is None:
            self._known = pods_by_workload(self._scaled)
        meta = pod.metadata
        self._reservations[meta.uid] = Reservation(
            room=room,
            namespace=meta.namespace,
            name=meta.name,
            vpa=self._scaled.vpa.metadata.uid,
            workload=workload,
            known=self._known[workload],
            at=at,
        )

    def _decide(self, outcome: PodOutcome) -> None:
        self._drop(outcome.pod)
        self._decided.append(outcome)

    def _drop(self, pod: Pod) -> None:
        self._left.pop(pod.metadata.uid, None)

    def _keep(self, undecided: Undecided, outcome: PodOutcome) -> None:
        self._left[undecided.pod.metadata.uid] = undecided
        self._waiting.append(outcome)


def _all_demands(
    before: Mapping[Controller, CapacityDemand], more: Mapping[Controller, CapacityDemand]
) -> Mapping[Controller, CapacityDemand]:
    """Return the demands of all plans of the pass so far, which are of different pods."""
    if not more:
        return before
    found = dict(before)
    for workload, demand in more.items():
        known = found.get(workload)
        count = 0 if known is None else known.count
        found[workload] = replace(known or demand, count=count + demand.count)
    return found


def _sent(planned: PodPlan, action: ResizePod, resized: Pod, at: datetime) -> PodMemory:
    """Return the memory of a pod after an accepted resize."""
    pod, memory, candidate = planned.pod, planned.outcome.memory, planned.undecided.candidate
    plan, attempt = action.plan, action.attempt
    finished = before_next_resize(pod, memory)
    sent = SentResize(
        at=at,
        generation=resized.metadata.generation,
        resource_version=pod.metadata.resource_version,
        restarts=plan.restarts,
        withdraws=plan.withdraws,
        ooms=frozenset() if candidate is None else frozenset(candidate.ooms),
        pending_since=attempt.pending_since,
    )
    return PodMemory(
        sent=sent,
        infeasible=attempt.rest,
        resized_at=finished.resized_at,
        spent_ooms=finished.spent_ooms,
        killed_at=memory.killed_at,
        decreases=_decreases(memory, candidate, plan, at),
        lowers_limit=memory.lowers_limit,
        blocked=memory.blocked,
        decision=memory.decision,
        decided_at=memory.decided_at,
    )


def _decreases(
    memory: PodMemory, candidate: Candidate | None, plan: ResizePlan, at: datetime
) -> Mapping[str, SentDecrease]:
    """Return the last decreases of memory limits after the resize (X139, X140)."""
    if candidate is None or plan.withdraws:
        return memory.decreases
    sent = {
        each.container: SentDecrease(at=at, limit=each.before, is_last=each.is_last)
        for each in candidate.memory_steps
        if each.held is None
        and each.before is not None  # a limit that was added has no step before it
        and (each.container, MEMORY) in plan.changes
    }
    return {**memory.decreases, **sent} if sent else memory.decreases


def _unanswered(outcome: PodOutcome, at: datetime) -> PodOutcome:
    """Return the outcome of a pod that counts as out of service until ``LATEST`` after the call."""
    return replace(outcome, memory=replace(outcome.memory, unanswered_until=at + LATEST))


def _noting_refusal(
    outcome: PodOutcome, message: str, error: KubeError, changes: Sequence[ResourceChange]
) -> PodOutcome:
    """Return the outcome with the report of a refusal that differs from the last one (X114).

    A Lease that may have expired refuses every call; the end of the process reports it.
    """
    refused = CallRefused(message, error.status, error.reason, str(error), tuple(changes))
    if refused == outcome.memory.refused or isinstance(error, NotLeadingError):
        return outcome
    memory = replace(outcome.memory, refused=refused)
    return replace(outcome, memory=memory, reports=(*outcome.reports, refused))

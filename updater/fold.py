"""What the results of a plan's actions mean for the pods, their VPA, and the next plan."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from common.api.core import Pod
from common.errors import DecodeError, KubeError, NotLeadingError
from common.recommendation.changes import ResourceChange, patch_changes
from common.target.owners import Controller
from updater.decision import Action, Decision, Reason, evict, wait
from updater.evaluate.update_order import ContainerOomKill
from updater.eviction.budgets import Budgets
from updater.eviction.dry_run_answer import DryRunRefusal, after_answer, after_error, refusal_after
from updater.failures import after_refused_eviction, after_refused_resize, may_have_happened
from updater.pass_context import PassContext
from updater.plan.actions import EvictPod, PodPlan, ResizePod, TryReplacement, UnboostPod, VpaPlan
from updater.plan.assessment import Assessment, Undecided
from updater.plan.candidate import note_kills
from updater.plan.finished_resizes import before_next_resize
from updater.plan.pod_outcome import CallRefused, PodOutcome, PodReport, note_blocked
from updater.plan.progress import VpaProgress, breaker_after_eviction
from updater.resize.resize_plan import ResizePlan
from updater.resize.resize_state import WHOLE, Attempt
from updater.state import PodMemory, RefusedCall, SentResize

# An API server gives a call up after a minute (--request-timeout), whoever still waits for it.
LATEST = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The API server took the call at that time; ``pod`` is the one in its answer."""

    at: datetime
    pod: Pod


@dataclass(frozen=True, slots=True)
class Refused:
    """The API server refused the call, or did not answer."""

    at: datetime
    error: KubeError


@dataclass(frozen=True, slots=True)
class Tried:
    """The answer to a dry run: the pod as it would be stored, or why there is none."""

    answer: Pod | KubeError | DecodeError


@dataclass(frozen=True, slots=True)
class NotSent:
    """Nothing was sent; ``decision`` says why."""

    decision: Decision


CallResult: TypeAlias = Accepted | Refused | Tried | NotSent


@dataclass(frozen=True, slots=True)
class Folded:
    """The progress after a plan's actions, and the pods about which something was decided.

    ``waiting`` pods stay undecided while ``again`` says that there is something left to plan;
    otherwise their outcomes are final, too.
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
    """Return what follows from the results, by pod UID.

    A part of a budget is used up if its call was accepted, or may have been carried out; so it is
    if a result is missing, because its action broke on the way.
    """
    folding = _Folding(assessment, progress, plan, context)
    for each in plan.pods:
        folding.take(each, results.get(each.pod.metadata.uid))
    return folding.folded()


class _Folding:
    """Collects what follows, one pod after the other."""

    def __init__(
        self,
        assessment: Assessment,
        progress: VpaProgress,
        plan: VpaPlan,
        context: PassContext,
    ) -> None:
        self._scaled = assessment.scaled
        self._progress = replace(progress, breaker=plan.breaker)
        self._context = context
        self._budgets = Budgets(assessment.scaled, progress.groups)
        self._decided: list[PodOutcome] = []
        self._waiting: list[PodOutcome] = []
        self._left = {each.pod.metadata.uid: each for each in progress.undecided}
        self._short = False  # something is not as the plan assumed

    def folded(self) -> Folded:
        """Return the sum."""
        progress = replace(
            self._progress, groups=self._budgets.groups, undecided=tuple(self._left.values())
        )
        again = self._short and bool(self._left)
        return Folded(progress, self._decided, self._waiting, again)

    def take(self, planned: PodPlan, result: CallResult | None) -> None:
        """Take the result of one pod's action; none if there was none, or it broke."""
        match planned.action:
            case None:
                self._take_unsent(planned)
            case TryReplacement(controller):
                self._take_dry_run(planned, controller, result)
            case EvictPod() as action:
                self._take_eviction(planned, action, result)
            case ResizePod() as action:
                self._take_resize(planned, action, result)
            case UnboostPod() as action:
                self._take_unboost(planned, action, result)

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
        self._short = True
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
            refusal = before  # no result: the next pass asks again
        refusals = (
            progress.refusals if refusal is None else {**progress.refusals, controller: refusal}
        )
        answers = {**progress.dry_runs, controller: found}
        self._progress = replace(progress, dry_runs=answers, refusals=refusals)

    def _take_eviction(self, planned: PodPlan, action: EvictPod, result: CallResult | None) -> None:
        pod, outcome = planned.pod, planned.outcome
        match result:
            case NotSent(decision):
                self._short = True
                self._decide(replace(outcome, decision=decision))
            case Accepted(at):
                self._count_eviction(pod, at)
                self._progress = replace(self._progress, evicted=True)
                memory = replace(outcome.memory, evicted=True)
                self._decide(replace(outcome, decision=evict(action.reason), memory=memory))
            case Refused(at, error):
                self._refuse_eviction(planned, action, at, error)
            case _:
                self._count_eviction(pod, self._context.now)
                self._drop(pod)

    def _refuse_eviction(
        self, planned: PodPlan, action: EvictPod, at: datetime, error: KubeError
    ) -> None:
        outcome = planned.outcome
        memory, reports = _note_refusal(
            "eviction refused", outcome.memory, error, changes=action.changes
        )
        if may_have_happened(error):
            self._count_eviction(planned.pod, at)
            memory = _unanswered(memory, at)
        else:
            self._short = True
        decision = after_refused_eviction(error)
        outcome = replace(outcome, decision=decision, memory=memory).adding(reports)
        if decision.reason is Reason.EVICTION_REFUSED and planned.undecided.plan is not None:
            again = replace(planned.undecided, memory=memory, refused=decision, waits_for=None)
            self._keep(again, outcome)
        else:
            self._decide(outcome)

    def _take_resize(self, planned: PodPlan, action: ResizePod, result: CallResult | None) -> None:
        pod, outcome = planned.pod, planned.outcome
        after = self._after_resize(planned, action, result)
        if after is None:
            self._budgets.spend(pod)
            self._drop(pod)
            return
        decision, memory, reports = after
        memory, news = note_blocked(pod, decision, memory, outcome.subject)
        outcome = replace(outcome, decision=decision, memory=memory).adding((*reports, *news))
        if decision.action is not Action.EVICT:
            self._decide(outcome)
            return
        self._short = True
        evicting = replace(
            planned.undecided, memory=memory, evict_for=decision.reason, waits_for=None
        )
        self._keep(evicting, outcome)

    def _after_resize(
        self, planned: PodPlan, action: ResizePod, result: CallResult | None
    ) -> tuple[Decision, PodMemory, tuple[PodReport, ...]] | None:
        pod, memory = planned.pod, planned.outcome.memory
        match result:
            case NotSent(decision):
                self._short = True
                return decision, memory, ()
            case Accepted(at, resized):
                if action.disrupts:
                    self._budgets.spend(pod)
                self._progress = replace(self._progress, resized=True)
                memory = _sent(
                    pod, action.plan, resized, memory, at, ooms=action.ooms, attempt=action.attempt
                )
                return Decision(Action.RESIZE, action.reason), memory, ()
            case Refused(at, error):
                memory, reports = self._refuse_resize(pod, action, memory, at, error)
                rules = self._context.rules
                decision, memory = after_refused_resize(
                    error,
                    memory,
                    mode=self._scaled.mode,
                    targets=action.plan.targets,
                    interval=rules.interval,
                    pace=rules.pace,
                    attempt=action.attempt,
                    now=self._context.now,
                )
                return decision, memory, reports
            case _:
                return None

    def _take_unboost(
        self, planned: PodPlan, action: UnboostPod, result: CallResult | None
    ) -> None:
        pod, outcome = planned.pod, planned.outcome
        memory, reports = note_kills(outcome.memory, pod), tuple[PodReport, ...]()
        match result:
            case NotSent(decision):
                self._short = True
            case Accepted(at, resized):
                decision = Decision(Action.RESIZE, Reason.STARTUP_BOOST_OVER)
                if action.disrupts:
                    self._budgets.spend(pod)
                    self._progress = replace(self._progress, resized=True)
                    memory = _sent(pod, action.plan, resized, memory, at)
            case Refused(at, error):
                decision = wait(Reason.UNBOOST_FAILED)
                memory, reports = self._refuse_resize(pod, action, memory, at, error)
            case _:
                self._budgets.spend(pod)
                self._drop(pod)
                return
        memory, news = note_blocked(pod, decision, memory, outcome.subject)
        outcome = replace(outcome, decision=decision, memory=memory)
        self._decide(outcome.adding((*reports, *news)))

    def _refuse_resize(
        self,
        pod: Pod,
        action: ResizePod | UnboostPod,
        memory: PodMemory,
        at: datetime,
        error: KubeError,
    ) -> tuple[PodMemory, tuple[PodReport, ...]]:
        changes = patch_changes(pod, action.plan.operations)
        memory, reports = _note_refusal("resize refused", memory, error, changes=changes)
        if not may_have_happened(error):
            self._short = True
            return memory, reports
        if action.disrupts:
            self._budgets.spend(pod)
        return _unanswered(memory, at) if action.plan.restarts else memory, reports

    # What every kind does

    def _count_eviction(self, pod: Pod, at: datetime) -> None:
        self._budgets.spend(pod)
        controller, breaker = self._budgets.controller(pod), self._progress.breaker
        if controller is not None and breaker is not None and self._context.rules.checks_outcomes:
            breaker = breaker_after_eviction(breaker, pod, controller, self._scaled, now=at)
            self._progress = replace(self._progress, breaker=breaker)

    def _decide(self, outcome: PodOutcome) -> None:
        self._drop(outcome.pod)
        self._decided.append(outcome)

    def _drop(self, pod: Pod) -> None:
        self._left.pop(pod.metadata.uid, None)

    def _keep(self, undecided: Undecided, outcome: PodOutcome) -> None:
        self._left[undecided.pod.metadata.uid] = undecided
        self._waiting.append(outcome)


def _sent(
    pod: Pod,
    plan: ResizePlan,
    resized: Pod,
    memory: PodMemory,
    at: datetime,
    *,
    ooms: Collection[ContainerOomKill] = (),
    attempt: Attempt = WHOLE,
) -> PodMemory:
    """Return the memory of a pod whose resize the API server took."""
    finished = before_next_resize(pod, memory)
    sent = SentResize(
        at=at,
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


def _unanswered(memory: PodMemory, at: datetime) -> PodMemory:
    """Return the memory of a pod whose part of the budget stays used for a while."""
    return replace(memory, unanswered_until=at + LATEST)


def _note_refusal(
    message: str, memory: PodMemory, error: KubeError, *, changes: Sequence[ResourceChange]
) -> tuple[PodMemory, tuple[PodReport, ...]]:
    """Return the memory and the report of a refusal that is another one than the last (X114).

    A Lease that may have run out refuses every call and ends the process, which reports it.
    """
    refused = RefusedCall(message, error.status, error.reason, str(error))
    if refused == memory.refused or isinstance(error, NotLeadingError):
        return memory, ()
    report = CallRefused(message, error.status, error.reason, str(error), tuple(changes))
    return replace(memory, refused=refused), (report,)

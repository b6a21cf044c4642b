"""What is done to the pods of a VPA now: actions and decisions as values, with no effect yet.

Source: updater.md 2-11; the order of boosts, resizes and evictions is that of the reference.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from common.api.core import Pod
from common.recommendation.changes import ResourceChange, patch_changes
from common.runtime.object_errors import Boundary
from common.target.owners import Controller
from updater.assessment import Assessment, Steps, Undecided, observe_replacements
from updater.attempts import PodMemory
from updater.breaker import Allowance, Breaker, Observation, allowance
from updater.budgets import Budgets
from updater.candidate import Candidate, plan_unboost
from updater.candidate_plan import plan_candidate_part
from updater.decision import Action, Decision, Reason, wait
from updater.disruption import decide_eviction
from updater.eviction_requirements import requirements_met
from updater.live_pod import LivePod
from updater.pass_context import PassContext
from updater.pending_resize import plan_other_specs
from updater.pod_outcome import PodOutcome, PodReport, Subject, note_blocked, note_skipped
from updater.progress import VpaProgress, breaker_after_eviction
from updater.resize import Attempt, not_sent
from updater.resize_choice import ChosenResize, ResizeChoice, rollout_holds
from updater.resize_clock import has_had_its_time, resizing_since, wait_for_resize
from updater.resize_plan import ResizePlan
from updater.snapshot import IN_PLACE
from updater.startup_boost import boost_duration, decide_unboost, expired_boosts, first_expiry
from updater.unlearnt_ooms import hold_eviction
from updater.update_order import OomKill

_STEP = 200  # pods
_PENDING = (Reason.RESIZE_INFEASIBLE, Reason.RESIZE_DEFERRED_TOO_LONG)
_BUDGET_USED = frozenset({Reason.BUDGET_EXHAUSTED, Reason.ROLLOUT_IN_PROGRESS})
_ALLOWANCE_USED = frozenset({Reason.REPLACEMENT_UNVERIFIED, Reason.ACTUATION_SUSPENDED})


@dataclass(frozen=True, slots=True)
class UnboostPod:
    """Take start-up boosts back: resize the pod, if that changes it, and drop the annotations."""

    plan: ResizePlan
    annotations: tuple[str, ...]

    @property
    def disrupts(self) -> bool:
        """Return whether the pod's containers notice it."""
        return bool(self.plan.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizePod:
    """Resize a pod in place."""

    plan: ResizePlan
    reason: Reason
    ooms: tuple[OomKill, ...]  # that it answers
    attempt: Attempt

    @property
    def disrupts(self) -> bool:
        """Return whether the pod's containers may notice it; they don't of a withdrawal."""
        return not self.plan.withdraws


@dataclass(frozen=True, slots=True)
class EvictPod:
    """Evict a pod; ``changes`` are what it is for."""

    reason: Reason
    changes: tuple[ResourceChange, ...]


@dataclass(frozen=True, slots=True)
class TryReplacement:
    """Create the pod's replacement in a dry run; one answer holds for its whole workload (X112)."""

    controller: Controller


PodAction: TypeAlias = UnboostPod | ResizePod | EvictPod | TryReplacement


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    """The decision on one pod, and the action that it leads to, if it does.

    It is the final one if every action of the plan is carried out. ``waits`` says that it would
    be another one if some action is not, or that it waits for the answer to a dry run.
    """

    pod: LivePod
    outcome: PodOutcome
    undecided: Undecided
    action: PodAction | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VpaPlan:
    """What is done to the pods of one VPA now, in this order.

    ``updatable`` and ``evictable`` count the pods for which nothing but a part of a budget may be
    missing; None where the mode has no such pods.
    """

    pods: Sequence[PodPlan]
    breaker: Breaker | None  # after ``observation``, before any eviction of this plan
    observation: Observation | None
    updatable: int | None
    evictable: int | None


def plan_vpa(assessment: Assessment, progress: VpaProgress, context: PassContext) -> Steps[VpaPlan]:
    """Plan for all pods of a VPA that are still undecided, as if each action succeeded.

    Boosts that are over come first, then resizes, then evictions, the latter two best first. Each
    takes its part of the budgets from those after it. What others have used up is decided again
    only when some action has failed, and gave its part back.
    """
    planner = _VpaPlanner(assessment, progress, context)
    boosts, resizes, evictions = _by_stage(progress.undecided)
    yield from planner.unboost(boosts)
    dues = [_Due(each, each.memory) for each in evictions]
    if assessment.scaled.mode in IN_PLACE:
        due = yield from planner.resize(resizes)
        dues = _in_order(progress.undecided, (*dues, *due))
    yield from planner.evict(dues)
    return planner.plan


def _by_stage(
    undecided: Iterable[Undecided],
) -> tuple[list[Undecided], list[Undecided], list[Undecided]]:
    boosts: list[Undecided] = []
    resizes: list[Undecided] = []
    evictions: list[Undecided] = []
    for each in undecided:
        if each.candidate is None:
            boosts.append(each)
        elif each.evict_for is None:
            resizes.append(each)
        else:
            evictions.append(each)
    return boosts, resizes, evictions


@dataclass(frozen=True, slots=True)
class _Due:
    """A candidate that is to be evicted, and what its resize has come to."""

    undecided: Undecided
    memory: PodMemory
    reports: tuple[PodReport, ...] = ()


def _in_order(undecided: Iterable[Undecided], dues: Iterable[_Due]) -> list[_Due]:
    by_uid = {due.undecided.pod.metadata.uid: due for due in dues}
    uids = (each.pod.metadata.uid for each in undecided)
    return [by_uid[uid] for uid in uids if uid in by_uid]


class _VpaPlanner:
    """Collects the plan of one VPA; the budgets are those left by the actions planned so far."""

    def __init__(self, assessment: Assessment, progress: VpaProgress, context: PassContext) -> None:
        self._scaled = assessment.scaled
        self._preflight = assessment.preflight
        self._progress = progress
        self._context = context
        self._budgets = Budgets(assessment.scaled, progress.groups)
        self._breaker = _PlannedBreaker(assessment, progress, context)
        self._tried: set[Controller] = set()  # in dry runs of this plan
        self._pods: list[PodPlan] = []
        self._updatable: int | None = None
        self._evictable: int | None = None

    @property
    def plan(self) -> VpaPlan:
        """What was planned so far."""
        return VpaPlan(
            pods=self._pods,
            breaker=self._breaker.observed,
            observation=self._breaker.observation,
            updatable=self._updatable,
            evictable=self._evictable,
        )

    # Start-up boosts

    def unboost(self, boosts: Sequence[Undecided]) -> Steps[None]:
        """Plan to take back the boosts that are over; source: updater.md 11."""
        for number, each in enumerate(boosts, start=1):
            if number % _STEP == 0:
                yield
            if not self._still_waits(each):
                with self._around("unboost", each.pod):
                    self._unboost(each)

    def _unboost(self, each: Undecided) -> None:
        pod, memory, scaled = each.pod, each.memory, self._scaled
        subject = Subject(scaled.vpa)
        planned = self._unboosting(pod, memory)
        if isinstance(planned, Decision):
            self._add(each, PodOutcome(pod, planned, memory, subject))
            return
        plan = planned.plan
        subject = Subject(scaled.vpa, resize=patch_changes(pod, plan.operations))
        if rollout_holds(pod, plan, self._budgets.group(pod)):
            decision = wait(Reason.ROLLOUT_IN_PROGRESS)
            self._add(each, PodOutcome(pod, decision, memory, subject))
            return
        refused = self._preflight.refuse_resize(pod, plan)
        if refused is not None:
            decision = not_sent(refused)
            memory, reports = note_blocked(pod, decision, memory, subject)
            self._add(each, PodOutcome(pod, decision, memory, subject, reports))
            return
        decision = Decision(Action.RESIZE, Reason.STARTUP_BOOST_OVER)
        self._send_resize(each, PodOutcome(pod, decision, memory, subject), planned)

    def _unboosting(self, pod: LivePod, memory: PodMemory) -> UnboostPod | Decision:
        scaled, context = self._scaled, self._context
        if not memory.shows(pod):
            return wait(Reason.RESIZE_SENT)
        duration_of = partial(boost_duration, scaled.vpa)
        expired = expired_boosts(pod, duration_of=duration_of, now=context.now)
        decision = decide_unboost(
            pod,
            group=self._budgets.group(pod),
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
            killed_at=memory.killed_at,
            now=context.now,
            pod_level=context.rules.pod_level,
        )
        return planned if isinstance(planned, Decision) else UnboostPod(*planned)

    # Resizes

    def resize(self, candidates: Sequence[Undecided]) -> Steps[list[_Due]]:
        """Plan the resizes; return the pods that are to be evicted instead."""
        choices: list[tuple[Undecided, ChosenResize]] = []
        for number, each in enumerate(candidates, start=1):
            if number % _STEP == 0:
                yield
            if not self._still_waits(each):
                with self._around("resize", each.pod):
                    choices.append((each, self._choice(each).choose()))
        actions = (Action.RESIZE, Action.EVICT)
        self._updatable = sum(chosen.decision.action in actions for _, chosen in choices)
        spent, dues = self._budgets.spent, list[_Due]()
        for number, (each, first) in enumerate(choices, start=1):
            if number % _STEP == 0:
                yield
            chosen = first
            with self._around("resize", each.pod):
                left_less = self._budgets.spent > spent or self._preflight.has_quotas()
                if left_less and first.decision.action in actions:
                    chosen = self._choice(each).choose()
                due = self._resize(each, chosen)
                if due is not None:
                    dues.append(due)
        return dues

    def _resize(self, each: Undecided, chosen: ChosenResize) -> _Due | None:
        pod, decision = each.pod, chosen.decision
        subject = Subject(self._scaled.vpa, each.candidate)
        memory = replace(each.memory, infeasible=chosen.infeasible)
        if decision.action is Action.RESIZE:
            outcome = PodOutcome(pod, decision, memory, subject)
            self._send_resize(each, outcome, _sending(each, chosen))
            return None
        memory, reports = note_blocked(pod, decision, memory, subject)
        if decision.action is Action.EVICT:
            due = replace(each, memory=memory, evict_for=decision.reason)
            return _Due(due, memory, reports)
        self._add(each, PodOutcome(pod, decision, memory, subject, reports))
        return None

    def _choice(self, each: Undecided) -> ResizeChoice:
        pod, memory, scaled, context = each.pod, each.memory, self._scaled, self._context
        candidate, plan = _known(each)
        node = context.nodes.of(pod.node_name)
        refusal = memory.held(context.now, plan.targets, node)
        rules = context.rules
        time_of = partial(
            has_had_its_time, timeouts=rules.timeouts, interval=rules.interval, now=context.now
        )
        return ResizeChoice(
            candidate=candidate,
            plan=plan,
            mode=scaled.mode,
            group=self._budgets.group(pod),
            node=node,
            infeasible=memory.infeasible,
            held=None if refusal is None else wait(refusal.reason, until=refusal.until),
            unfinished=self._unfinished(pod, memory),
            since=resizing_since(pod, memory),
            had_its_time=time_of(pod, memory),
            skip_budget=rules.disruption.in_place_skips_budget,
            part=partial(plan_candidate_part, candidate, scaled.vpa, scaled.limit_ranges, node),
            other_specs=partial(plan_other_specs, pod, candidate.processed.containers),
            preflight=partial(self._preflight.refuse_resize, pod),
        )

    def _unfinished(self, pod: Pod, memory: PodMemory) -> Decision | None:
        rules = self._context.rules
        return wait_for_resize(
            pod, memory, timeouts=rules.timeouts, interval=rules.interval, now=self._context.now
        )

    # Evictions

    def evict(self, dues: Sequence[_Due]) -> Steps[None]:
        """Plan evictions, or what is done instead of one that is held up."""
        decided: list[tuple[_Due, Decision]] = []
        for number, due in enumerate(dues, start=1):
            if number % _STEP == 0:
                yield
            if not self._still_waits(due.undecided):
                with self._around("evict", due.undecided.pod):
                    decided.append((due, self._decide_eviction(due)))
        if self._scaled.mode not in IN_PLACE:
            evictable = sum(decision.action is Action.EVICT for _, decision in decided)
            self._evictable = evictable
        spent = self._budgets.spent
        for number, (due, first) in enumerate(decided, start=1):
            if number % _STEP == 0:
                yield
            decision = first
            with self._around("evict", due.undecided.pod):
                if self._budgets.spent > spent and first.action is Action.EVICT:
                    decision = self._decide_eviction(due)
                self._evict(due, decision)

    def _decide_eviction(self, due: _Due) -> Decision:
        each = due.undecided
        if each.refused is not None:
            return each.refused
        pod, candidate, vpa = each.pod, each.candidate, self._scaled.vpa
        if candidate is None or each.evict_for is None:
            raise AssertionError(each)
        policy = vpa.spec.update_policy
        return hold_eviction(pod, candidate.unlearnt) or decide_eviction(
            each.evict_for,
            pod,
            group=self._budgets.group(pod),
            unfinished=self._unfinished(pod, due.memory),
            requirements_met=requirements_met(
                None if policy is None else policy.eviction_requirements or (),
                requests=candidate.requests,
                containers=candidate.processed.containers,
                policy=vpa.spec.resource_policy,
            ),
            admission_ready=self._context.admission_ready,
        )

    def _evict(self, due: _Due, decision: Decision) -> None:
        each = due.undecided
        pod, subject = each.pod, Subject(self._scaled.vpa, each.candidate)
        if decision.action is Action.EVICT:
            decision = self._hold_up(pod) or decision
        if decision.action is not Action.EVICT:
            chosen = self._instead(due, decision)
            if chosen is not None:
                outcome = PodOutcome(pod, chosen.decision, due.memory, subject, due.reports)
                self._send_resize(each, outcome, _sending(each, chosen))
                return
            reports = (*due.reports, *note_skipped(decision, due.memory, subject))
            self._add(each, PodOutcome(pod, decision, due.memory, subject, reports))
            return
        outcome = PodOutcome(pod, decision, due.memory, subject, due.reports)
        controller = self._budgets.controller(pod)
        self._budgets.spend(pod)
        if controller is not None:
            self._breaker.evict(pod, controller)
        if controller is None or not self._is_to_be_tried(controller):
            self._preflight.take_for_replacement(pod)
            self._add(each, outcome, EvictPod(decision.reason, subject.changes))
        elif controller in self._tried:
            self._add(each, outcome, waits=True)
        else:
            self._tried.add(controller)
            self._add(each, outcome, TryReplacement(controller), waits=True)

    def _hold_up(self, pod: Pod) -> Decision | None:
        """Return why the pod is not evicted now, though the rest allows it."""
        allowed = self._breaker.allowance()
        if allowed is not None and not allowed.allows_one:
            return wait(allowed.reason, until=allowed.until)
        return self._preflight.refuse_replacement(pod) or self._refused_in_dry_run(pod)

    def _refused_in_dry_run(self, pod: Pod) -> Decision | None:
        """Return the last answer about the pod's workload, if it keeps the pod from eviction."""
        controller = self._budgets.controller(pod)
        if controller is None:
            return None
        if controller in self._progress.dry_runs:
            return self._progress.dry_runs[controller]
        context = self._context
        refusal = context.before.dry_runs.get(controller)
        if refusal is None:
            return None
        generation = None if context.templates is None else context.templates.generation(controller)
        stands = refusal.stands(self._scaled.vpa, now=context.now, generation=generation)
        return refusal.decision if stands else None

    def _is_to_be_tried(self, controller: Controller) -> bool:
        templates = self._context.templates
        return (
            templates is not None
            and controller not in self._progress.dry_runs
            and templates.supports(controller)
        )

    def _instead(self, due: _Due, decision: Decision) -> ChosenResize | None:
        """Return the resize to send while a pending one leads to no eviction (X100, X102)."""
        each = replace(due.undecided, memory=due.memory)
        if each.plan is None or each.evict_for not in _PENDING:
            return None
        if each.refused not in (None, wait(Reason.EVICTION_REFUSED)):
            return None
        choice = self._choice(each)
        chosen = choice.instead(decision, choice.infeasible)
        if chosen is None or chosen.decision.action is not Action.RESIZE:
            return None
        return chosen

    # Items of the plan

    def _send_resize(
        self, each: Undecided, outcome: PodOutcome, action: UnboostPod | ResizePod
    ) -> None:
        if action.disrupts:
            self._budgets.spend(each.pod)
        self._preflight.take_for_resize(each.pod, action.plan)
        self._add(each, outcome, action)

    def _add(
        self,
        each: Undecided,
        outcome: PodOutcome,
        action: PodAction | None = None,
        *,
        waits: bool = False,
    ) -> None:
        reason = outcome.decision.reason
        used_up = action is None and (reason in _BUDGET_USED or reason in _ALLOWANCE_USED)
        self._pods.append(
            PodPlan(
                pod=each.pod,
                outcome=outcome,
                undecided=each,
                action=action,
                waits=waits or (used_up and each.refused is None),
            )
        )

    def _still_waits(self, each: Undecided) -> bool:
        """Return whether what the pod waits for since an earlier plan is still used up."""
        if each.waits_for is None:
            return False
        if each.waits_for.reason in _BUDGET_USED:
            return not self._budgets.allows(each.pod)
        if each.waits_for.reason in _ALLOWANCE_USED:
            allowed = self._breaker.allowance()
            return allowed is not None and not allowed.allows_one
        return False

    def _around(self, stage: str, pod: Pod) -> Boundary:
        meta = pod.metadata
        return self._context.errors.around(stage, "Pod", meta.namespace, meta.name)


class _PlannedBreaker:
    """The breaker of a VPA's evictions, as if those planned so far were accepted."""

    def __init__(self, assessment: Assessment, progress: VpaProgress, context: PassContext) -> None:
        self._scaled = assessment.scaled
        self._context = context
        self._planned = self.observed = progress.breaker
        self.observation: Observation | None = None

    def allowance(self) -> Allowance | None:
        """Return how many more evictions pass; None: replacements aren't checked."""
        if not self._context.rules.checks_outcomes:
            return None
        return allowance(self._current(), now=self._context.now)

    def evict(self, pod: Pod, controller: Controller) -> None:
        """Count an eviction that is planned."""
        if self._context.rules.checks_outcomes:
            before, now = self._current(), self._context.now
            self._planned = breaker_after_eviction(before, pod, controller, self._scaled, now=now)

    def _current(self) -> Breaker:
        """Return the breaker; it is made of the pods that are there when it is first needed."""
        if self._planned is None:
            self.observation = observe_replacements(self._scaled, self._context)
            self._planned = self.observed = self.observation.breaker
        return self._planned


def _known(each: Undecided) -> tuple[Candidate, ResizePlan]:
    if each.candidate is None or each.plan is None:
        raise AssertionError(each)
    return each.candidate, each.plan


def _sending(each: Undecided, chosen: ChosenResize) -> ResizePod:
    return ResizePod(
        plan=chosen.plan,
        reason=chosen.decision.reason,
        ooms=() if each.candidate is None else each.candidate.ooms,
        attempt=chosen.attempt,
    )

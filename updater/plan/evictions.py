"""The stage of a plan that evicts candidates, or does something smaller instead."""

from collections.abc import Sequence

from common.api.core import Pod
from common.target.owners import Controller
from updater.decision import Action, Decision, Reason, wait
from updater.evaluate.unlearnt_ooms import hold_eviction
from updater.eviction.disruption import decide_eviction
from updater.eviction.eviction_requirements import requirements_met
from updater.plan.actions import EvictPod, TryReplacement
from updater.plan.assessment import Steps, Undecided
from updater.plan.draft import PlanDraft
from updater.plan.pod_outcome import PodOutcome, Subject, note_skipped
from updater.plan.resize_choice import ChosenResize
from updater.plan.resizes import Due, action_of, choice_of, unfinished_resize
from updater.snapshot.cluster_snapshot import IN_PLACE

_STEP = 200  # pods
_PENDING = (Reason.RESIZE_INFEASIBLE, Reason.RESIZE_DEFERRED_TOO_LONG)


def plan_evictions(draft: PlanDraft, dues: Sequence[Due]) -> Steps[None]:
    """Plan evictions, best first, or what is done instead of one that is held up."""
    decided: list[tuple[Due, Decision]] = []
    for number, due in enumerate(dues, start=1):
        if number % _STEP == 0:
            yield
        if not draft.still_waits(due.undecided):
            with draft.around("evict", due.undecided.pod):
                decided.append((due, _decide(draft, due.undecided)))
    if draft.scaled.mode not in IN_PLACE:
        draft.evictable = sum(decision.action is Action.EVICT for _, decision in decided)
    tried: set[Controller] = set()
    spent = draft.budgets.spent
    for number, (due, first) in enumerate(decided, start=1):
        if number % _STEP == 0:
            yield
        with draft.around("evict", due.undecided.pod):
            decision = first
            if first.action is Action.EVICT and draft.budgets.spent > spent:
                decision = _decide(draft, due.undecided)
            if decision.action is Action.EVICT:
                decision = _hold_up(draft, due.undecided.pod) or decision
            if decision.action is Action.EVICT:
                _evict(draft, due, decision, tried)
            else:
                _hold(draft, due, decision)


def _decide(draft: PlanDraft, each: Undecided) -> Decision:
    if each.refused is not None:
        return each.refused
    pod, candidate, vpa = each.pod, each.candidate, draft.scaled.vpa
    if candidate is None or each.evict_for is None:
        raise AssertionError(each)
    policy = vpa.spec.update_policy
    return hold_eviction(pod, candidate.unlearnt) or decide_eviction(
        each.evict_for,
        pod,
        group=draft.budgets.group(pod),
        unfinished=unfinished_resize(draft, each),
        requirements_met=requirements_met(
            None if policy is None else policy.eviction_requirements or (),
            requests=candidate.requests,
            containers=candidate.processed.containers,
            policy=vpa.spec.resource_policy,
        ),
        admission_ready=draft.context.admission_ready,
    )


def _evict(draft: PlanDraft, due: Due, decision: Decision, tried: set[Controller]) -> None:
    """Evict the pod; where its workload has to be tried in a dry run first, do that."""
    each = due.undecided
    pod, subject = each.pod, Subject(draft.scaled.vpa, each.candidate)
    outcome = PodOutcome(pod, decision, due.memory, subject, due.reports)
    controller = draft.budgets.controller(pod)
    draft.budgets.spend(pod)
    if controller is not None:
        draft.breaker.evict(pod, controller)
    if controller is None or not _is_to_be_tried(draft, controller):
        draft.preflight.take_for_replacement(pod)
        draft.add(each, outcome, EvictPod(decision.reason, subject.changes))
    elif controller in tried:
        draft.add(each, outcome, waits=True)
    else:
        tried.add(controller)
        draft.add(each, outcome, TryReplacement(controller), waits=True)


def _hold(draft: PlanDraft, due: Due, decision: Decision) -> None:
    """Leave the pod, or send the resize that goes before a later eviction."""
    each = due.undecided
    pod, memory, subject = each.pod, due.memory, Subject(draft.scaled.vpa, each.candidate)
    chosen = _instead(draft, each, decision)
    if chosen is not None:
        outcome = PodOutcome(pod, chosen.decision, memory, subject, due.reports)
        draft.send_resize(each, outcome, action_of(each, chosen))
        return
    reports = (*due.reports, *note_skipped(decision, memory, subject))
    draft.add(each, PodOutcome(pod, decision, memory, subject, reports))


def _instead(draft: PlanDraft, each: Undecided, decision: Decision) -> ChosenResize | None:
    """Return the resize to send while a pending one leads to no eviction (X100, X102)."""
    if each.plan is None or each.evict_for not in _PENDING:
        return None
    choice = choice_of(draft, each)
    chosen = choice.instead(decision, choice.infeasible)
    if chosen is None or chosen.decision.action is not Action.RESIZE:
        return None
    return chosen


def _hold_up(draft: PlanDraft, pod: Pod) -> Decision | None:
    """Return why the pod is not evicted now, though the rest allows it."""
    allowed = draft.breaker.allowance()
    if allowed is not None and not allowed.allows_one:
        return wait(allowed.reason, until=allowed.until)
    return draft.preflight.refuse_replacement(pod) or _refused_in_dry_run(draft, pod)


def _refused_in_dry_run(draft: PlanDraft, pod: Pod) -> Decision | None:
    """Return the last answer about the pod's workload, if it keeps the pod from eviction."""
    controller, context = draft.budgets.controller(pod), draft.context
    if controller is None:
        return None
    if controller in draft.progress.dry_runs:
        return draft.progress.dry_runs[controller]
    refusal = context.before.dry_runs.get(controller)
    if refusal is None:
        return None
    generation = None if context.templates is None else context.templates.generation(controller)
    stands = refusal.stands(draft.scaled.vpa, now=context.now, generation=generation)
    return refusal.decision if stands else None


def _is_to_be_tried(draft: PlanDraft, controller: Controller) -> bool:
    templates = draft.context.templates
    return (
        templates is not None
        and controller not in draft.progress.dry_runs
        and templates.supports(controller)
    )

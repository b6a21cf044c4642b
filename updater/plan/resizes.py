"""The stage of a plan that resizes candidates in place, or leaves them to an eviction."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from updater.decision import Action, Decision, wait
from updater.plan.actions import ResizePod
from updater.plan.assessment import Steps, Undecided
from updater.plan.candidate_resize import plan_candidate_part
from updater.plan.draft import PlanDraft
from updater.plan.pod_outcome import PodOutcome, PodReport, Subject, note_blocked
from updater.plan.resize_choice import ChosenResize, ResizeChoice
from updater.plan.resize_clock import has_had_its_time, resizing_since, wait_for_resize
from updater.resize.pending_resize import plan_other_specs
from updater.state import PodMemory

_STEP = 200  # pods
_ACTIONS = (Action.RESIZE, Action.EVICT)


@dataclass(frozen=True, slots=True)
class Due:
    """A candidate that is to be evicted, and what its resize has come to."""

    undecided: Undecided
    memory: PodMemory
    reports: tuple[PodReport, ...] = ()


def plan_resizes(draft: PlanDraft, candidates: Sequence[Undecided]) -> Steps[list[Due]]:
    """Plan the resizes, best first; return the pods that are to be evicted instead."""
    choices: list[tuple[Undecided, ChosenResize]] = []
    for number, each in enumerate(candidates, start=1):
        if number % _STEP == 0:
            yield
        if not draft.still_waits(each):
            with draft.around("resize", each.pod):
                choices.append((each, choice_of(draft, each).choose()))
    draft.updatable = sum(chosen.decision.action in _ACTIONS for _, chosen in choices)
    spent, dues = draft.budgets.spent, list[Due]()
    for number, (each, first) in enumerate(choices, start=1):
        if number % _STEP == 0:
            yield
        with draft.around("resize", each.pod):
            chosen, may_act = first, first.decision.action in _ACTIONS
            if may_act and (draft.budgets.spent > spent or draft.preflight.has_quotas()):
                chosen = choice_of(draft, each).choose()
            due = _plan(draft, each, chosen)
            if due is not None:
                dues.append(due)
    return dues


def _plan(draft: PlanDraft, each: Undecided, chosen: ChosenResize) -> Due | None:
    pod, decision = each.pod, chosen.decision
    subject = Subject(draft.scaled.vpa, each.candidate)
    memory = replace(each.memory, infeasible=chosen.infeasible)
    if decision.action is Action.RESIZE:
        outcome = PodOutcome(pod, decision, memory, subject)
        draft.send_resize(each, outcome, action_of(each, chosen))
        return None
    memory, reports = note_blocked(pod, decision, memory, subject)
    if decision.action is Action.EVICT:
        return Due(replace(each, memory=memory, evict_for=decision.reason), memory, reports)
    draft.add(each, PodOutcome(pod, decision, memory, subject, reports))
    return None


def choice_of(draft: PlanDraft, each: Undecided) -> ResizeChoice:
    """Return what the choice of a resize depends on."""
    pod, memory, scaled, context = each.pod, each.memory, draft.scaled, draft.context
    candidate, plan = each.candidate, each.plan
    if candidate is None or plan is None:
        raise AssertionError(each)
    node, rules = context.nodes.of(pod.node_name), context.rules
    refusal = memory.held(context.now, plan.targets, node)
    return ResizeChoice(
        candidate=candidate,
        plan=plan,
        mode=scaled.mode,
        group=draft.budgets.group(pod),
        node=node,
        infeasible=memory.infeasible,
        held=None if refusal is None else wait(refusal.reason, until=refusal.until),
        unfinished=unfinished_resize(draft, each),
        since=resizing_since(pod, memory),
        had_its_time=has_had_its_time(
            pod, memory, timeouts=rules.timeouts, interval=rules.interval, now=context.now
        ),
        skip_budget=rules.disruption.in_place_skips_budget,
        part=partial(plan_candidate_part, candidate, scaled.vpa, scaled.limit_ranges, node),
        other_specs=partial(plan_other_specs, pod, candidate.processed.containers),
        preflight=partial(draft.preflight.refuse_resize, pod),
    )


def unfinished_resize(draft: PlanDraft, each: Undecided) -> Decision | None:
    """Return the wait for the pod's present resize, unless it has had its time."""
    rules, now = draft.context.rules, draft.context.now
    return wait_for_resize(
        each.pod, each.memory, timeouts=rules.timeouts, interval=rules.interval, now=now
    )


def action_of(each: Undecided, chosen: ChosenResize) -> ResizePod:
    """Return the action that sends the chosen resize."""
    return ResizePod(
        plan=chosen.plan,
        reason=chosen.decision.reason,
        ooms=() if each.candidate is None else each.candidate.ooms,
        attempt=chosen.attempt,
    )

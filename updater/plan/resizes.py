"""The stage of a plan that resizes candidates in place, or passes them on to evictions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from updater.decision import Action, Reason
from updater.plan.assessment import Steps, Undecided
from updater.plan.pod_outcome import PodOutcome, PodReport, Subject
from updater.plan.resize_choice import ChosenResize, ResizeChoice
from updater.plan.vpa_plan import VpaPlan

_STEP = 200  # pods
_ACTIONS = (Action.RESIZE, Action.EVICT)


@dataclass(frozen=True, slots=True)
class Due:
    """A candidate whose eviction is due, with reports about its resize."""

    undecided: Undecided
    reports: tuple[PodReport, ...] = ()


def plan_resizes(vpa_plan: VpaPlan, candidates: Sequence[Undecided]) -> Steps[list[Due]]:
    """Plan the resizes in order; return the pods whose eviction is due instead."""
    choices: list[tuple[Undecided, ChosenResize]] = []
    for number, each in enumerate(candidates, start=1):
        if number % _STEP == 0:
            yield
        if not vpa_plan.still_waits(each):
            with vpa_plan.around("resize", each.pod):
                choices.append((each, ResizeChoice(vpa_plan, each).choose()))
    vpa_plan.updatable = sum(chosen.decision.action in _ACTIONS for _, chosen in choices)
    spent, dues = vpa_plan.budgets.spent, list[Due]()
    for number, (each, first) in enumerate(choices, start=1):
        if number % _STEP == 0:
            yield
        with vpa_plan.around("resize", each.pod):
            chosen, may_act = first, first.decision.action in _ACTIONS
            if may_act and (
                vpa_plan.budgets.spent > spent
                or vpa_plan.preflight.has_quotas()
                or chosen.decision.reason is Reason.RESIZE_PARTIAL  # an earlier step took room
            ):
                chosen = ResizeChoice(vpa_plan, each).choose()
            due = _plan(vpa_plan, each, chosen)
            if due is not None:
                dues.append(due)
    return dues


def _plan(vpa_plan: VpaPlan, each: Undecided, chosen: ChosenResize) -> Due | None:
    decision, subject = chosen.decision, Subject(vpa_plan.scaled.vpa, each.candidate)
    memory = replace(each.memory, infeasible=chosen.infeasible)
    outcome = PodOutcome(each.pod, decision, memory, subject)
    if chosen.action is not None:
        vpa_plan.send_resize(each, outcome, chosen.action)
        return None
    outcome = outcome.noting_block()
    if decision.action is Action.EVICT:
        evicting = replace(each, memory=outcome.memory, evict_for=decision.reason)
        return Due(evicting, outcome.reports)
    vpa_plan.add(each, outcome)
    return None

"""The stage of a plan that evicts candidates, or resizes them if an eviction is held up."""

from collections.abc import Sequence

from common.api.core import Pod
from common.target.owners import Controller
from updater.decision import Action, Decision, Reason
from updater.evaluate.unlearnt_ooms import hold_eviction
from updater.eviction.eviction_decision import decide_eviction
from updater.eviction.eviction_requirements import requirements_met
from updater.plan.actions import EvictPod, TryReplacement
from updater.plan.assessment import Steps, Undecided
from updater.plan.pod_outcome import PodOutcome, Subject, note_skipped
from updater.plan.present_resize import wait_for_resize
from updater.plan.replacement_room import ReplacementRoom
from updater.plan.resize_choice import ResizeChoice
from updater.plan.resizes import Due
from updater.plan.vpa_plan import VpaPlan
from updater.snapshot.cluster_snapshot import IN_PLACE

_STEP = 200  # pods
_PENDING = (Reason.RESIZE_INFEASIBLE, Reason.RESIZE_DEFERRED_TOO_LONG)


def plan_evictions(vpa_plan: VpaPlan, dues: Sequence[Due]) -> Steps[None]:
    """Plan evictions in order, or resizes instead of evictions that are held up.

    A pod whose replacement has no room uses no budget, so pods whose replacements fit go first.
    """
    decided: list[tuple[Due, Decision]] = []
    for number, due in enumerate(dues, start=1):
        if number % _STEP == 0:
            yield
        if not vpa_plan.still_waits(due.undecided):
            with vpa_plan.around("evict", due.undecided.pod):
                decided.append((due, _decide(vpa_plan, due.undecided)))
    if vpa_plan.scaled.mode not in IN_PLACE:
        vpa_plan.evictable = sum(decision.action is Action.EVICT for _, decision in decided)
    room = ReplacementRoom(vpa_plan)
    tried: set[Controller] = set()
    spent = vpa_plan.budgets.spent
    for number, (due, first) in enumerate(decided, start=1):
        if number % _STEP == 0:
            yield
        with vpa_plan.around("evict", due.undecided.pod):
            decision = first
            if first.action is Action.EVICT and vpa_plan.budgets.spent > spent:
                decision = _decide(vpa_plan, due.undecided)
            if decision.action is Action.EVICT:
                decision = _hold_up(vpa_plan, due.undecided.pod) or decision
            if decision.action is Action.EVICT and room.is_checked:
                rooms = yield from vpa_plan.context.rooms.measured()
                decision = room.hold(due.undecided, rooms) or decision
            if decision.action is Action.EVICT:
                _evict(vpa_plan, due, decision, tried, room)
            else:
                _hold(vpa_plan, due, decision)
    vpa_plan.demands = room.demands


def _decide(vpa_plan: VpaPlan, each: Undecided) -> Decision:
    if each.refused is not None:
        return each.refused
    pod, candidate, vpa, context = each.pod, each.candidate, vpa_plan.scaled.vpa, vpa_plan.context
    if candidate is None or each.evict_for is None:
        raise AssertionError(each)
    policy = vpa.spec.update_policy
    return hold_eviction(pod, candidate.unlearnt) or decide_eviction(
        each.evict_for,
        pod,
        group=vpa_plan.budgets.group(pod),
        unfinished=wait_for_resize(pod, each.memory, context.rules, now=context.now),
        requirements_met=requirements_met(
            None if policy is None else policy.eviction_requirements or (),
            requests=candidate.requests,
            containers=candidate.processed.containers,
            policy=vpa.spec.resource_policy,
        ),
        admission_ready=context.admission_ready,
    )


def _evict(
    vpa_plan: VpaPlan,
    due: Due,
    decision: Decision,
    tried: set[Controller],
    room: ReplacementRoom,
) -> None:
    """Add the eviction of the pod, or first the dry run of its replacement if one is due."""
    each = due.undecided
    pod, subject = each.pod, Subject(vpa_plan.scaled.vpa, each.candidate)
    outcome = PodOutcome(pod, decision, each.memory, subject, due.reports)
    controller = vpa_plan.budgets.controller(pod)
    vpa_plan.count_eviction(pod)
    if controller is None or not _needs_dry_run(vpa_plan, controller):
        vpa_plan.preflight.take_for_replacement(pod)
        vpa_plan.add(each, outcome, EvictPod(room.take(pod)))
    elif controller in tried:
        vpa_plan.add(each, outcome, waits=True)
    else:
        tried.add(controller)
        vpa_plan.add(each, outcome, TryReplacement(controller), waits=True)


def _hold(vpa_plan: VpaPlan, due: Due, decision: Decision) -> None:
    """Add the decision not to evict, or the resize that is sent instead (X100, X102)."""
    each = due.undecided
    pod, memory, subject = each.pod, each.memory, Subject(vpa_plan.scaled.vpa, each.candidate)
    chosen = None
    if each.plan is not None and each.evict_for in _PENDING:
        chosen = ResizeChoice(vpa_plan, each).instead(decision, memory.infeasible)
    if chosen is not None and chosen.action is not None:
        outcome = PodOutcome(pod, chosen.decision, memory, subject, due.reports)
        vpa_plan.send_resize(each, outcome, chosen.action)
        return
    reports = (*due.reports, *note_skipped(decision, memory, subject))
    vpa_plan.add(each, PodOutcome(pod, decision, memory, subject, reports))


def _hold_up(vpa_plan: VpaPlan, pod: Pod) -> Decision | None:
    """Return the wait for the breaker, the preflight or a dry run; None: evict the pod."""
    return (
        vpa_plan.breaker_wait()
        or vpa_plan.preflight.refuse_replacement(pod)
        or _refused_in_dry_run(vpa_plan, pod)
    )


def _refused_in_dry_run(vpa_plan: VpaPlan, pod: Pod) -> Decision | None:
    """Return the decision of the last dry run for the pod's workload; None: evict the pod."""
    controller, context = vpa_plan.budgets.controller(pod), vpa_plan.context
    if controller is None:
        return None
    if controller in vpa_plan.progress.dry_runs:
        return vpa_plan.progress.dry_runs[controller]
    refusal = context.before.dry_runs.get(controller)
    if refusal is None:
        return None
    generation = None if context.templates is None else context.templates.generation(controller)
    stands = refusal.stands(vpa_plan.scaled.vpa, now=context.now, generation=generation)
    return refusal.decision if stands else None


def _needs_dry_run(vpa_plan: VpaPlan, controller: Controller) -> bool:
    templates = vpa_plan.context.templates
    return (
        templates is not None
        and controller not in vpa_plan.progress.dry_runs
        and templates.supports(controller)
    )

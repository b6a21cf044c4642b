"""The stage of a plan that removes start-up boosts; source: updater.md 11."""

from collections.abc import Sequence
from functools import partial

from common.recommendation.resource_changes import patch_changes
from updater.decision import Action, Decision, Reason, resize, wait
from updater.plan.actions import ResizePod
from updater.plan.assessment import Steps, Undecided
from updater.plan.candidate import note_kills, plan_unboost
from updater.plan.pod_outcome import PodOutcome, Subject
from updater.plan.vpa_plan import VpaPlan
from updater.resize.resize_decision import not_sent, rollout_holds
from updater.resize.startup_boost_end import (
    boost_duration,
    decide_unboost,
    expired_boosts,
    first_expiry,
)
from updater.snapshot.live_pod import LivePod
from updater.state import PodMemory

_STEP = 200  # pods


def plan_boosts(vpa_plan: VpaPlan, boosted: Sequence[Undecided]) -> Steps[None]:
    """Plan the removal of boosts that have ended."""
    for number, each in enumerate(boosted, start=1):
        if number % _STEP == 0:
            yield
        if not vpa_plan.still_waits(each):
            with vpa_plan.around("unboost", each.pod):
                _plan(vpa_plan, each)


def _plan(vpa_plan: VpaPlan, each: Undecided) -> None:
    pod, memory, vpa = each.pod, each.memory, vpa_plan.scaled.vpa
    action = _action(vpa_plan, pod, memory)
    if isinstance(action, Decision):
        vpa_plan.add(each, PodOutcome(pod, action, memory, Subject(vpa)))
        return
    plan = action.plan
    subject = Subject(vpa, resize=patch_changes(pod, plan.operations))
    if rollout_holds(pod, plan, vpa_plan.budgets.group(pod)):
        decision = wait(Reason.ROLLOUT_IN_PROGRESS)
        vpa_plan.add(each, PodOutcome(pod, decision, memory, subject))
        return
    refused = vpa_plan.preflight.refuse_resize(pod, plan)
    if refused is not None:
        vpa_plan.add(each, PodOutcome(pod, not_sent(refused), memory, subject).noting_block())
        return
    memory = note_kills(memory, pod)
    outcome = PodOutcome(pod, resize(Reason.STARTUP_BOOST_OVER), memory, subject)
    vpa_plan.send_resize(each, outcome, action)


def _action(vpa_plan: VpaPlan, pod: LivePod, memory: PodMemory) -> ResizePod | Decision:
    scaled, context = vpa_plan.scaled, vpa_plan.context
    if not memory.shows(pod):
        return wait(Reason.RESIZE_SENT)
    duration_of = partial(boost_duration, scaled.vpa)
    expired = expired_boosts(pod, duration_of=duration_of, now=context.now)
    decision = decide_unboost(
        pod,
        group=vpa_plan.budgets.group(pod),
        expired=expired,
        until=first_expiry(pod, duration_of=duration_of),
    )
    if decision.action is not Action.RESIZE:
        return decision
    plan = plan_unboost(
        pod,
        scaled.vpa,
        scaled.limit_ranges,
        mode=scaled.mode,
        expired=expired,
        killed_at=memory.killed_at,
        now=context.now,
        pod_level=context.rules.pod_level,
    )
    return plan if isinstance(plan, Decision) else ResizePod(plan=plan, unboosted=expired)

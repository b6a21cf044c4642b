"""The stage of a plan that takes start-up boosts back; source: updater.md 11."""

from collections.abc import Sequence
from functools import partial

from common.recommendation.changes import patch_changes
from updater.decision import Action, Decision, Reason, resize, wait
from updater.plan.actions import UnboostPod
from updater.plan.assessment import Steps, Undecided
from updater.plan.candidate import plan_unboost
from updater.plan.draft import PlanDraft
from updater.plan.pod_outcome import PodOutcome, Subject, note_blocked
from updater.plan.resize_choice import rollout_holds
from updater.resize.resize_state import not_sent
from updater.resize.startup_boost import (
    boost_duration,
    decide_unboost,
    expired_boosts,
    first_expiry,
)
from updater.snapshot.live_pod import LivePod
from updater.state import PodMemory

_STEP = 200  # pods


def plan_boosts(draft: PlanDraft, boosted: Sequence[Undecided]) -> Steps[None]:
    """Plan to take back the boosts that are over."""
    for number, each in enumerate(boosted, start=1):
        if number % _STEP == 0:
            yield
        if not draft.still_waits(each):
            with draft.around("unboost", each.pod):
                _plan(draft, each)


def _plan(draft: PlanDraft, each: Undecided) -> None:
    pod, memory, vpa = each.pod, each.memory, draft.scaled.vpa
    action = _action(draft, pod, memory)
    if isinstance(action, Decision):
        draft.add(each, PodOutcome(pod, action, memory, Subject(vpa)))
        return
    plan = action.plan
    subject = Subject(vpa, resize=patch_changes(pod, plan.operations))
    if rollout_holds(pod, plan, draft.budgets.group(pod)):
        decision = wait(Reason.ROLLOUT_IN_PROGRESS)
        draft.add(each, PodOutcome(pod, decision, memory, subject))
        return
    refused = draft.preflight.refuse_resize(pod, plan)
    if refused is not None:
        decision = not_sent(refused)
        memory, reports = note_blocked(pod, decision, memory, subject)
        draft.add(each, PodOutcome(pod, decision, memory, subject, reports))
        return
    outcome = PodOutcome(pod, resize(Reason.STARTUP_BOOST_OVER), memory, subject)
    draft.send_resize(each, outcome, action)


def _action(draft: PlanDraft, pod: LivePod, memory: PodMemory) -> UnboostPod | Decision:
    scaled, context = draft.scaled, draft.context
    if not memory.shows(pod):
        return wait(Reason.RESIZE_SENT)
    duration_of = partial(boost_duration, scaled.vpa)
    expired = expired_boosts(pod, duration_of=duration_of, now=context.now)
    decision = decide_unboost(
        pod,
        group=draft.budgets.group(pod),
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

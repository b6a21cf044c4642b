"""The steps of one VPA's memory limits that go down in place (X139)."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from common.recommendation.preflight import Check
from updater.decision import Decision, Reason
from updater.pass_context import PassContext
from updater.plan.candidate import Candidate
from updater.plan.candidate_resize import plan_candidate
from updater.resize.failed_decrease import plan_way_back
from updater.resize.limit_decrease import LimitDecrease
from updater.resize.memory_decrease import (
    MemoryDecreaseRules,
    MemoryFloor,
    MemoryStep,
    SentDecrease,
    first_hold,
    memory_step,
)
from updater.resize.pending_resize import is_pending
from updater.resize.resize_plan import ResizePlan
from updater.snapshot.cluster_snapshot import AutoscaledPods
from updater.snapshot.live_pod import LivePod
from updater.vpa_preflight import Preflight

Judge: TypeAlias = Callable[[Collection[str]], Candidate | Decision]
"""Judges a pod without the memory of some containers."""

Stepped: TypeAlias = tuple[Candidate, ResizePlan | Decision]
"""A candidate with its memory steps, and its plan."""


class MemorySteps:
    """Plans the resizes of candidates whose memory limits go down."""

    def __init__(
        self,
        scaled: AutoscaledPods,
        context: PassContext,
        preflight: Preflight,
        floors: Mapping[str, MemoryFloor],
    ) -> None:
        self._scaled = scaled
        self._context = context
        self._preflight = preflight
        self._floors = floors
        # By the identity of the whole plan, which is kept, the changes besides, and the steps.
        self._plans: dict[
            tuple[int, Reason, frozenset[str] | None, tuple[MemoryStep, ...]],
            tuple[ResizePlan, ResizePlan | Decision],
        ] = {}

    def plan(
        self,
        candidate: Candidate,
        whole: ResizePlan,
        *,
        sent: Mapping[str, SentDecrease],
        judge: Judge,
    ) -> Stepped:
        """Return the candidate with the steps of its memory limits, and its plan with these.

        ``whole`` is its plan without steps, ``sent`` the last decreases of the pod. If a LimitRange
        refuses a step, the limit goes down at once, if usage fits.
        """
        rules = self._context.rules.memory_decrease
        stepped = self._plan(candidate, whole, sent=sent, judge=judge, rules=rules)
        if not self._is_refused(*stepped):
            return stepped
        rules = replace(rules, largest_step=1)
        return self._plan(candidate, whole, sent=sent, judge=judge, rules=rules)

    def _plan(
        self,
        candidate: Candidate,
        whole: ResizePlan,
        *,
        sent: Mapping[str, SentDecrease],
        judge: Judge,
        rules: MemoryDecreaseRules,
    ) -> Stepped:
        """Return ``plan`` by these rules; pods that are alike share ``whole`` and the result."""
        use = self._context.memory_use.get(candidate.pod.metadata.uid, {})
        steps = tuple(
            memory_step(
                decrease,
                use=use.get(decrease.container),
                floor=self._floors.get(decrease.container),
                last=sent.get(decrease.container),
                rules=rules,
                now=self._context.now,
            )
            for decrease in whole.memory_decreases
        )
        judged = _without_held(candidate, steps, judge)
        if isinstance(judged, Decision):
            return candidate, judged
        judged = replace(judged, memory_steps=steps)
        key = (id(whole), judged.why, judged.only, steps)
        _, plan = self._plans.get(key, (whole, None))
        if plan is None:
            plan = plan_candidate(judged, self._scaled.vpa, self._scaled.limit_ranges)
            self._plans[key] = whole, plan
        held = first_hold(steps)
        if plan == held:
            plan = held  # with the pod's own numbers
        return judged, plan

    def way_back(self, pod: LivePod, decreases: Sequence[LimitDecrease]) -> ResizePlan | None:
        """Return the resize that takes failed decreases back; None: usage allows them all."""
        use = self._context.memory_use.get(pod.metadata.uid, {})
        rules = replace(self._context.rules.memory_decrease, largest_step=1)
        back = [
            each
            for each in decreases
            if memory_step(
                each,
                use=use.get(each.container),
                floor=self._floors.get(each.container),
                last=None,
                rules=rules,
                now=self._context.now,
            ).held
        ]
        return plan_way_back(pod, back) if back else None

    def _is_refused(self, candidate: Candidate, plan: ResizePlan | Decision) -> bool:
        """Return whether a LimitRange refuses the plan, which has a step before the last one."""
        steps = (each for each in candidate.memory_steps if each.held is None)
        if isinstance(plan, Decision) or all(each.is_last for each in steps):
            return False
        refusal = self._preflight.refuse_resize(candidate.pod, plan)
        return refusal is not None and refusal.check is Check.LIMIT_RANGE


def _without_held(
    candidate: Candidate, steps: Sequence[MemoryStep], judge: Judge
) -> Candidate | Decision:
    """Return the candidate, or the wait if only held memory makes it one.

    Otherwise each pass would resize the pod when something else differs a little. A pod with a
    pending resize waits for that.
    """
    held = {each.container: each.held for each in steps if each.held is not None}
    if not held or is_pending(candidate.pod):
        return candidate
    found = judge(held)
    return found if isinstance(found, Candidate) else next(iter(held.values()))

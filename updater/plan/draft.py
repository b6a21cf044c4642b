"""The plan of a VPA while it is made: what its actions so far leave to those that follow."""

from common.api.core import Pod
from common.runtime.object_errors import Boundary
from common.target.owners import Controller
from updater.decision import Reason
from updater.eviction.breaker import Allowance, Breaker, BreakerObservation, allowance
from updater.eviction.budgets import Budgets
from updater.pass_context import PassContext
from updater.plan.actions import PodAction, PodPlan, ResizePod, UnboostPod, VpaPlan
from updater.plan.assessment import Assessment, Undecided, observe_replacements
from updater.plan.pod_outcome import PodOutcome
from updater.plan.progress import VpaProgress, breaker_after_eviction

_BUDGET_USED = frozenset({Reason.BUDGET_EXHAUSTED, Reason.ROLLOUT_IN_PROGRESS})
_ALLOWANCE_USED = frozenset({Reason.REPLACEMENT_UNVERIFIED, Reason.ACTUATION_SUSPENDED})


class PlanDraft:
    """Collects the decisions and actions of one plan.

    Budgets, the breaker and quotas are those that are left if each action succeeds.
    """

    def __init__(self, assessment: Assessment, progress: VpaProgress, context: PassContext) -> None:
        self.scaled = assessment.scaled
        self.preflight = assessment.preflight
        self.progress = progress
        self.context = context
        self.budgets = Budgets(assessment.scaled, progress.groups)
        self.breaker = PlannedBreaker(assessment, progress, context)
        self.updatable: int | None = None
        self.evictable: int | None = None
        self._pods: list[PodPlan] = []

    @property
    def plan(self) -> VpaPlan:
        """Return what was planned so far."""
        return VpaPlan(
            pods=self._pods,
            breaker=self.breaker.observed,
            observation=self.breaker.observation,
            updatable=self.updatable,
            evictable=self.evictable,
        )

    def still_waits(self, each: Undecided) -> bool:
        """Return whether what the pod waits for since an earlier plan is still used up."""
        if each.waits_for is None:
            return False
        if each.waits_for.reason in _BUDGET_USED:
            return not self.budgets.allows(each.pod)
        if each.waits_for.reason in _ALLOWANCE_USED:
            allowed = self.breaker.allowance()
            return allowed is not None and not allowed.allows_one
        return False

    def send_resize(
        self, each: Undecided, outcome: PodOutcome, action: UnboostPod | ResizePod
    ) -> None:
        """Add a resize, which takes its part of the budget and of the quotas."""
        if action.disrupts:
            self.budgets.spend(each.pod)
        self.preflight.take_for_resize(each.pod, action.plan)
        self.add(each, outcome, action)

    def add(
        self,
        each: Undecided,
        outcome: PodOutcome,
        action: PodAction | None = None,
        *,
        waits: bool = False,
    ) -> None:
        """Add the decision on a pod; see ``PodPlan.waits``."""
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

    def around(self, stage: str, pod: Pod) -> Boundary:
        """Return the boundary around one pod."""
        meta = pod.metadata
        return self.context.errors.around(stage, "Pod", meta.namespace, meta.name)


class PlannedBreaker:
    """The breaker of a VPA's evictions, as if those planned so far were accepted."""

    def __init__(self, assessment: Assessment, progress: VpaProgress, context: PassContext) -> None:
        self._scaled = assessment.scaled
        self._context = context
        self._planned = self.observed = progress.breaker
        self.observation: BreakerObservation | None = None

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

"""The plan of one VPA, with the budgets that its actions leave."""

from collections.abc import Mapping

from common.api.core import Pod
from common.runtime.object_errors import Boundary
from common.target.owners import Controller
from updater.capacity.capacity_requests import CapacityDemand, CapacityMode
from updater.decision import Decision, Reason
from updater.eviction.breaker import Breaker, BreakerObservation, breaker_wait, record_eviction
from updater.eviction.replica_groups import Budgets
from updater.pass_context import PassContext
from updater.plan.actions import PodAction, PodPlan, ResizePod
from updater.plan.assessment import Assessment, Undecided, observe_replacements
from updater.plan.pod_outcome import PodOutcome
from updater.plan.progress import VpaProgress

_BUDGET_USED = frozenset({Reason.BUDGET_EXHAUSTED, Reason.ROLLOUT_IN_PROGRESS})
_HELD_BY_BREAKER = frozenset({Reason.REPLACEMENT_UNVERIFIED, Reason.ACTUATION_SUSPENDED})


class VpaPlan:
    """The plans of one VPA's pods, in order; the stages of planning add to it.

    Budgets, breaker and quotas are updated as if each action succeeded. ``updatable`` and
    ``evictable`` count the pods that would be updated with a sufficient budget; None: the mode has
    no such pods.
    """

    def __init__(self, assessment: Assessment, progress: VpaProgress, context: PassContext) -> None:
        self.scaled = assessment.scaled
        self.preflight = assessment.preflight
        self.progress = progress
        self.context = context
        self.budgets = Budgets(assessment.scaled, progress.groups)
        self.pods: list[PodPlan] = []
        self.updatable: int | None = None
        self.evictable: int | None = None
        self.demands: Mapping[Controller, CapacityDemand] = {}  # by workload
        self.breaker = progress.breaker  # after ``observation``, before planned evictions
        self.observation: BreakerObservation | None = None
        self._breaker_after = progress.breaker  # after planned evictions

    def still_waits(self, each: Undecided) -> bool:
        """Return whether the budget or breaker that the pod waits for still holds it."""
        if each.waits_for is None:
            return False
        if each.waits_for.reason in _BUDGET_USED:
            return not self.budgets.allows(each.pod)
        if each.waits_for.reason in _HELD_BY_BREAKER:
            return self.breaker_wait() is not None
        return False

    def send_resize(self, each: Undecided, outcome: PodOutcome, action: ResizePod) -> None:
        """Add a resize, which uses the budget, the quotas and the room of the node."""
        if action.disrupts:
            self.budgets.spend(each.pod)
        self.preflight.take_for_resize(each.pod, action.plan)
        after = self.preflight.room_after_resize(each.pod, action.plan)
        if after is not None:
            self.context.resize_rooms.take(each.pod, after)
            if self.context.capacity_mode is not CapacityMode.OFF:
                self.context.rooms.grow(each.pod, after)
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
        used_up = action is None and (reason in _BUDGET_USED or reason in _HELD_BY_BREAKER)
        self.pods.append(
            PodPlan(
                pod=each.pod,
                outcome=outcome,
                undecided=each,
                action=action,
                waits=waits or (used_up and each.refused is None),
            )
        )

    def around(self, stage: str, pod: Pod) -> Boundary:
        """Return the error boundary around one pod."""
        meta = pod.metadata
        return self.context.errors.around(stage, "Pod", meta.namespace, meta.name)

    def breaker_wait(self) -> Decision | None:
        """Return the wait of a pod for the breaker; None: it may be evicted."""
        breaker = self.present_breaker()
        return None if breaker is None else breaker_wait(breaker, now=self.context.now)

    def count_eviction(self, pod: Pod) -> None:
        """Use the budget for a planned eviction, and record it in the breaker."""
        self.budgets.spend(pod)
        before, now = self.present_breaker(), self.context.now
        if before is not None:
            self._breaker_after = record_eviction(before, pod, self.scaled, now=now)

    def present_breaker(self) -> Breaker | None:
        """Return the breaker, from the existing pods if there is none yet; None: no checks."""
        if not self.context.rules.checks_outcomes:
            return None
        if self._breaker_after is None:
            self.observation = observe_replacements(self.scaled, self.context)
            self._breaker_after = self.breaker = self.observation.breaker
        return self._breaker_after

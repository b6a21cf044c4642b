"""Which resize to send for a candidate: all that is wanted, a part, or what the pod has."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from common.api.autoscaling import UpdateMode
from common.api.core import Pod
from common.recommendation.preflight import Refusal
from updater.decision import Action, Decision, Reason, evict, resize, wait
from updater.eviction.disruption import ReplicaGroup
from updater.plan.candidate import Candidate
from updater.resize.partial_resize import PartialResize
from updater.resize.pending_resize import PENDING
from updater.resize.resize_plan import ResizePlan
from updater.resize.resize_state import (
    Attempt,
    Infeasible,
    Part,
    ResizeStatus,
    Targets,
    decide_resize,
    lower_somewhere,
    resize_status,
    spec_requests,
    why_closed,
)
from updater.snapshot.live_node import NodeCapacity, has_improved

_WAITING = (
    ResizeStatus.DEFERRED,
    ResizeStatus.IN_PROGRESS,
    ResizeStatus.ERROR,
    ResizeStatus.UNKNOWN,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenResize:
    """What to do, the resize that goes with it, and what to remember as infeasible."""

    decision: Decision
    plan: ResizePlan
    attempt: Attempt
    infeasible: Infeasible | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeChoice:
    """A candidate, with all that the choice depends on; the attributes are its arguments."""

    candidate: Candidate
    plan: ResizePlan  # all that is wanted
    mode: UpdateMode
    group: ReplicaGroup | None
    node: NodeCapacity | None
    infeasible: Infeasible | None  # remembered
    held: Decision | None  # the wait after a refusal
    unfinished: Decision | None
    since: datetime | None  # the start of the wait for the present resize
    had_its_time: bool  # so had the pending one that the present resize replaced
    skip_budget: bool
    part: Callable[[], PartialResize | None]  # that the node can hold
    other_specs: Callable[[], Iterable[ResizePlan]]  # for an infeasible resize to be tried again
    preflight: Callable[[ResizePlan], Refusal | None]  # why the API server would refuse a resize

    def choose(self) -> ChosenResize:
        """Decide about a resize now, an eviction instead, or waiting.

        ``decide_resize`` decides as the reference does; before it comes what replaces a pending
        resize (X100) or tries an infeasible one again (X101), and after it what the node can hold
        of an infeasible one (X102).
        """
        remembered = self._remembered()
        outdated = self._outdated(remembered)
        if outdated is not None:
            return outdated
        if self.candidate.left is not None:
            return self._do_nothing(self.candidate.left, remembered)
        if remembered is not None and has_improved(remembered.node, self.node):
            again = self._again(remembered)
            if again is not None:
                return again
            if self._status is not ResizeStatus.INFEASIBLE:
                remembered = None
        decided = self._decide(remembered)
        if decided.decision.reason is Reason.INFEASIBLE_CACHED or self._lacks_eviction(decided):
            return self.instead(decided.decision, decided.infeasible) or decided
        return decided

    def instead(self, decision: Decision, infeasible: Infeasible | None) -> ChosenResize | None:
        """Return the resize to send where a pending one leads to no eviction; None: none.

        ``decision`` is why it doesn't. The answer may also be the wait for a budget.
        """
        if self._is_held or why_closed(self.candidate.pod, self.group) is not None:
            return None
        if self._status in PENDING and self._is_outdated:
            if self._is_refused(self.plan) or not self._allows(self.plan):
                return None
            return self._send(self.candidate.why, self.plan, infeasible, may_evict=False)
        if self._status is ResizeStatus.DEFERRED:
            return None
        if infeasible is not None and infeasible.part is Part.REFUSED:
            return None
        part = self.part()
        if part is None or self._is_refused(part.plan):
            return None
        if not self._allows(part.plan):
            waits = decision.action is Action.LEAVE
            return self._do_nothing(wait(Reason.BUDGET_EXHAUSTED), infeasible) if waits else None
        targets = part.rest if infeasible is None else _lowest(part.rest, infeasible.targets)
        rest = Infeasible(targets=targets, reported=False, node=self.node, part=Part.SENT)
        return self._send(Reason.RESIZE_PARTIAL, part.plan, infeasible, rest=rest, may_evict=False)

    def _remembered(self) -> Infeasible | None:
        """Return what did not fit; what the kubelet reported counts only as long as it does."""
        known, reports = self.infeasible, self._status is ResizeStatus.INFEASIBLE
        if known is not None and known.reported and not reports:
            return None
        if self.mode is UpdateMode.IN_PLACE_OR_RECREATE and reports:
            if known is not None and known.reported:
                return known
            asked = spec_requests(self.candidate.pod)
            return Infeasible(targets=asked, reported=True, node=self.node)
        return known

    def _outdated(self, remembered: Infeasible | None) -> ChosenResize | None:
        """Replace a pending resize that asks for what is no longer wanted (X100)."""
        left = self.candidate.left
        if not self._is_outdated:
            return None
        closed = why_closed(self.candidate.pod, self.group)
        if closed is not None:
            return self._do_nothing(wait(closed), remembered)
        in_place_first = self._status is ResizeStatus.DEFERRED or self.mode is UpdateMode.IN_PLACE
        if left is None and not in_place_first:
            return None  # an eviction goes first
        if left is None and self._waits_no_longer:
            return None
        if self._did_not_fit(remembered) or self._is_refused(self.plan):
            return None
        if self.held is not None:
            return None if left is None else self._do_nothing(self.held, remembered)
        if not self._allows(self.plan):
            return self._do_nothing(wait(Reason.BUDGET_EXHAUSTED), remembered)
        why = self.candidate.why if left is None else Reason.RESIZE_LOWERED
        if self.plan.withdraws:
            why = Reason.RESIZE_WITHDRAWN
        may_evict = left is None and not self.plan.withdraws
        return self._send(why, self.plan, remembered, may_evict=may_evict)

    def _did_not_fit(self, remembered: Infeasible | None) -> bool:
        """Return whether the API server refused the same already."""
        return (
            remembered is not None
            and not remembered.reported
            and not lower_somewhere(self.plan.targets, remembered.targets)
            and not has_improved(remembered.node, self.node)
        )

    def _again(self, remembered: Infeasible) -> ChosenResize | None:
        """Make the kubelet look at an infeasible resize again: another spec, and then the same."""
        if self._status is not ResizeStatus.INFEASIBLE or self._is_held:
            return None
        if why_closed(self.candidate.pod, self.group) is not None:
            return None
        sendable = self.plan.changes and not self._is_refused(self.plan)
        if sendable and self._allows(self.plan):
            return self._send(self.candidate.why, self.plan, remembered, may_evict=False)
        for other in self.other_specs():
            if self._allows(other) and not self._is_refused(other):
                why = Reason.RESIZE_WITHDRAWN if other.withdraws else self.candidate.why
                return self._send(why, other, remembered, may_evict=False)
        return None

    def _decide(self, remembered: Infeasible | None) -> ChosenResize:
        pod = self.candidate.pod
        if self._waits_for_eviction(remembered):
            return self._do_nothing(evict(Reason.RESIZE_INFEASIBLE), remembered)
        decided = decide_resize(
            self.candidate.why,
            pod,
            mode=self.mode,
            group=self.group,
            plan=self.plan,
            unfinished=self.unfinished,
            held=self.held,
            infeasible=remembered,
            skip_budget=self.skip_budget,
            refused=self.preflight(self.plan),
        )
        infeasible = decided.infeasible
        if infeasible is not None and infeasible is not remembered:
            infeasible = replace(infeasible, node=self.node)
        elif self._status in _WAITING or self.mode is UpdateMode.IN_PLACE_OR_RECREATE:
            infeasible = remembered
        decision = decided.decision
        if decision.action is Action.RESIZE and rollout_holds(pod, self.plan, self.group):
            decision = wait(Reason.ROLLOUT_IN_PROGRESS)
        return ChosenResize(
            decision=decision,
            plan=self.plan,
            attempt=Attempt(node=self.node),
            infeasible=infeasible,
        )

    def _waits_for_eviction(self, remembered: Infeasible | None) -> bool:
        """Return whether a part was tried, so that the rest is left to an eviction (X102)."""
        return (
            self.mode is UpdateMode.IN_PLACE_OR_RECREATE
            and self._status is ResizeStatus.NONE
            and remembered is not None
            and remembered.part is not Part.UNTRIED
            and not lower_somewhere(self.plan.targets, remembered.targets)
            and why_closed(self.candidate.pod, self.group) is None
        )

    def _lacks_eviction(self, decided: ChosenResize) -> bool:
        return (
            self.mode is UpdateMode.IN_PLACE_OR_RECREATE
            and self._status is ResizeStatus.INFEASIBLE
            and decided.decision.action is Action.WAIT
        )

    @property
    def _status(self) -> ResizeStatus:
        return resize_status(self.candidate.pod)

    @property
    def _is_outdated(self) -> bool:
        return bool(self.plan.changes) and (self.plan.lowers or self.plan.withdraws)

    @property
    def _waits_no_longer(self) -> bool:
        """Return whether an eviction comes next, however far the recommendation has fallen."""
        evicts = self.mode is UpdateMode.IN_PLACE_OR_RECREATE
        return evicts and self.had_its_time and not self.plan.withdraws

    @property
    def _is_held(self) -> bool:
        """Return the last call failed, and for another reason than the node."""
        return self.held is not None and self.held.reason is not Reason.RESIZE_INFEASIBLE

    def _is_refused(self, plan: ResizePlan) -> bool:
        return self.preflight(plan) is not None

    def _allows(self, plan: ResizePlan) -> bool:
        if plan.withdraws or (self.skip_budget and not plan.restarts):
            return True
        return self.group is not None and self.group.allows(self.candidate.pod)

    def _do_nothing(self, decision: Decision, infeasible: Infeasible | None) -> ChosenResize:
        return ChosenResize(
            decision=decision,
            plan=self.plan,
            attempt=Attempt(node=self.node),
            infeasible=infeasible,
        )

    def _send(
        self,
        why: Reason,
        plan: ResizePlan,
        infeasible: Infeasible | None,
        *,
        rest: Infeasible | None = None,
        may_evict: bool,
    ) -> ChosenResize:
        if rollout_holds(self.candidate.pod, plan, self.group):
            return self._do_nothing(wait(Reason.ROLLOUT_IN_PROGRESS), infeasible)
        return ChosenResize(
            decision=resize(why),
            plan=plan,
            attempt=Attempt(
                node=self.node,
                rest=rest,
                may_evict=may_evict,
                pending_since=self.since if self._status is ResizeStatus.DEFERRED else None,
            ),
            infeasible=infeasible,
        )


def rollout_holds(pod: Pod, plan: ResizePlan, group: ReplicaGroup | None) -> bool:
    """Return whether a resize would restart containers that a rollout keeps available (X105)."""
    return plan.restarts and group is not None and not group.rollout_allows_restart(pod)


def _lowest(targets: Targets, failed: Targets) -> Targets:
    """Return the targets, each no higher than what failed before."""
    return {
        name: {
            resource: min(amount, failed.get(name, {}).get(resource, amount))
            for resource, amount in amounts.items()
        }
        for name, amounts in targets.items()
    }

"""The choice of a candidate's resize: the whole, a part, or the withdrawal of a pending one."""

from dataclasses import dataclass, replace

from common.api.autoscaling import UpdateMode
from common.recommendation.preflight import Refusal
from common.scheduling.room import room_of_pod
from updater.decision import Action, Decision, Reason, evict, resize, wait
from updater.plan.actions import ResizePod
from updater.plan.assessment import Undecided
from updater.plan.candidate_resize import plan_candidate_part
from updater.plan.present_resize import has_timed_out, resizing_since, wait_for_resize
from updater.plan.vpa_plan import VpaPlan
from updater.resize.infeasible_resize import (
    Infeasible,
    Part,
    lower_somewhere,
    lowest,
    spec_requests,
)
from updater.resize.memory_decrease import first_hold
from updater.resize.partial_resize import PartialResize, describe_rest
from updater.resize.pending_resize import PENDING, plan_other_specs
from updater.resize.resize_decision import (
    Attempt,
    decide_resize,
    instead_of_eviction,
    rollout_holds,
    why_closed,
)
from updater.resize.resize_plan import ResizePlan
from updater.resize.resize_status import ResizeStatus, resize_status
from updater.resize.resize_timeouts import overdue, unfinished
from updater.snapshot.live_node import has_improved, node_capacity

_WAITING = (
    ResizeStatus.DEFERRED,
    ResizeStatus.IN_PROGRESS,
    ResizeStatus.ERROR,
    ResizeStatus.UNKNOWN,
)
_RETRIED = (ResizeStatus.DEFERRED, ResizeStatus.ERROR)  # by the kubelet

_REFUSED = (
    Reason.QOS_WOULD_CHANGE,
    Reason.RESIZE_REFUSED,
    Reason.REPLACEMENT_WOULD_BE_REFUSED,
)


@dataclass(frozen=True, slots=True)
class ChosenResize:
    """The decision, the requests to remember as infeasible, and the resize to send, if any."""

    decision: Decision
    infeasible: Infeasible | None
    action: ResizePod | None = None


class ResizeChoice:
    """The choice of a candidate's resize."""

    def __init__(self, vpa_plan: VpaPlan, each: Undecided) -> None:
        if each.candidate is None or each.plan is None:
            raise AssertionError(each)
        self._vpa_plan = vpa_plan
        self._pod = each.pod
        self._memory = each.memory
        self._candidate = each.candidate
        self._plan = each.plan  # to the whole recommendation
        self._mode = vpa_plan.scaled.mode
        self._group = vpa_plan.budgets.group(each.pod)
        self._status = resize_status(each.pod)
        self._node = node_capacity(vpa_plan.context.snapshot.nodes.get(each.pod.node_name))
        self._rules = vpa_plan.context.rules
        self._now = vpa_plan.context.now
        refusal = each.memory.held(self._now, each.plan.targets, self._node)
        self._held = None if refusal is None else wait(refusal.reason, until=refusal.until)
        self._skip_budget = self._rules.disruption.in_place_skips_budget

    def choose(self) -> ChosenResize:
        """Decide on a resize, an eviction instead, or a wait.

        Resizes that replace a pending one (X100) or retry an infeasible one (X101) come first.
        Then ``decide_resize`` decides as the reference does. Instead of an infeasible resize, the
        largest step that the node can hold is sent (X102). A step also replaces a deferred resize,
        whose rest follows when the node has room (X138).
        """
        remembered = self._remembered()
        outdated = self._outdated(remembered)
        if outdated is not None:
            return outdated
        if self._candidate.left is not None:
            return ChosenResize(self._candidate.left, remembered)
        waits_for_room = remembered is not None and remembered.deferred_since is not None
        if (
            remembered is not None
            and not waits_for_room
            and has_improved(remembered.node, self._node)
        ):
            again = self._again(remembered)
            if again is not None:
                return again
            if self._status is not ResizeStatus.INFEASIBLE:
                remembered = None
        if remembered is not None and waits_for_room:
            decided = self._decide_rest(remembered)
        else:
            decided = self._decide(remembered)
        held = first_hold(self._candidate.memory_steps)
        if held is not None and decided.decision.reason in _REFUSED:
            # What the API server would refuse is the resize without the memory (X139).
            decided = replace(decided, decision=held)
        if self._candidate.only is not None and decided.decision.action is Action.EVICT:
            # The pod is in its range, and only lacks the rest of a resize.
            decided = replace(decided, decision=instead_of_eviction(decided.decision))
        if decided.decision.reason is Reason.INFEASIBLE_CACHED or self._lacks_eviction(decided):
            return self.instead(decided.decision, decided.infeasible) or decided
        if self._waits_for_node(decided):
            return self._step(decided.decision, decided.infeasible) or decided
        return decided

    def instead(self, decision: Decision, infeasible: Infeasible | None) -> ChosenResize | None:
        """Return the resize to send if a pending one doesn't lead to an eviction; None: none.

        ``decision`` is the one that stands otherwise. The result may also be the wait for a
        budget.
        """
        if self._is_held or why_closed(self._pod, self._group) is not None:
            return None
        if self._status in PENDING and self._is_outdated:
            if self._refusal(self._plan) is not None or not self._allows(self._plan):
                return None
            return self._send(self._candidate.why, self._plan, infeasible, may_evict=False)
        return self._step(decision, infeasible)

    def _step(self, decision: Decision, infeasible: Infeasible | None) -> ChosenResize | None:
        """Return the largest step to send instead of ``decision``; None: there is none."""
        if self._is_held or why_closed(self._pod, self._group) is not None:
            return None
        if self._status not in (ResizeStatus.NONE, *PENDING):
            return None  # one resize at a time
        if infeasible is not None and infeasible.part is Part.REFUSED:
            return None
        part = self._plan_step()
        if part is None or self._refusal(part.plan) is not None:
            return None
        if not self._allows(part.plan):
            waits = decision.action is Action.LEAVE
            return ChosenResize(wait(Reason.BUDGET_EXHAUSTED), infeasible) if waits else None
        since = None if infeasible is None else infeasible.deferred_since
        if self._status is ResizeStatus.DEFERRED and since is None:
            since = resizing_since(self._pod, self._memory) or self._now
        targets = part.rest
        if infeasible is not None and since is None:
            targets = lowest(part.rest, infeasible.targets)
        rest = Infeasible(
            targets=targets,
            reported=False,
            node=self._node,
            deferred_since=since,
            part=Part.SENT,
        )
        return self._send(
            Reason.RESIZE_PARTIAL,
            part.plan,
            infeasible,
            rest=rest,
            may_evict=False,
            detail=part.detail,
        )

    def _plan_step(self) -> PartialResize | None:
        """Return the largest step that the node can hold beside its other pods; None: none.

        A deferred resize stays if it fits now, because the kubelet tries it again, and if the room
        is unknown.
        """
        capacity = self._vpa_plan.context.resize_rooms.capacity(self._pod, self._node)
        if self._status is ResizeStatus.DEFERRED and (
            capacity is None or capacity.holds(room_of_pod(self._pod.spec))
        ):
            return None
        scaled, rules = self._vpa_plan.scaled, self._rules.thresholds
        return plan_candidate_part(
            self._candidate,
            scaled.vpa,
            scaled.limit_ranges,
            capacity,
            min_change=rules.min_change,
        )

    def _waits_for_room(self) -> bool:
        """Return whether the node has no room for the increases that are wanted now."""
        capacity = self._vpa_plan.context.resize_rooms.capacity(self._pod, self._node)
        if capacity is None or not self._lacking:
            return False
        after = self._vpa_plan.preflight.room_after_resize(self._pod, self._plan)
        return after is not None and not capacity.holds(after)

    def _decide_rest(self, rest: Infeasible) -> ChosenResize:
        """Decide on a pod with the rest of a resize that was deferred.

        The whole is sent when it fits. Until then the pod waits for room, in mode
        InPlaceOrRecreate until the time-out of the first resize. Another step may be chosen instead
        of this decision.
        """
        if self._status is not ResizeStatus.NONE or self._is_held or not self._waits_for_room():
            decided = self._decide(None)
            return decided if decided.infeasible else replace(decided, infeasible=rest)
        closed = why_closed(self._pod, self._group)
        if closed is not None:
            return ChosenResize(wait(closed), rest)
        found = wait(Reason.RESIZE_DEFERRED)
        if self._mode is UpdateMode.IN_PLACE_OR_RECREATE:
            timeouts, deferred = self._rules.timeouts, ResizeStatus.DEFERRED
            since = rest.deferred_since
            waiting = unfinished(deferred, since=since, timeouts=timeouts, now=self._now)
            allowed = self._group is not None and self._group.allows(self._pod)
            found = overdue(deferred, waiting, allowed=allowed)
        return ChosenResize(replace(found, detail=self._lacking), rest)

    @property
    def _lacking(self) -> str:
        """Return the increases of the whole resize, with numbers; empty without any."""
        targets = {
            name: {
                resource: amount
                for resource, amount in amounts.items()
                if (name, resource) in self._plan.changes
            }
            for name, amounts in self._plan.targets.items()
        }
        return describe_rest(targets, self._candidate.requests)

    def _remembered(self) -> Infeasible | None:
        """Return the requests that did not fit, if the kubelet's report still stands."""
        known, reports = self._memory.infeasible, self._status is ResizeStatus.INFEASIBLE
        if known is not None and known.reported and not reports:
            return None
        if self._mode is UpdateMode.IN_PLACE_OR_RECREATE and reports:
            if known is not None and known.reported:
                return known
            requested = spec_requests(self._pod)
            return Infeasible(targets=requested, reported=True, node=self._node)
        return known

    def _outdated(self, remembered: Infeasible | None) -> ChosenResize | None:
        """Return the replacement of a pending resize that is no longer wanted (X100)."""
        left = self._candidate.left
        if not self._is_outdated:
            return None
        closed = why_closed(self._pod, self._group)
        if closed is not None:
            return ChosenResize(wait(closed), remembered)
        in_place_first = self._status in _RETRIED or self._mode is UpdateMode.IN_PLACE
        if left is None and not in_place_first:
            return None  # an eviction goes first
        if left is None and self._evicts_next:
            return None
        if self._did_not_fit(remembered) or self._refusal(self._plan) is not None:
            return None
        if self._held is not None:
            return None if left is None else ChosenResize(self._held, remembered)
        if not self._allows(self._plan):
            return ChosenResize(wait(Reason.BUDGET_EXHAUSTED), remembered)
        why = self._candidate.why if left is None else Reason.RESIZE_LOWERED
        if self._plan.withdraws:
            why = Reason.RESIZE_WITHDRAWN
        may_evict = left is None and not self._plan.withdraws
        return self._send(why, self._plan, remembered, may_evict=may_evict)

    def _did_not_fit(self, remembered: Infeasible | None) -> bool:
        """Return whether the API server refused the same resize before."""
        return (
            remembered is not None
            and not remembered.reported
            and remembered.deferred_since is None
            and not lower_somewhere(self._plan.targets, remembered.targets)
            and not has_improved(remembered.node, self._node)
        )

    def _again(self, remembered: Infeasible) -> ChosenResize | None:
        """Return the resize that makes the kubelet retry an infeasible one, by another spec."""
        if self._status is not ResizeStatus.INFEASIBLE or self._is_held:
            return None
        if why_closed(self._pod, self._group) is not None:
            return None
        sendable = self._plan.changes and self._refusal(self._plan) is None
        if sendable and self._allows(self._plan):
            return self._send(self._candidate.why, self._plan, remembered, may_evict=False)
        for other in plan_other_specs(self._pod, self._candidate.processed.containers):
            if self._allows(other) and self._refusal(other) is None:
                why = Reason.RESIZE_WITHDRAWN if other.withdraws else self._candidate.why
                return self._send(why, other, remembered, may_evict=False)
        return None

    def _decide(self, remembered: Infeasible | None) -> ChosenResize:
        if self._waits_for_eviction(remembered):
            return ChosenResize(evict(Reason.RESIZE_INFEASIBLE), remembered)
        decided = decide_resize(
            self._candidate.why,
            self._pod,
            mode=self._mode,
            group=self._group,
            plan=self._plan,
            unfinished=wait_for_resize(self._pod, self._memory, self._rules, now=self._now),
            held=self._held,
            infeasible=remembered,
            skip_budget=self._skip_budget,
            refused=self._refusal(self._plan),
        )
        infeasible = decided.infeasible
        if infeasible is not None and infeasible is not remembered:
            infeasible = replace(infeasible, node=self._node)
        elif self._status in _WAITING or self._mode is UpdateMode.IN_PLACE_OR_RECREATE:
            infeasible = remembered
        if decided.decision.action is not Action.RESIZE:
            return ChosenResize(decided.decision, infeasible)
        if rollout_holds(self._pod, self._plan, self._group):
            return ChosenResize(wait(Reason.ROLLOUT_IN_PROGRESS), infeasible)
        attempt = Attempt(node=self._node, may_evict=self._candidate.only is None)
        action = ResizePod(plan=self._plan, attempt=attempt)
        return ChosenResize(decided.decision, infeasible, action)

    def _waits_for_eviction(self, remembered: Infeasible | None) -> bool:
        """Return whether a part was sent or refused, so that an eviction follows (X102)."""
        return (
            self._mode is UpdateMode.IN_PLACE_OR_RECREATE
            and self._status is ResizeStatus.NONE
            and remembered is not None
            and remembered.part is not Part.UNTRIED
            and not lower_somewhere(self._plan.targets, remembered.targets)
            and why_closed(self._pod, self._group) is None
        )

    def _waits_for_node(self, decided: ChosenResize) -> bool:
        """Return whether the pod waits with a deferred resize, or with the rest of one."""
        deferred = self._status is ResizeStatus.DEFERRED
        rest = decided.infeasible is not None and decided.infeasible.deferred_since is not None
        return decided.decision.action is Action.WAIT and (deferred or rest)

    def _lacks_eviction(self, decided: ChosenResize) -> bool:
        return (
            self._mode is UpdateMode.IN_PLACE_OR_RECREATE
            and self._status is ResizeStatus.INFEASIBLE
            and decided.decision.action is Action.WAIT
        )

    @property
    def _is_outdated(self) -> bool:
        plan = self._plan
        return bool(plan.changes) and (plan.lowers or plan.withdraws or plan.keeps_memory)

    @property
    def _evicts_next(self) -> bool:
        """Return whether an eviction is next, even if the recommendation is lower now."""
        return (
            self._mode is UpdateMode.IN_PLACE_OR_RECREATE
            and not self._plan.withdraws
            and has_timed_out(self._pod, self._memory, self._rules, now=self._now)
        )

    @property
    def _is_held(self) -> bool:
        """Return whether the last call failed for another reason than the node's capacity."""
        return self._held is not None and self._held.reason is not Reason.RESIZE_INFEASIBLE

    def _refusal(self, plan: ResizePlan) -> Refusal | None:
        return self._vpa_plan.preflight.refuse_resize(self._pod, plan)

    def _allows(self, plan: ResizePlan) -> bool:
        if plan.withdraws or (self._skip_budget and not plan.restarts):
            return True
        return self._group is not None and self._group.allows(self._pod)

    def _send(
        self,
        why: Reason,
        plan: ResizePlan,
        infeasible: Infeasible | None,
        *,
        rest: Infeasible | None = None,
        may_evict: bool,
        detail: str = "",
    ) -> ChosenResize:
        if rollout_holds(self._pod, plan, self._group):
            return ChosenResize(wait(Reason.ROLLOUT_IN_PROGRESS), infeasible)
        deferred = self._status is ResizeStatus.DEFERRED
        attempt = Attempt(
            node=self._node,
            rest=rest,
            may_evict=may_evict,
            pending_since=resizing_since(self._pod, self._memory) if deferred else None,
        )
        decision = resize(why, detail=detail)
        return ChosenResize(decision, infeasible, ResizePod(plan=plan, attempt=attempt))

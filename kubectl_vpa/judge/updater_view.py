"""What the updater's last pass says about VPAs, where it is more specific than the status."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from msgspec.structs import replace

from common.read_model.updater import PlannedPod, PlannedVpa
from kubectl_vpa.judge.planned import message_of
from kubectl_vpa.judge.vpa_status import STATES, VpaFacts
from kubectl_vpa.results.status import StatusReason, VpaResult
from updater.decision import Action, Reason

_RANKS = {reason: rank for rank, reason in enumerate(StatusReason)}

_REFINED = frozenset(
    {
        StatusReason.RESIZE_INFEASIBLE,
        StatusReason.RESIZE_ERROR,
        StatusReason.BELOW_MIN_REPLICAS,
        StatusReason.REQUIREMENTS_NOT_MET,
        StatusReason.DISRUPTION_BUDGET,
        StatusReason.UPDATE_DUE,
        StatusReason.RESIZE_DEFERRED,
        StatusReason.RESIZE_IN_PROGRESS,
        StatusReason.TOO_YOUNG,
    }
)
"""The reasons for which the updater decides; with the others there is nothing to decide."""

_KNOWN: Mapping[str, StatusReason] = {
    Reason.RESIZE_INFEASIBLE: StatusReason.RESIZE_INFEASIBLE,
    Reason.INFEASIBLE_CACHED: StatusReason.RESIZE_INFEASIBLE,
    Reason.RESIZE_ERROR: StatusReason.RESIZE_ERROR,
    Reason.BELOW_MIN_REPLICAS: StatusReason.BELOW_MIN_REPLICAS,
    Reason.REQUIREMENTS_NOT_MET: StatusReason.REQUIREMENTS_NOT_MET,
    Reason.EVICTION_REFUSED: StatusReason.DISRUPTION_BUDGET,
    Reason.RESIZE_DEFERRED: StatusReason.RESIZE_DEFERRED,
    Reason.RESIZE_IN_PROGRESS: StatusReason.RESIZE_IN_PROGRESS,
    Reason.TOO_YOUNG: StatusReason.TOO_YOUNG,
    Reason.NOT_STARTED: StatusReason.TOO_YOUNG,
    Reason.TOO_SMALL: StatusReason.CLOSE_TO_TARGET,
}
"""Reasons of the updater that a client can derive, too."""

_PASSING = frozenset(
    {
        Reason.BUDGET_EXHAUSTED,
        Reason.ROLLOUT_IN_PROGRESS,
        Reason.POD_PENDING,
        Reason.STARTUP_BOOSTED,
        Reason.OOM_NOT_LEARNT_YET,
        Reason.OOM_AFTER_DECREASE,
        Reason.MEMORY_IN_USE,
        Reason.MEMORY_DECREASE_PAUSED,
        Reason.REPLACEMENT_UNVERIFIED,
        Reason.CAPACITY_REQUESTED,
        Reason.VPA_CHANGED,
        Reason.RESIZE_UNKNOWN,
        Reason.RESIZE_RETRY,
        Reason.UNBOOST_FAILED,
        Reason.EVICTION_FAILED,
        Reason.RATE_LIMITED,
        Reason.NO_TURN,
        Reason.RESIZE_SENT,
    }
)
"""Reasons of the updater that end without an action of a person."""

_OLDER = frozenset({Reason.NO_CHANGE, Reason.NO_RECOMMENDATION, Reason.NOTHING_TO_DO, Reason.GONE})
"""Reasons that contradict what is due now: the pass is older than the recommendation or the pod."""


@dataclass(slots=True)
class _Alike:
    """Pods on which the pass decided in the same way."""

    one: PlannedPod
    names: set[str] = field(default_factory=set)
    since: datetime | None = None  # the earliest


class UpdaterView:
    """The decisions of the updater's last pass, by VPA."""

    def __init__(self) -> None:
        self._by_vpa: defaultdict[tuple[str, str], dict[tuple[object, ...], _Alike]] = defaultdict(
            dict
        )

    def add(self, vpas: Sequence[PlannedVpa]) -> None:
        """Add a page of the plan; nothing is kept of equal decisions but the names of the pods."""
        for vpa in vpas:
            alike = self._by_vpa[vpa.namespace, vpa.name]
            for pod in vpa.pods:
                key = (pod.decision, pod.reason, pod.detail, pod.unblock)
                found = alike.get(key)
                if found is None:
                    found = alike[key] = _Alike(replace(pod, containers=()))
                found.names.add(pod.name)
                if pod.since is not None and (found.since is None or pod.since < found.since):
                    found.since = pod.since

    def refine(self, result: VpaResult, facts: VpaFacts) -> VpaResult:
        """Return the status with the updater's reason, where that is more specific.

        Pods that are gone don't count. The worst reason wins.
        """
        if result.reason not in _REFINED:
            return result
        names = {name for group in facts.groups or () for name in group.names}
        alike = self._by_vpa.get((result.namespace, result.name), {}).values()
        found = [
            (reason, each, count)
            for each in alike
            if (count := len(each.names & names)) and (reason := _reason(each.one)) is not None
        ]
        if not found:
            return result
        reason, each, _ = min(found, key=lambda one: _RANKS[one[0]])
        if reason is result.reason:
            return _explained(result, each, result.message)
        count = sum(number for other, one, number in found if one.one.reason == each.one.reason)
        pods = "1 pod" if count == 1 else f"{count} pods"
        stated = replace(result, reason=reason, state=STATES[reason])
        return _explained(stated, each, f"{pods}: {message_of(each.one)}")


def _explained(result: VpaResult, each: _Alike, message: str) -> VpaResult:
    return replace(
        result,
        message=message,
        since=each.since,
        until=each.one.until,
        updater_reason=each.one.reason,
        unblock=each.one.unblock,
    )


def _reason(pod: PlannedPod) -> StatusReason | None:
    """Return the reason of a status for a decision; None: the decision is outdated."""
    if pod.reason in _OLDER:
        return None
    if pod.decision in (Action.EVICT, Action.RESIZE):
        return StatusReason.UPDATE_DUE
    if (known := _KNOWN.get(pod.reason)) is not None:
        return known
    return StatusReason.POSTPONED if pod.reason in _PASSING else StatusReason.HELD_UP

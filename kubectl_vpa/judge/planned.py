"""What the next pass of the updater would do with the pods of a VPA."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler
from common.read_model.updater import PlannedPod, PlannedVpa
from common.target.controlling import mode_of
from kubectl_vpa.judge import target_sums
from kubectl_vpa.judge.group_verdict import GroupVerdict
from kubectl_vpa.judge.vpa_fields import has_recommendation, workload
from kubectl_vpa.judge.vpa_status import VpaFacts, judge_groups, judge_vpa
from kubectl_vpa.results.plan import PlanResult
from kubectl_vpa.results.status import ResourceStatus, StatusReason
from updater.decision import Action, Reason
from updater.remedies import REMEDIES
from updater.resize.resize_status import ResizeStatus

_ORDER = tuple(Action)
_INFEASIBLE = ResizeStatus.INFEASIBLE
_UNKNOWN = ResourceStatus()
_NO_DECISIONS = frozenset({UpdateMode.OFF, UpdateMode.INITIAL})
_EVICTING = frozenset({UpdateMode.RECREATE, UpdateMode.AUTO})
_DECISIONS: Mapping[StatusReason, tuple[Action, Reason]] = {
    StatusReason.UNREADABLE: (Action.LEAVE, Reason.UNREADABLE),
    StatusReason.NO_ROOM_IN_POD: (Action.WAIT, Reason.POD_LEVEL_RESOURCES_EXHAUSTED),
    StatusReason.RESIZE_INFEASIBLE: (Action.WAIT, Reason.RESIZE_INFEASIBLE),
    StatusReason.RESIZE_ERROR: (Action.WAIT, Reason.RESIZE_ERROR),
    StatusReason.BELOW_MIN_REPLICAS: (Action.WAIT, Reason.BELOW_MIN_REPLICAS),
    StatusReason.REQUIREMENTS_NOT_MET: (Action.WAIT, Reason.REQUIREMENTS_NOT_MET),
    StatusReason.DISRUPTION_BUDGET: (Action.WAIT, Reason.EVICTION_REFUSED),
    StatusReason.RESIZE_DEFERRED: (Action.WAIT, Reason.RESIZE_DEFERRED),
    StatusReason.RESIZE_IN_PROGRESS: (Action.WAIT, Reason.RESIZE_IN_PROGRESS),
    StatusReason.NOTHING_SCALED: (Action.LEAVE, Reason.NO_CHANGE),
    StatusReason.CLOSE_TO_TARGET: (Action.LEAVE, Reason.TOO_SMALL),
    StatusReason.AT_TARGET: (Action.LEAVE, Reason.NO_CHANGE),
}
_WITH_DETAIL = frozenset(
    {
        StatusReason.BELOW_MIN_REPLICAS,
        StatusReason.DISRUPTION_BUDGET,
        StatusReason.NOTHING_SCALED,
    }
)


@dataclass(frozen=True, slots=True)
class PlanGroup:
    """Pods of one VPA for which the same holds; ``pods`` is 0 for a VPA without pods."""

    one: PlanResult
    pods: int


def of_updater(vpa: VerticalPodAutoscaler, planned: PlannedVpa) -> Iterator[PlanResult]:
    """Yield the decisions of the updater's last pass on the pods of a VPA."""
    for pod in planned.pods:
        sums = target_sums.of_planned(pod)
        yield _result(
            vpa,
            decision=pod.decision,
            reason=pod.reason,
            message=message_of(pod),
            pod=pod.name,
            node=pod.node or None,
            unblock=pod.unblock,
            since=pod.since,
            until=pod.until,
            cpu=sums["cpu"],
            memory=sums["memory"],
        )
    if planned.why is not None:
        yield _result(vpa, decision=Action.LEAVE, reason=None, message=planned.why)


def unseen(vpa: VerticalPodAutoscaler) -> PlanResult:
    """Return that the updater's last pass has no decision on a VPA, which may be newer."""
    return _result(
        vpa, decision=Action.LEAVE, reason=None, message="the last pass has no decision on it"
    )


def derived(facts: VpaFacts, *, now: datetime) -> Iterator[PlanResult]:
    """Yield the decisions by the rules that ``status`` applies, for each pod of a VPA.

    They lack what only the updater knows: its flags, how many pods it may act on at a time, and
    the results of earlier actions.
    """
    vpa = facts.vpa
    if (why := _why_no_decisions(facts, now)) is not None:
        yield _result(vpa, decision=Action.LEAVE, reason=None, message=why)
        return
    for verdict in judge_groups(facts, now=now):
        action, reason = _decision(verdict, mode_of(vpa))
        detail = verdict.text if verdict.reason in _WITH_DETAIL else ""
        sums = {} if verdict.measured is None else target_sums.of_pod(verdict.measured)
        for name in verdict.group.names:
            yield _result(
                vpa,
                decision=action,
                reason=reason,
                message=worded(reason.meaning, detail),
                pod=name,
                unblock=REMEDIES.get(reason) if action is Action.WAIT else None,
                until=verdict.until,
                cpu=sums.get("cpu", _UNKNOWN),
                memory=sums.get("memory", _UNKNOWN),
            )


def order(result: PlanResult) -> tuple[int, str, str, str]:
    """Return the sort key: pods to act on first, then those that wait, and then by name."""
    known = result.decision in _ORDER
    rank = _ORDER.index(Action(result.decision)) if known else len(_ORDER)
    return (rank, result.namespace, result.vpa, result.pod or "")


def grouped(results: Iterable[PlanResult]) -> Sequence[PlanGroup]:
    """Return the groups of pods that differ in nothing but their names, nodes and times."""
    first: dict[tuple[object, ...], PlanResult] = {}
    pods: dict[tuple[object, ...], int] = {}
    for each in results:
        key = (
            *(each.namespace, each.vpa, each.decision, each.reason, each.message),
            *(each.cpu.request, each.cpu.target, each.memory.request, each.memory.target),
        )
        first.setdefault(key, each)
        pods[key] = pods.get(key, 0) + (each.pod is not None)
    return [PlanGroup(one, pods[key]) for key, one in first.items()]


def message_of(pod: PlannedPod) -> str:
    """Return the reason for the decision on a pod in words, with its numbers."""
    return worded(pod.meaning, pod.detail or "")


def worded(meaning: str, detail: str) -> str:
    """Return a meaning, and the numbers behind it, as a clause."""
    text = meaning.rstrip(".")
    starts_small = text[1:2].islower() or text[1:2] == " "
    clause = text[:1].lower() + text[1:] if starts_small else text
    return f"{clause}: {detail.rstrip('.')}" if detail else clause


def _why_no_decisions(facts: VpaFacts, now: datetime) -> str | None:
    """Return why the updater decides on no pod of a VPA."""
    vpa, mode = facts.vpa, mode_of(facts.vpa)
    if mode in _NO_DECISIONS and not facts.controlled_by:
        return f"mode {mode} changes no running pods"
    if facts.controlled_by or not has_recommendation(vpa.status) or not facts.groups:
        return judge_vpa(facts, now=now).message
    return None


def _decision(verdict: GroupVerdict, mode: str) -> tuple[Action, Reason]:
    update = verdict.update
    in_place = mode not in _EVICTING
    match verdict.reason:
        case StatusReason.UPDATE_DUE if in_place and verdict.group.resize is _INFEASIBLE:
            return (Action.EVICT, Reason.RESIZE_INFEASIBLE)
        case StatusReason.UPDATE_DUE if update is not None:
            return (Action.RESIZE if in_place else Action.EVICT, update)
        case StatusReason.TOO_YOUNG if update is not None:
            return (Action.LEAVE, update)
        case _:
            return _DECISIONS[verdict.reason]


def _result(
    vpa: VerticalPodAutoscaler,
    *,
    decision: str,
    reason: str | None,
    message: str,
    pod: str | None = None,
    node: str | None = None,
    unblock: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    cpu: ResourceStatus = _UNKNOWN,
    memory: ResourceStatus = _UNKNOWN,
) -> PlanResult:
    return PlanResult(
        namespace=vpa.metadata.namespace,
        vpa=vpa.metadata.name,
        mode=mode_of(vpa),
        **workload(vpa),
        pod=pod,
        node=node,
        decision=decision,
        reason=reason,
        message=message,
        unblock=unblock,
        since=since,
        until=until,
        cpu=cpu,
        memory=memory,
    )

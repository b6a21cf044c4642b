"""The state of a VPA, and the reason for it, from what was read."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from common.api.autoscaling import UpdateMode, VerticalPodAutoscaler, VpaCondition
from common.api.core import LimitRangeSpec
from common.api.horizontal_autoscaling import HorizontalPodAutoscaler
from common.target.controlling import mode_of
from common.target.owners import TargetKey
from kubectl_vpa.judge import target_sums
from kubectl_vpa.judge.competitors import PodDisruptionBudget, shared_resource
from kubectl_vpa.judge.group_verdict import GroupVerdict, judge_group
from kubectl_vpa.judge.pod_groups import PodGroup
from kubectl_vpa.judge.vpa_fields import has_recommendation, workload
from kubectl_vpa.results.status import ResourceStatus, State, StatusReason, VpaResult

NEW = timedelta(minutes=5)
"""A VPA without status is new for this long; a recommender writes the first one in a minute."""

_ORDER = tuple(State)
_NOTES = {
    "CappedByNodes": "the target is lowered to fit a node",
    "CappedByQuota": "a ResourceQuota bounds the target",
    "ExceedsKnownNodes": "the target fits no known node",
}
"""What follows the message of a VPA with a recommendation, by condition."""
_HISTORY = "the recommender is still loading history"
STATES = {
    reason: state
    for state, reasons in {
        State.BLOCKED: (
            StatusReason.UNSUPPORTED_TARGET,
            StatusReason.UNREADABLE,
            StatusReason.NO_ROOM_IN_POD,
            StatusReason.RESIZE_INFEASIBLE,
            StatusReason.RESIZE_ERROR,
            StatusReason.BELOW_MIN_REPLICAS,
            StatusReason.REQUIREMENTS_NOT_MET,
            StatusReason.DISRUPTION_BUDGET,
            StatusReason.HELD_UP,
        ),
        State.CONFLICTING: (StatusReason.OTHER_VPA, StatusReason.AUTOSCALED_HORIZONTALLY),
        State.NO_DATA: (
            StatusReason.NOT_PROCESSED,
            StatusReason.NEW,
            StatusReason.NO_PODS,
            StatusReason.FETCHING_HISTORY,
            StatusReason.NO_SAMPLES,
            StatusReason.PODS_NOT_SEEN,
        ),
        State.WAITING: (
            StatusReason.UPDATE_DUE,
            StatusReason.RESIZE_DEFERRED,
            StatusReason.RESIZE_IN_PROGRESS,
            StatusReason.TOO_YOUNG,
            StatusReason.NEXT_POD,
            StatusReason.POSTPONED,
        ),
        State.OK: (
            StatusReason.RECOMMENDATION_ONLY,
            StatusReason.NOTHING_SCALED,
            StatusReason.NO_PODS_NOW,
            StatusReason.CLOSE_TO_TARGET,
            StatusReason.AT_TARGET,
        ),
    }.items()
    for reason in reasons
}
"""The state for each reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VpaFacts:
    """What was read about one VPA; ``groups`` is None if pods could not be read."""

    vpa: VerticalPodAutoscaler
    groups: Sequence[PodGroup] | None
    live: Mapping[TargetKey, int] | None = None  # running pods, if ``groups`` has not all of them
    controlled_by: str = ""  # the VPA that controls the pods instead
    hpas: Sequence[HorizontalPodAutoscaler] = ()  # of the workload
    budgets: Sequence[PodDisruptionBudget] = ()  # of the namespace
    limit_ranges: Sequence[LimitRangeSpec] = ()  # of the namespace


@dataclass(frozen=True, slots=True)
class _Explained:
    reason: StatusReason
    message: str
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Numbers:
    sums: target_sums.Sums
    pods_due: int = 0
    verdicts: Sequence[GroupVerdict] = field(default_factory=tuple)


def judge_vpa(facts: VpaFacts, *, now: datetime) -> VpaResult:
    """Return the status of a VPA: the first of the reasons that applies, the worst first."""
    vpa = facts.vpa
    numbers = _numbers(facts, now)
    explained = _unusable(facts, now) or _conflict(facts) or _by_pods(facts, numbers)
    cpu = numbers.sums.get("cpu", ResourceStatus())
    memory = numbers.sums.get("memory", ResourceStatus())
    return VpaResult(
        namespace=vpa.metadata.namespace,
        name=vpa.metadata.name,
        **workload(vpa),
        mode=mode_of(vpa),
        state=STATES[explained.reason],
        reason=explained.reason,
        message="; ".join((explained.message, *_notes(vpa))),
        cpu=cpu,
        memory=memory,
        drift=target_sums.largest(numbers.sums),
        pods=None if facts.groups is None else sum(group.count for group in facts.groups),
        pods_due=numbers.pods_due,
        since=explained.since,
        until=explained.until,
    )


def worst_first(result: VpaResult) -> tuple[int, float, str, str]:
    """Return the sort key: the worst state first, then the largest drift, then by name."""
    drift = -abs(result.drift) if result.drift is not None else 0.0
    return (_ORDER.index(result.state), drift, result.namespace, result.name)


def _numbers(facts: VpaFacts, now: datetime) -> _Numbers:
    """Judge each group; the sums are those of the pods that differ most."""
    verdicts = judge_groups(facts, now=now)
    measured = [each for each in verdicts if each.measured is not None]
    if not measured:
        return _Numbers(target_sums.of_status(facts.vpa.status), verdicts=verdicts)
    widest = max(measured, key=lambda each: each.distance)
    assert widest.measured is not None  # noqa: S101 - for the type checker
    acts = mode_of(facts.vpa) != UpdateMode.OFF
    due = sum(each.group.count for each in verdicts if each.is_due and acts)
    return _Numbers(target_sums.of_pod(widest.measured), due, verdicts)


def judge_groups(facts: VpaFacts, *, now: datetime) -> Sequence[GroupVerdict]:
    """Return the verdict on each group of pods."""
    live = live_pods(facts) if facts.live is None else facts.live
    return [
        judge_group(
            group,
            facts.vpa,
            facts.limit_ranges,
            live=live[group.controller.key],
            budgets=facts.budgets,
            now=now,
        )
        for group in facts.groups or ()
    ]


def live_pods(facts: VpaFacts) -> Mapping[TargetKey, int]:
    """Return the number of running pods by their controller."""
    live = Counter[TargetKey]()
    for group in facts.groups or ():
        live[group.controller.key] += group.live
    return live


def _unusable(facts: VpaFacts, now: datetime) -> _Explained | None:
    """Return why there is nothing that could be applied."""
    vpa, conditions = facts.vpa, _true_conditions(facts.vpa)
    if vpa.spec.target_ref is None:
        return _Explained(StatusReason.UNSUPPORTED_TARGET, "the VPA has no targetRef")
    if unsupported := conditions.get("ConfigUnsupported"):
        message = unsupported.message or "the target can't be scaled"
        return _Explained(StatusReason.UNSUPPORTED_TARGET, message, _since(unsupported))
    if has_recommendation(vpa.status):
        return None
    created = vpa.metadata.creation_timestamp
    if facts.controlled_by:
        return None
    if not vpa.status.conditions:
        if created is not None and now - created < NEW:
            return _Explained(StatusReason.NEW, "new; no recommender has processed it yet", created)
        return _Explained(
            StatusReason.NOT_PROCESSED, "no recommender processes it; is one running?", created
        )
    if "NoPodsMatched" in conditions or facts.groups == []:
        since = _since(conditions.get("NoPodsMatched"))
        return _Explained(StatusReason.NO_PODS, "the workload has no pods", since)
    if "FetchingHistory" in conditions:
        return _Explained(
            StatusReason.FETCHING_HISTORY, _HISTORY, _since(conditions["FetchingHistory"])
        )
    missing = conditions.get("NoSamples")
    message = missing.message if missing and missing.message else "no usage has been measured yet"
    return _Explained(StatusReason.NO_SAMPLES, message, _since(missing))


def _conflict(facts: VpaFacts) -> _Explained | None:
    if facts.controlled_by:
        return _Explained(
            StatusReason.OTHER_VPA, f"VPA {facts.controlled_by} controls the same pods"
        )
    for hpa in facts.hpas:
        if resource := shared_resource(facts.vpa, hpa):
            return _Explained(
                StatusReason.AUTOSCALED_HORIZONTALLY,
                f"HPA {hpa.metadata.name} scales on {resource} utilization, too",
            )
    return None


def _by_pods(facts: VpaFacts, numbers: _Numbers) -> _Explained:
    """Return the state by the pods; there is a recommendation."""
    if facts.groups is None:
        return _Explained(StatusReason.PODS_NOT_SEEN, "the pods could not be read")
    mode = mode_of(facts.vpa)
    if mode == UpdateMode.OFF:
        return _Explained(StatusReason.RECOMMENDATION_ONLY, "only recommends")
    if not facts.groups:
        return _Explained(StatusReason.NO_PODS_NOW, "no pods now; new ones get the target")
    worst = min(numbers.verdicts, key=lambda each: each.rank)
    count = sum(each.group.count for each in numbers.verdicts if each.reason is worst.reason)
    pods = "1 pod" if count == 1 else f"{count} pods"
    return _Explained(worst.reason, worst.words(pods), until=worst.until)


def _notes(vpa: VerticalPodAutoscaler) -> Sequence[str]:
    """Return notes on the recommendation, which change no state."""
    conditions = _true_conditions(vpa) if has_recommendation(vpa.status) else {}
    return [note for name, note in _NOTES.items() if name in conditions]


def _true_conditions(vpa: VerticalPodAutoscaler) -> Mapping[str, VpaCondition]:
    return {each.type: each for each in vpa.status.conditions or () if each.status == "True"}


def _since(condition: VpaCondition | None) -> datetime | None:
    found = None if condition is None else condition.last_transition_time
    return found if isinstance(found, datetime) else None

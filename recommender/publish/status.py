"""The status of a VPA: recommendation and conditions.

Source: recommender.md sections 9 and 10; vertical-pod-autoscaler/pkg/recommender/model/vpa.go
and vertical-pod-autoscaler/pkg/utils/vpa/api.go.
"""

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from common.api.autoscaling import (
    ContainerRecommendation,
    RecommendedPodResources,
    VerticalPodAutoscaler,
    VpaCondition,
    VpaStatus,
)
from common.quantity import QuantityError
from common.recommendation.processing import ContainerAmounts, parse_recommendation
from common.resources import ResourceQuantities
from recommender.estimate.vpa_estimates import QUARTERS


class ConditionType(enum.StrEnum):
    """The conditions that the recommender sets; it keeps others in a status."""

    CAPPED_BY_QUOTA = "CappedByQuota"
    CAPPED_BY_NODES = "CappedByNodes"
    CONFIG_DEPRECATED = "ConfigDeprecated"  # from old versions: always removed
    CONFIG_UNSUPPORTED = "ConfigUnsupported"
    CONTROLLED_BY_ANOTHER = "ControlledByAnotherVPA"
    EXCEEDS_KNOWN_NODES = "ExceedsKnownNodes"
    FETCHING_HISTORY = "FetchingHistory"
    LOW_CONFIDENCE = "LowConfidence"
    NO_PODS_MATCHED = "NoPodsMatched"
    NO_SAMPLES = "NoSamples"
    RECOMMENDATION_PROVIDED = "RecommendationProvided"
    STALE_RECOMMENDATION = "StaleRecommendation"
    TARGET_SHARED = "TargetShared"


LIMIT_CONDITIONS = frozenset(
    {
        ConditionType.CAPPED_BY_NODES,
        ConditionType.CAPPED_BY_QUOTA,
        ConditionType.EXCEEDS_KNOWN_NODES,
    }
)
"""The conditions that describe the published recommendation."""

_NO_PODS = "No pods match this VPA object"
_LOW_CONFIDENCE = (
    "{names}: {known} of usage is known. The bounds stay wide until {interval} is known, which "
    "takes at most {left} more if no measurement is missing."
)
_OLDER_VPA = "OlderVPA"
_CONTROLLED = (
    "VPA {name} has the same target and controls its pods: it is older, or as old and first by "
    "name. Delete one of the two VPAs, or set the update mode of {name} to Off and remove its "
    "startupBoost."
)
_YOUNGER_VPAS = "YoungerVPAs"
_SHARED = (
    "This VPA controls the pods of its target. These VPAs with the same target change no pod: "
    "{names}. Delete them, or set the update mode of this VPA to Off and remove its startupBoost."
)
_HISTORY = (
    "History from Prometheus is still being loaded. A recommendation that was published before "
    "stays until then."
)
_NO_USAGE = "NoUsage"
_NO_SAMPLES = (
    "{names}: no usage is known. The metrics API has to report the container first, which it does "
    "not do for one that ends within seconds."
)
_UNITS = ((3600, "h"), (60, "m"), (1, "s"))
_SHOWN_NAMES = 20  # containers or VPAs in a message
_HISTORY_EXPIRED = "HistoryExpired"
_STALE = (
    "{names}: the history of usage expired. The last recommendation stays until there is one "
    "confidence interval of new usage; an OOM kill raises memory before that."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LittleHistory:
    """Containers with less than one confidence interval of usage.

    Whole quarters change four times in an interval, and a message with them is seldom written.
    """

    containers: tuple[str, ...]
    quarters: int  # of an interval that are known, of the resource with the least: 0 to 3
    interval: timedelta


@dataclass(frozen=True, slots=True)
class LimitFinding:
    """A finding about a limit on the pod of the recommendation; its condition is True."""

    condition: ConditionType
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusFindings:
    """The findings of this cycle about a VPA."""

    recommendation: tuple[ContainerAmounts, ...]
    pods: int  # number of pods that its selector matches
    unsupported: str = ""
    controlled_by: str = ""  # the name of the VPA that controls the target's pods instead
    controls: tuple[str, ...] = ()  # the names of VPAs that this one controls the pods of
    little_history: LittleHistory | None = None
    fetching_history: bool = False
    unknown: tuple[str, ...] = ()  # containers without samples
    stale: tuple[str, ...] = ()  # containers whose history expired
    limits: tuple[LimitFinding, ...] = ()  # one at most of each condition


def next_status(vpa: VerticalPodAutoscaler, findings: StatusFindings, now: datetime) -> VpaStatus:
    """Return the status for the findings of this cycle."""
    return VpaStatus(
        recommendation=to_status(findings.recommendation),
        conditions=_merged(vpa.status.conditions or (), _set(findings), ConditionType, now),
        observed_generation=vpa.metadata.generation,
    )


def kept_status(vpa: VerticalPodAutoscaler, findings: StatusFindings, now: datetime) -> VpaStatus:
    """Return the same with the recommendation that is published, and its conditions about limits.

    If a published target was lowered, the condition is the only record of that.
    """
    decided = [each for each in ConditionType if each not in LIMIT_CONDITIONS]
    wanted = _set(replace(findings, limits=()))
    return VpaStatus(
        recommendation=vpa.status.recommendation,
        conditions=_merged(vpa.status.conditions or (), wanted, decided, now),
        observed_generation=vpa.metadata.generation,
    )


def open_status(vpa: VerticalPodAutoscaler, unsupported: str, now: datetime) -> VpaStatus:
    """Return the status while the selector of the target is unknown (Q1).

    The last recommendation stays.
    """
    kind = ConditionType.CONFIG_UNSUPPORTED
    existing = vpa.status.conditions or ()
    return VpaStatus(
        recommendation=vpa.status.recommendation,
        conditions=_merged(existing, ((kind, "True", "", unsupported),), (kind,), now),
        observed_generation=vpa.metadata.generation,
    )


def recommended_amounts(status: VpaStatus) -> dict[str, ContainerAmounts]:
    """Return the recommendation of a status by container; empty if it can't be parsed."""
    if status.recommendation is None:
        return {}
    try:
        return {one.name: one for one in parse_recommendation(status.recommendation)}
    except QuantityError:
        return {}


def lowered_resources(status: VpaStatus, by: ConditionType) -> frozenset[str]:
    """Return the resources whose published targets are lowered, if a condition says so."""
    if not is_true(status, by):
        return frozenset()
    return frozenset(
        resource
        for one in recommended_amounts(status).values()
        for resource, target in one.target.items()
        if target < one.uncapped_target.get(resource, target)
    )


def stale_containers(status: VpaStatus) -> frozenset[str]:
    """Return the containers that a status names as stale.

    After a restart the status is the only record of that, if a container has new usage.
    """
    kind = ConditionType.STALE_RECOMMENDATION
    for one in status.conditions or ():
        if one.type == kind and one.status == "True":
            return frozenset(one.message.partition(":")[0].split(", "))
    return frozenset()


def to_status(amounts: Iterable[ContainerAmounts]) -> RecommendedPodResources:
    """Return the recommendation in the form of the status; an empty object if there is none."""
    written = tuple(
        ContainerRecommendation(
            container_name=one.name,
            target=_texts(one.target),
            lower_bound=_texts(one.lower_bound),
            upper_bound=_texts(one.upper_bound),
            uncapped_target=_texts(one.uncapped_target),
        )
        for one in amounts
    )
    return RecommendedPodResources(container_recommendations=written or None)


def is_true(status: VpaStatus, kind: ConditionType) -> bool:
    """Return True if a status has this condition, and its status is True."""
    return any(one.type == kind and one.status == "True" for one in status.conditions or ())


def is_provided(status: VpaStatus) -> bool:
    """Return True if the condition RecommendationProvided is True."""
    return is_true(status, ConditionType.RECOMMENDATION_PROVIDED)


_Condition: TypeAlias = tuple[ConditionType, str, str, str]
"""Type, status, reason and message."""


def _merged(
    existing: Iterable[VpaCondition],
    wanted: Iterable[_Condition],
    decided: Iterable[ConditionType],
    now: datetime,
) -> tuple[VpaCondition, ...]:
    """Return the conditions, sorted by type.

    Existing conditions of the ``decided`` types are replaced by the wanted ones. The transition
    time changes only if the status of the condition changes.
    """
    before = {condition.type: condition for condition in existing}
    after = dict(before)
    for kind in decided:
        after.pop(kind, None)
    for kind, status, reason, message in wanted:
        old = before.get(kind)
        since = old.last_transition_time if old is not None and old.status == status else None
        after[kind] = VpaCondition(
            type=kind.value,
            status=status,
            last_transition_time=since or now.replace(microsecond=0),
            reason=reason,
            message=message,
        )
    return tuple(after[kind] for kind in sorted(after))


def _set(findings: StatusFindings) -> Iterable[_Condition]:
    """Yield the conditions for the findings."""
    no_pods = ConditionType.NO_PODS_MATCHED.value
    if findings.recommendation:
        yield ConditionType.RECOMMENDATION_PROVIDED, "True", "", ""
    elif findings.pods:
        yield ConditionType.RECOMMENDATION_PROVIDED, "False", "", ""
    else:
        yield ConditionType.RECOMMENDATION_PROVIDED, "False", no_pods, _NO_PODS
    if not findings.pods:
        yield ConditionType.NO_PODS_MATCHED, "True", no_pods, _NO_PODS
    if findings.unsupported:
        yield ConditionType.CONFIG_UNSUPPORTED, "True", "", findings.unsupported
    if findings.controlled_by:
        message = _CONTROLLED.format(name=findings.controlled_by)
        yield ConditionType.CONTROLLED_BY_ANOTHER, "True", _OLDER_VPA, message
    if findings.controls:
        message = _SHARED.format(names=listed(findings.controls))
        yield ConditionType.TARGET_SHARED, "True", _YOUNGER_VPAS, message
    if findings.little_history is not None and findings.recommendation:
        message = _low_confidence(findings.little_history)
        yield ConditionType.LOW_CONFIDENCE, "True", "", message
    if findings.fetching_history:
        yield ConditionType.FETCHING_HISTORY, "True", "", _HISTORY
    if findings.unknown:
        message = _NO_SAMPLES.format(names=listed(findings.unknown))
        yield ConditionType.NO_SAMPLES, "True", _NO_USAGE, message
    if findings.stale:
        message = _STALE.format(names=", ".join(findings.stale))
        yield ConditionType.STALE_RECOMMENDATION, "True", _HISTORY_EXPIRED, message
    for each in findings.limits:
        yield each.condition, "True", each.reason, each.message


def _low_confidence(history: LittleHistory) -> str:
    quarter, known = history.interval / QUARTERS, history.quarters
    most = _length(quarter * (known + 1))
    return _LOW_CONFIDENCE.format(
        names=listed(history.containers),
        known=f"{_length(quarter * known)} to {most}" if known else f"less than {most}",
        interval=_length(history.interval),
        left=_length(history.interval - quarter * known),
    )


def _length(time: timedelta) -> str:
    """Return a time with three digits in its largest unit, such as ``4.5h``."""
    seconds = time.total_seconds()
    size, unit = next((each for each in _UNITS if seconds >= each[0]), _UNITS[-1])
    return f"{seconds / size:.3g}{unit}"


def listed(names: Sequence[str]) -> str:
    """Return at most 20 names, and the number of the others."""
    shown = ", ".join(names[:_SHOWN_NAMES])
    more = len(names) - _SHOWN_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def _texts(values: ResourceQuantities) -> dict[str, str]:
    return {resource: str(value) for resource, value in values.items()}

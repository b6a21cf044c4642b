"""The status of a VPA: conditions, and a patch where a reader would see a difference.

Source: recommender.md sections 9 and 10; vertical-pod-autoscaler/pkg/recommender/model/vpa.go
and vertical-pod-autoscaler/pkg/utils/vpa/api.go.
"""

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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


class ConditionType(enum.StrEnum):
    """The conditions that we set; others in a status are kept."""

    CONFIG_DEPRECATED = "ConfigDeprecated"  # of old versions: always taken away
    CONFIG_UNSUPPORTED = "ConfigUnsupported"
    CONTROLLED_BY_ANOTHER = "ControlledByAnotherVPA"
    FETCHING_HISTORY = "FetchingHistory"
    LOW_CONFIDENCE = "LowConfidence"
    NO_PODS_MATCHED = "NoPodsMatched"
    NO_SAMPLES = "NoSamples"
    RECOMMENDATION_PROVIDED = "RecommendationProvided"
    STALE_RECOMMENDATION = "StaleRecommendation"


NOTICEABLE_CHANGE = 0.01
"""The largest relative change of a bound that can wait."""
MAX_DELAY = timedelta(minutes=10)
"""How long after the last write it can."""

_NO_PODS = "No pods match this VPA object"
_LOW_CONFIDENCE = "Less than one confidence interval of usage is known"
_OLDER_VPA = "OlderVPA"
_CONTROLLED = (
    "VPA {name} has the same target and controls its pods: it is older, or as old and first by "
    "name. Delete one of the two VPAs, or set the update mode of {name} to Off and remove its "
    "startupBoost."
)
_HISTORY = "History is still being loaded"
_NO_USAGE = "NoUsage"
_NO_SAMPLES = (
    "{names}: no usage is known. The metrics API has to report the container first, which it does "
    "not do for one that ends within seconds."
)
_SHOWN_NAMES = 20  # of containers without samples
_HISTORY_EXPIRED = "HistoryExpired"
_STALE = (
    "{names}: the history of usage expired. The last recommendation stays until there is one "
    "confidence interval of new usage; an OOM kill raises memory before that."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusFindings:
    """What this cycle found out about a VPA."""

    recommendation: tuple[ContainerAmounts, ...]
    pods: int  # that its selector matches
    unsupported: str = ""
    controlled_by: str = ""  # the name of the VPA that controls the target's pods instead
    low_confidence: bool = False
    fetching_history: bool = False
    unknown: tuple[str, ...] = ()  # containers without samples
    stale: tuple[str, ...] = ()  # containers whose history expired


def next_status(vpa: VerticalPodAutoscaler, findings: StatusFindings, now: datetime) -> VpaStatus:
    """Return the status that this cycle's findings call for."""
    return VpaStatus(
        recommendation=to_status(findings.recommendation),
        conditions=_merged(vpa.status.conditions or (), _set(findings), ConditionType, now),
        observed_generation=vpa.metadata.generation,
    )


def open_status(vpa: VerticalPodAutoscaler, unsupported: str, now: datetime) -> VpaStatus:
    """Return the status while it is unknown which pods the target selects (Q1).

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
    """Return what a status recommends, by container; nothing if it can't be read."""
    if status.recommendation is None:
        return {}
    try:
        return {one.name: one for one in parse_recommendation(status.recommendation)}
    except QuantityError:
        return {}


def stale_containers(status: VpaStatus) -> frozenset[str]:
    """Return the containers that a status calls stale.

    Only the status knows that of a container that has new usage since the last restart.
    """
    kind = ConditionType.STALE_RECOMMENDATION
    for one in status.conditions or ():
        if one.type == kind and one.status == "True":
            return frozenset(one.message.partition(":")[0].split(", "))
    return frozenset()


def to_status(amounts: Iterable[ContainerAmounts]) -> RecommendedPodResources:
    """Return the recommendation as the status holds it: an empty object if there is nothing."""
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


def status_difference(current: VpaStatus, wanted: VpaStatus) -> float:
    """Return how far a status is from the wanted one, as a reader sees it.

    Nothing (0.0) if all is equal by value: times are compared as instants, and an empty list equals
    none, but an empty recommendation doesn't. Infinitely far where anything differs but the amounts
    of lowerBound, upperBound and uncappedTarget. Else the largest relative change of one of these.
    """
    if current.observed_generation != wanted.observed_generation:
        return math.inf
    if _meaning(current.conditions) != _meaning(wanted.conditions):
        return math.inf
    before, after = _amounts(current.recommendation), _amounts(wanted.recommendation)
    if before is None or after is None or len(before) != len(after):
        return 0.0 if current.recommendation == wanted.recommendation else math.inf
    return max(map(_container_difference, before, after), default=0.0)


def is_due(by: float, *, waited: timedelta, interval: timedelta) -> bool:
    """Return whether a status that differs ``by`` so much is written now (X80).

    At once if a reader would notice, and a smaller difference before the next cycle, an
    ``interval`` from now, would be more than ten minutes after the last write.
    """
    return by > NOTICEABLE_CHANGE or (by > 0 and waited + interval > MAX_DELAY)


def is_true(status: VpaStatus, kind: ConditionType) -> bool:
    """Return whether a status has this condition, and it is True."""
    return any(one.type == kind and one.status == "True" for one in status.conditions or ())


def is_provided(status: VpaStatus) -> bool:
    """Return whether a status says that it holds a recommendation."""
    return is_true(status, ConditionType.RECOMMENDATION_PROVIDED)


_Condition: TypeAlias = tuple[ConditionType, str, str, str]
"""Type, status, reason and message."""


def _merged(
    existing: Iterable[VpaCondition],
    wanted: Iterable[_Condition],
    decided: Iterable[ConditionType],
    now: datetime,
) -> tuple[VpaCondition, ...]:
    """Return the conditions, sorted by type: of those ``decided`` only the wanted ones.

    A time changes only with its condition's status.
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
    """Each condition that is to be there."""
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
    if findings.low_confidence and findings.recommendation:
        yield ConditionType.LOW_CONFIDENCE, "True", "", _LOW_CONFIDENCE
    if findings.fetching_history:
        yield ConditionType.FETCHING_HISTORY, "True", "", _HISTORY
    if findings.unknown:
        names = ", ".join(findings.unknown[:_SHOWN_NAMES])
        if len(findings.unknown) > _SHOWN_NAMES:
            names += f" and {len(findings.unknown) - _SHOWN_NAMES} more"
        yield ConditionType.NO_SAMPLES, "True", _NO_USAGE, _NO_SAMPLES.format(names=names)
    if findings.stale:
        message = _STALE.format(names=", ".join(findings.stale))
        yield ConditionType.STALE_RECOMMENDATION, "True", _HISTORY_EXPIRED, message


def _meaning(conditions: Iterable[VpaCondition] | None) -> set[tuple[object, ...]]:
    return {
        (
            condition.type,
            condition.status,
            condition.last_transition_time,
            condition.reason,
            condition.message,
            condition.observed_generation,
        )
        for condition in conditions or ()
    }


def _amounts(recommendation: RecommendedPodResources | None) -> Sequence[ContainerAmounts] | None:
    """Return what is recommended; None if nothing is, or if another program wrote nonsense."""
    if recommendation is None:
        return None
    try:
        return parse_recommendation(recommendation)
    except QuantityError:
        return None


def _container_difference(before: ContainerAmounts, after: ContainerAmounts) -> float:
    if before.name != after.name or before.target != after.target:
        return math.inf
    pairs = (
        (before.lower_bound, after.lower_bound),
        (before.upper_bound, after.upper_bound),
        (before.uncapped_target, after.uncapped_target),
    )
    return max(_change(old, new) for old, new in pairs)


def _change(before: ResourceQuantities, after: ResourceQuantities) -> float:
    """Return the largest relative change of a resource; infinite where one has come or gone."""
    if before.keys() != after.keys():
        return math.inf
    return max((_relative(old.nanos, after[name].nanos) for name, old in before.items()), default=0)


def _relative(before: int, after: int) -> float:
    if before == after:
        return 0.0
    return abs(after - before) / abs(before) if before else math.inf


def _texts(values: ResourceQuantities) -> dict[str, str]:
    return {resource: str(value) for resource, value in values.items()}

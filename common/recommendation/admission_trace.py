"""A decision trace of a new pod, from the recommendation in a VPA's status to its resources.

Source: admission.md 6.2.
"""

import contextlib
from collections.abc import Container, Sequence
from itertools import islice

from common.api.autoscaling import RecommendedPodResources, VerticalPodAutoscaler
from common.api.core import Pod
from common.errors import DecodeError
from common.recommendation.admitted_resources import AdmittedResources
from common.recommendation.amounts import ContainerAmounts
from common.recommendation.decision_trace import Amount, DecisionTrace
from common.recommendation.processing import ProcessingStages
from common.recommendation.scaled_containers import scaled_specs
from common.resources import parse_quantities

WHOLE_POD = ""  # stands for a container in steps of the pod's ``spec.resources``

UNCAPPED = "estimated by the recommender (uncappedTarget)"
RECOMMENDED = "recommended in the VPA's status"
SWITCHED_OFF = "dropped: the container's policy has mode Off"
NO_CONTAINER = "dropped: the pod has no such container"
RAISED_FOR_POD = "raised in proportion to fit Min in pod LimitRange"
LOWERED_FOR_POD = "lowered in proportion to fit Max in pod LimitRange"
LOWERED_FOR_POD_LEVEL = "lowered in proportion to fit spec.resources of the pod"
NO_ROOM_IN_POD = "dropped: spec.resources of the pod leave no room for it"
SHARED_WITH_ALL = (
    "lowered in proportion to fit Max in pod LimitRange, although nothing is recommended for it: "
    "it would leave nothing to the others"
)
FOLLOWED = "moved along with the containers"
ONE_UNIT = "raised to one unit: nothing is scaled down to zero"
KEPT = "kept as it is: only rounding would change it"
ORDERED = "moved to the target: lower bound <= target <= upper bound"

_AMOUNTS = (Amount.REQUEST, Amount.LOWER_BOUND, Amount.UPPER_BOUND)
_MOST_ABSENT = 100  # recommendations without a container that are recorded


def admission_trace(
    pod: Pod, vpa: VerticalPodAutoscaler, admitted: AdmittedResources
) -> DecisionTrace:
    """Return the steps to each number of ``admitted``, which was computed from the other two."""
    trace = DecisionTrace()
    containers = scaled_specs(pod)
    if admitted.stages is not None:
        record_stages(trace, admitted.stages)
    if admitted.stages is not None and vpa.status.recommendation is not None:
        names = {container.name for container in containers}
        _record_absent(trace, vpa.status.recommendation, names)
    for container, wanted in zip(containers, admitted.containers, strict=True):
        trace.record_steps(container.name, Amount.LIMIT, wanted.limit_steps)
        boost = admitted.boosts.get(container.name)
        if boost is not None:
            trace.record_steps(container.name, Amount.REQUEST, boost.request_steps)
            trace.record_steps(container.name, Amount.LIMIT, boost.limit_steps)
    trace.record_values(WHOLE_POD, Amount.REQUEST, admitted.pod_level.requests, FOLLOWED)
    trace.record_values(WHOLE_POD, Amount.LIMIT, admitted.pod_level.limits, FOLLOWED)
    return trace


def record_stages(trace: DecisionTrace, stages: ProcessingStages) -> None:
    """Record the changes of each stage of processing."""
    capped = stages.capped
    _record_recommended(trace, stages.recommended, stages.kept)
    trace.record_changes(
        _AMOUNTS, stages.kept, capped.together, RAISED_FOR_POD, lowered=LOWERED_FOR_POD
    )
    for name, applied in capped.applied.items():
        trace.record_steps(name, Amount.REQUEST, applied.target)
        trace.record_steps(name, Amount.LOWER_BOUND, applied.lower_bound)
        trace.record_steps(name, Amount.UPPER_BOUND, applied.upper_bound)
    trace.record_changes(_AMOUNTS, capped.recommendations, stages.scaled, ONE_UNIT)
    for name, requests in stages.shrunk.items():
        trace.record_values(name, Amount.REQUEST, requests, SHARED_WITH_ALL)
    trace.record_changes(
        _AMOUNTS, stages.whole, stages.fitted, LOWERED_FOR_POD_LEVEL, dropped=NO_ROOM_IN_POD
    )
    trace.record_changes(_AMOUNTS, stages.fitted, stages.stable, KEPT)
    trace.record_changes(_AMOUNTS, stages.stable, stages.ordered, ORDERED)


def _record_recommended(
    trace: DecisionTrace, recommended: Sequence[ContainerAmounts], kept: Sequence[ContainerAmounts]
) -> None:
    for each in recommended:
        estimates = each.uncapped_target.items()
        uncapped = {name: value for name, value in estimates if name in each.target}
        trace.record_values(each.name, Amount.REQUEST, uncapped, UNCAPPED)
        trace.record_values(each.name, Amount.REQUEST, each.target, RECOMMENDED)
        trace.record_values(each.name, Amount.LOWER_BOUND, each.lower_bound, RECOMMENDED)
        trace.record_values(each.name, Amount.UPPER_BOUND, each.upper_bound, RECOMMENDED)
    for name in {each.name for each in recommended} - {each.name for each in kept}:
        trace.record_dropped(name, SWITCHED_OFF)


def _record_absent(
    trace: DecisionTrace, recommendation: RecommendedPodResources, present: Container[str]
) -> None:
    """Record the recommendations dropped because the pod has no such container."""
    every = recommendation.container_recommendations or ()
    absent = (each for each in every if each.container_name not in present)
    for each in islice(absent, _MOST_ABSENT):
        with contextlib.suppress(DecodeError):  # not validated, because it is not used
            target = parse_quantities(each.target)
            trace.record_values(each.container_name, Amount.REQUEST, target, RECOMMENDED)
        trace.record_dropped(each.container_name, NO_CONTAINER)

"""The minimums of targets that are lowered together."""

from common.resources import CPU, MEMORY, cpu_quantity
from recommender.estimate.estimation import EstimationSettings
from recommender.estimate.lowering import lowest_targets
from recommender.estimate.post_processing import ProcessingStage
from recommender.estimate.step_reasons import StepReason


def test_minimums_are_min_allowed_or_the_share_of_the_smallest_pod() -> None:
    low = {"app": {CPU: cpu_quantity(80)}, "log": {CPU: cpu_quantity(5)}}
    stages = (ProcessingStage(reason=StepReason.MIN_ALLOWED, amounts=(), by=low),)
    estimation = EstimationSettings(pod_min_cpu=25, pod_min_memory=250)

    found = lowest_targets(stages, ("app", "log"), estimation)

    assert found == {
        "app": {CPU: 80, MEMORY: 125 << 20},
        "log": {CPU: 12, MEMORY: 125 << 20},
    }


def test_no_minimum_is_zero() -> None:
    """A target of zero would remove the request, and the limit with it."""
    estimation = EstimationSettings(pod_min_cpu=0, pod_min_memory=0)

    assert lowest_targets((), ("app",), estimation) == {"app": {CPU: 1, MEMORY: 1}}

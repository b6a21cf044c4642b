"""Targets that are lowered to quotas, and the condition that states it."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import pytest

from common.quantity import Quantity
from common.recommendation.amounts import ContainerAmounts
from common.resources import CPU, MEMORY, RESOURCES
from recommender.estimate.amount_selection import SelectedAmounts
from recommender.estimate.estimation import EstimationSettings
from recommender.estimate.pod_sums import PhaseSum, PodSum, Targets
from recommender.estimate.post_processing import PostProcessed, ProcessingStage, quantity
from recommender.estimate.quota_bounds import QuotaBound
from recommender.estimate.quota_capping import WithinQuotas, quota_minimums, within_quotas
from recommender.estimate.step_reasons import StepReason
from recommender.publish.quota_messages import quota_findings
from recommender.publish.status import ConditionType

GIB = 1 << 30
NO_MINIMUMS: Mapping[str, Targets] = {CPU: {}, MEMORY: {}}


def amounts(name: str, cpu: int, memory: int = GIB) -> ContainerAmounts:
    """Return a recommendation with a lower bound of a half and an upper bound of twice."""

    def times(factor: float) -> Mapping[str, Quantity]:
        return {
            CPU: quantity(CPU, int(factor * cpu)),
            MEMORY: quantity(MEMORY, int(factor * memory)),
        }

    return ContainerAmounts(
        name=name,
        target=times(1),
        lower_bound=times(0.5),
        upper_bound=times(2),
        uncapped_target=times(1),
    )


def processed(*containers: ContainerAmounts) -> PostProcessed:
    stage = ProcessingStage(reason=StepReason.ORDER, amounts=containers)
    return PostProcessed(
        estimated=containers, stages=(stage,), selected=SelectedAmounts(amounts=containers)
    )


def bound(
    most: int, name: str = "requests.cpu", *, pods: int = 3, rivals: int = 0, quota: str = "team"
) -> QuotaBound:
    factor = Fraction(2 if name.startswith("limits") else 1)
    return QuotaBound(
        quota=quota,
        name=name,
        hard=pods * most + 200,
        others=200,
        rivals=rivals,
        pods=pods,
        most=most,
        pod=PodSum((PhaseSum(0, {"app": factor, "log": factor}),)),
    )


def targets(found: WithinQuotas, resource: str = CPU) -> list[int]:
    targets = (one.target[resource] for one in found.processed.amounts)
    return [one.milli if resource == CPU else one.value for one in targets]


BOTH = processed(amounts("app", 300), amounts("log", 100))


@pytest.mark.parametrize(
    ("bounds", "minimums", "lowered"),
    [
        pytest.param((), NO_MINIMUMS, [300, 100], id="no quota"),
        pytest.param([bound(400)], NO_MINIMUMS, [300, 100], id="the pod just fits"),
        pytest.param([bound(399)], NO_MINIMUMS, [299, 99], id="a millicore too much"),
        pytest.param([bound(200)], NO_MINIMUMS, [150, 50], id="in proportion"),
        pytest.param(
            [bound(200)], {CPU: {"log": 80}, MEMORY: {}}, [120, 80], id="a minimum is kept"
        ),
        pytest.param(
            [bound(100)],
            {CPU: {"app": 90, "log": 80}, MEMORY: {}},
            [90, 80],
            id="minimums that don't fit are published",
        ),
        pytest.param([bound(200, "limits.cpu")], NO_MINIMUMS, [75, 25], id="limits of twice"),
        pytest.param(
            [bound(200, "limits.cpu"), bound(200)], NO_MINIMUMS, [75, 25], id="the smallest of two"
        ),
        pytest.param([bound(GIB, "cpu")], NO_MINIMUMS, [300, 100], id="a huge quota"),
    ],
)
def test_targets_within_quotas(
    bounds: Sequence[QuotaBound], minimums: Mapping[str, Targets], lowered: list[int]
) -> None:
    found = within_quotas(BOTH, bounds, minimums)

    assert targets(found) == lowered
    assert targets(found, MEMORY) == [GIB, GIB]


def test_bounds_are_at_most_the_lowered_target_and_the_uncapped_target_stays() -> None:
    (app, log) = within_quotas(BOTH, [bound(100)], NO_MINIMUMS).processed.amounts

    assert [each.target[CPU].milli for each in (app, log)] == [75, 25]
    assert app.lower_bound[CPU].milli == 75, "it was 150"
    assert app.upper_bound[CPU].milli == 75
    assert app.uncapped_target[CPU].milli == 300
    assert app.upper_bound[MEMORY].value == 2 * GIB


def test_the_step_has_the_lowered_amounts_as_operands() -> None:
    stage = within_quotas(BOTH, [bound(200)], NO_MINIMUMS).processed.stages[-1]

    assert stage.reason is StepReason.QUOTA
    assert stage.by == {"app": {CPU: quantity(CPU, 150)}, "log": {CPU: quantity(CPU, 50)}}


def test_without_a_lowered_target_there_is_no_step() -> None:
    assert within_quotas(BOTH, [bound(400)], NO_MINIMUMS).processed is BOTH


def test_minimums_are_min_allowed_or_the_share_of_the_smallest_pod() -> None:
    low = {"app": {CPU: quantity(CPU, 80)}, "log": {CPU: quantity(CPU, 5)}}
    stages = (ProcessingStage(reason=StepReason.MIN_ALLOWED, amounts=(), by=low),)
    estimation = EstimationSettings(pod_min_cpu=25, pod_min_memory=250)

    found = quota_minimums(stages, ("app", "log"), estimation)

    assert found[CPU] == {"app": 80, "log": 12}
    assert found[MEMORY] == dict.fromkeys(("app", "log"), 125 << 20)


def test_no_minimum_is_zero() -> None:
    """A target of zero would remove the request, and the limit with it."""
    estimation = EstimationSettings(pod_min_cpu=0, pod_min_memory=0)

    found = quota_minimums((), ("app",), estimation)

    assert found == {name: {"app": 1} for name in RESOURCES}


def test_a_pod_that_fits_has_no_condition() -> None:
    assert quota_findings(within_quotas(BOTH, [bound(400)], NO_MINIMUMS)) == ()


@pytest.mark.parametrize(
    ("bounds", "minimums", "reason", "message"),
    [
        pytest.param(
            [bound(200)],
            NO_MINIMUMS,
            "TargetsLowered",
            "app, log: targets are lowered so that the pods of a rollout fit. ResourceQuota team "
            "allows 800m of requests.cpu, of which other pods use 200m. Each of the 3 pods of a "
            "rollout may use 200m, and the recommendation wants 400m.",
            id="lowered",
        ),
        pytest.param(
            [bound(200, pods=1, rivals=1)],
            NO_MINIMUMS,
            "TargetsLowered",
            "app, log: targets are lowered so that the pods of a rollout fit. ResourceQuota team "
            "allows 400m of requests.cpu, of which other pods use 200m and 1 other VPA gets a "
            "share of the rest. The only pod of a rollout may use 200m, and the recommendation "
            "wants 400m.",
            id="one rival, and one pod",
        ),
        pytest.param(
            [bound(GIB, "limits.memory", rivals=2)],
            NO_MINIMUMS,
            "TargetsLowered",
            "app, log: targets are lowered so that the pods of a rollout fit. ResourceQuota team "
            "allows 3.00Gi of limits.memory, of which other pods use 200 and 2 other VPAs get a "
            "share of the rest. Each of the 3 pods of a rollout may use 1.00Gi, and the "
            "recommendation wants 4.00Gi.",
            id="memory, and several rivals",
        ),
        pytest.param(
            [bound(300, quota="wide"), bound(100)],
            {CPU: {"app": 90, "log": 80}, MEMORY: {}},
            "RolloutDoesNotFit",
            "The pods of a rollout do not fit, not even with the lowest targets. ResourceQuota "
            "team allows 500m of requests.cpu, of which other pods use 200m. Each of the 3 pods of "
            "a rollout may use 100m, but it needs at least 170m. ResourceQuota wide allows 1100m "
            "of requests.cpu, of which other pods use 200m. Each of the 3 pods of a rollout may "
            "use 300m, and the recommendation wants 400m.",
            id="one quota that is too small, and one that is met",
        ),
    ],
)
def test_the_condition_states_the_numbers(
    bounds: Sequence[QuotaBound], minimums: Mapping[str, Targets], reason: str, message: str
) -> None:
    (found,) = quota_findings(within_quotas(BOTH, bounds, minimums))

    assert found.condition is ConditionType.CAPPED_BY_QUOTA
    assert (found.reason, found.message) == (reason, message)


def test_a_message_has_the_smallest_bounds_only() -> None:
    many = [bound(100 + each, quota=f"q{each}") for each in range(6)]

    (found,) = quota_findings(within_quotas(BOTH, many, NO_MINIMUMS))

    assert [f"q{each} " in found.message for each in range(6)] == [True] * 4 + [False] * 2

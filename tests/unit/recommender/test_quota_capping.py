"""Targets that are lowered to quotas, and the condition that states it."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from common.quantity import Quantity
from common.recommendation.amounts import ContainerAmounts
from common.resources import CPU, MEMORY
from common.scheduling.pod_claims import Targets
from common.scheduling.pod_sum import PhaseSum, PodSum
from recommender.estimate.amount_selection import SelectedAmounts
from recommender.estimate.post_processing import PostProcessed, ProcessingStage, quantity
from recommender.estimate.quota_bounds import QuotaBound
from recommender.estimate.quota_capping import WithinQuotas, within_quotas
from recommender.estimate.quota_patience import QuotaState, QuotaWait
from recommender.estimate.step_reasons import StepReason
from recommender.publish.quota_messages import quota_findings
from recommender.publish.status import ConditionType

GIB = 1 << 30
MIB = 1 << 20
NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
NO_MINIMUMS: Targets = {}
NOTHING: Targets = {}
NO_STATES: Mapping[str, QuotaState] = {}
BOTH_RESOURCES = (CPU, MEMORY)


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


def within(
    found: PostProcessed,
    bounds: Sequence[QuotaBound],
    minimums: Targets = NO_MINIMUMS,
    *,
    published: Targets = NOTHING,
    was_lowered: Collection[str] = BOTH_RESOURCES,
    states: Mapping[str, QuotaState] = NO_STATES,
    now: datetime = NOW,
) -> WithinQuotas:
    lowest = {one.name: {CPU: 1, MEMORY: 1, **minimums.get(one.name, {})} for one in found.amounts}
    return within_quotas(
        found,
        bounds,
        lowest,
        published=published,
        was_lowered=was_lowered,
        states=states,
        now=now,
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
        pytest.param([bound(200)], {"log": {CPU: 80}}, [120, 80], id="a minimum is kept"),
        pytest.param(
            [bound(100)],
            {"app": {CPU: 90}, "log": {CPU: 80}},
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
    bounds: Sequence[QuotaBound], minimums: Targets, lowered: list[int]
) -> None:
    found = within(BOTH, bounds, minimums)

    assert targets(found) == lowered
    assert targets(found, MEMORY) == [GIB, GIB]


def test_the_lower_bound_is_at_most_the_lowered_target_and_the_other_amounts_stay() -> None:
    (app, log) = within(BOTH, [bound(100)]).processed.amounts

    assert [each.target[CPU].milli for each in (app, log)] == [75, 25]
    assert app.lower_bound[CPU].milli == 75, "it was 150"
    assert app.upper_bound[CPU].milli == 600
    assert app.uncapped_target[CPU].milli == 300
    assert app.upper_bound[MEMORY].value == 2 * GIB


def test_the_step_has_the_lowered_amounts_as_operands() -> None:
    stage = within(BOTH, [bound(200)]).processed.stages[-1]

    assert stage.reason is StepReason.QUOTA
    assert stage.by == {"app": {CPU: quantity(CPU, 150)}, "log": {CPU: quantity(CPU, 50)}}


def test_without_a_lowered_target_there_is_no_step() -> None:
    assert within(BOTH, [bound(400)]).processed is BOTH


def test_lowered_memory_is_in_whole_mib_unless_a_minimum_is_larger() -> None:
    tight = [bound(GIB + 1, "requests.memory")]

    assert targets(within(BOTH, tight), MEMORY) == [GIB // 2, GIB // 2]
    least = {name: {MEMORY: GIB // 2 + (name == "app")} for name in ("app", "log")}
    assert targets(within(BOTH, tight, least), MEMORY) == [GIB // 2 + 1, GIB // 2]


HALF: Targets = {"app": {CPU: 150}, "log": {CPU: 50}}
WHOLE: Targets = {"app": {CPU: 300}, "log": {CPU: 100}}


@pytest.mark.parametrize(
    ("bounds", "published", "found"),
    [
        pytest.param([bound(200)], NOTHING, [150, 50], id="nothing is published: what fits"),
        pytest.param(
            [bound(200)], {"app": {CPU: 300}}, [150, 50], id="a container is new: what fits"
        ),
        pytest.param([bound(219)], HALF, [150, 50], id="less than ten percent more: they stay"),
        pytest.param([bound(220)], HALF, [150, 50], id="ten percent more: they wait"),
        pytest.param([bound(400)], HALF, [150, 50], id="so do they if all that is wanted fits"),
        pytest.param([bound(200)], HALF, [150, 50], id="what is published just fits"),
        pytest.param([bound(199)], HALF, [150, 50], id="it doesn't fit now, and stays"),
        pytest.param([bound(199)], WHOLE, [300, 100], id="so do targets that weren't lowered"),
        pytest.param(
            [bound(199)],
            {"app": {CPU: 900}, "log": {CPU: 100}},
            [300, 100],
            id="a published target above the recommendation counts as much as this",
        ),
        pytest.param(
            [bound(300), bound(199, "limits.cpu")], HALF, [150, 50], id="a quota on limits counts"
        ),
    ],
)
def test_published_targets_stay_while_bounds_move(
    bounds: Sequence[QuotaBound], published: Targets, found: list[int]
) -> None:
    assert targets(within(BOTH, bounds, published=published)) == found


def test_a_minimum_that_was_raised_counts_at_once() -> None:
    found = within(BOTH, [bound(210)], {"log": {CPU: 60}}, published=HALF)

    assert targets(found) == [150, 60]


@pytest.mark.parametrize(
    ("most", "then"),
    [
        pytest.param(160, [120, 40], id="they are lowered"),
        pytest.param(220, [165, 55], id="they grow by ten percent"),
        pytest.param(400, [300, 100], id="they grow to what is wanted"),
    ],
)
def test_after_half_an_hour_the_targets_move(most: int, then: list[int]) -> None:
    states, seen = NO_STATES, []
    for minute in range(32):
        now = NOW + timedelta(minutes=minute)
        found = within(BOTH, [bound(most)], published=HALF, states=states, now=now)
        states = found.states
        seen.append(targets(found))
    assert seen == [[150, 50]] * 30 + [then] * 2, "also if it isn't published yet"


@pytest.mark.parametrize(
    ("was_lowered", "then"),
    [
        pytest.param((MEMORY,), [165, 55], id="another resource is lowered"),
        pytest.param((CPU,), [150, 50], id="this one is"),
    ],
)
def test_targets_that_are_not_lowered_grow_at_once(
    was_lowered: Collection[str], then: list[int]
) -> None:
    assert targets(within(BOTH, [bound(220)], published=HALF, was_lowered=was_lowered)) == then


def test_resources_wait_separately() -> None:
    published = {name: {CPU: 300, MEMORY: GIB} for name in ("app", "log")}
    states = {CPU: QuotaWait(since=NOW - timedelta(hours=1), fitting={"app": 150, "log": 50})}
    bounds = [bound(200), bound(GIB, "requests.memory")]

    found = within(BOTH, bounds, published=published, states=states)

    assert targets(found) == [150, 50]
    assert targets(found, MEMORY) == [GIB, GIB]
    assert found.states[MEMORY] == QuotaWait(since=NOW, fitting={"app": GIB // 2, "log": GIB // 2})


def test_a_pod_that_fits_has_no_condition() -> None:
    assert quota_findings(within(BOTH, [bound(400)])) == ()


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
            {"app": {CPU: 90}, "log": {CPU: 80}},
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
    bounds: Sequence[QuotaBound], minimums: Targets, reason: str, message: str
) -> None:
    (found,) = quota_findings(within(BOTH, bounds, minimums))

    assert found.condition is ConditionType.CAPPED_BY_QUOTA
    assert (found.reason, found.message) == (reason, message)


def test_the_condition_states_until_when_targets_stay() -> None:
    (found,) = quota_findings(within(BOTH, [bound(200)], published=WHOLE))

    assert found.reason == "TargetsLoweredLater"
    assert found.message == (
        "The pods of a rollout do not fit now. The targets stay for a while in case that changes. "
        "ResourceQuota team allows 800m of requests.cpu, of which other pods use 200m. Each of the "
        "3 pods of a rollout may use 200m, but the target stays at 400m until 12:30 UTC."
    )


GROWS = (
    "app, log: targets are lowered so that the pods of a rollout fit. They may grow at 12:30 UTC, "
    "if the room is still there. "
)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        pytest.param(
            [bound(220)],
            GROWS + "ResourceQuota team allows 860m of requests.cpu, of which other pods use 200m. "
            "Each of the 3 pods of a rollout may use 220m, and the recommendation wants 400m.",
            id="by ten percent",
        ),
        pytest.param(
            [bound(400)],
            GROWS + "ResourceQuota team allows 1400m of requests.cpu, of which other pods use "
            "200m. Each of the 3 pods of a rollout may use 400m, and the recommendation wants "
            "400m.",
            id="to what is wanted",
        ),
    ],
)
def test_the_condition_states_when_targets_may_grow(
    bounds: Sequence[QuotaBound], message: str
) -> None:
    (found,) = quota_findings(within(BOTH, bounds, published=HALF))

    assert (found.reason, found.message) == ("TargetsLowered", message)


def test_targets_that_have_just_reached_their_minimum_wait_for_nothing() -> None:
    least = {"app": {CPU: 120}, "log": {CPU: 40}}
    old = QuotaWait(since=NOW - timedelta(hours=1), fitting={"app": 120, "log": 40})

    found = within(BOTH, [bound(100)], least, published=HALF, states={CPU: old})

    assert targets(found) == [120, 40]
    assert [each.reason for each in quota_findings(found)] == ["RolloutDoesNotFit"]


def test_published_targets_at_their_minimum_wait_for_nothing() -> None:
    least = {"app": {CPU: 150}, "log": {CPU: 50}}

    (found,) = quota_findings(within(BOTH, [bound(199)], least, published=HALF))

    assert found.reason == "RolloutDoesNotFit"


def test_a_message_has_the_smallest_bounds_only() -> None:
    many = [bound(100 + each, quota=f"q{each}") for each in range(6)]

    (found,) = quota_findings(within(BOTH, many))

    assert [f"q{each} " in found.message for each in range(6)] == [True] * 4 + [False] * 2

"""Conditions of a VPA, and when its status is written: recommender.md 9."""

import math
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from builders import recommendation, vpa
from common.api.autoscaling import (
    ContainerRecommendation,
    RecommendedPodResources,
    TargetReference,
    VerticalPodAutoscaler,
    VpaCondition,
    VpaStatus,
)
from common.labels import EVERYTHING
from common.quantity import Quantity
from common.recommendation.processing import ContainerAmounts
from common.target.owners import Controller
from recommender.publish.status import LittleHistory, StatusFindings, next_status
from recommender.publish.status_difference import is_due, status_difference
from recommender.sources.target_resolution import resolved, unchecked

NOW = datetime(2026, 1, 2, 12, 0, 0, 500, tzinfo=UTC)
HUNDRED = {"cpu": Quantity.parse("100m")}
SOMETHING = (ContainerAmounts(name="app", target=HUNDRED),)


def test_the_condition_of_a_target_with_an_owner_names_the_owner() -> None:
    """The message names the controller that the VPA should reference."""
    target = TargetReference(api_version="apps/v1", kind="ReplicaSet", name="web-1")
    owner = Controller("shop", "Deployment", "web", "apps/v1")
    assert resolved(EVERYTHING, target, "shop", owner).message == (
        "The target apps/v1.ReplicaSet/web-1 has a parent controller but it should point to a "
        "topmost well-known or scalable controller: apps/v1.Deployment/web"
    )
    assert unchecked(target, "why").message.endswith("scalable controller: why")
    topmost = Controller("shop", "ReplicaSet", "web-1", "apps/v1")
    assert resolved(EVERYTHING, target, "shop", topmost).message == ""


def with_conditions(*conditions: VpaCondition) -> VerticalPodAutoscaler:
    return msgspec.structs.replace(vpa(), status=VpaStatus(conditions=conditions))


def little(
    quarters: int, *containers: str, interval: timedelta = timedelta(hours=24)
) -> LittleHistory:
    return LittleHistory(containers=containers or ("app",), quarters=quarters, interval=interval)


@pytest.mark.parametrize(
    ("findings", "want"),
    [
        pytest.param(
            StatusFindings(recommendation=SOMETHING, pods=1),
            {"RecommendationProvided": "True"},
            id="pods and a recommendation",
        ),
        pytest.param(
            StatusFindings(recommendation=(), pods=1),
            {"RecommendationProvided": "False"},
            id="pods, and no recommendation",
        ),
        pytest.param(
            StatusFindings(recommendation=(), pods=0),
            {"NoPodsMatched": "True", "RecommendationProvided": "False"},
            id="neither pods nor a recommendation",
        ),
        pytest.param(
            StatusFindings(recommendation=SOMETHING, pods=0),
            {"NoPodsMatched": "True", "RecommendationProvided": "True"},
            id="a recommendation from history alone",
        ),
        pytest.param(
            StatusFindings(recommendation=SOMETHING, pods=1, unsupported="why"),
            {"ConfigUnsupported": "True", "RecommendationProvided": "True"},
            id="an unusable target",
        ),
        pytest.param(
            StatusFindings(recommendation=SOMETHING, pods=1, little_history=little(0)),
            {"LowConfidence": "True", "RecommendationProvided": "True"},
            id="little history",
        ),
        pytest.param(
            StatusFindings(recommendation=(), pods=1, little_history=little(0)),
            {"RecommendationProvided": "False"},
            id="little history, and no recommendation",
        ),
        pytest.param(
            StatusFindings(recommendation=SOMETHING, pods=1, controlled_by="old"),
            {"ControlledByAnotherVPA": "True", "RecommendationProvided": "True"},
            id="another VPA controls the pods",
        ),
        pytest.param(
            StatusFindings(recommendation=SOMETHING, pods=1, controls=("second",)),
            {"RecommendationProvided": "True", "TargetShared": "True"},
            id="it controls the pods of another VPA",
        ),
    ],
)
def test_conditions(findings: StatusFindings, want: dict[str, str]) -> None:
    status = next_status(vpa(), findings, NOW)
    assert {one.type: one.status for one in status.conditions or ()} == want


def condition(status: str = "True", type: str = "RecommendationProvided") -> VpaCondition:
    return VpaCondition(
        type=type, status=status, last_transition_time=NOW - timedelta(days=1), message="old"
    )


@pytest.mark.parametrize(
    ("before", "kept"),
    [
        pytest.param(condition("True"), True, id="same status"),
        pytest.param(condition("False"), False, id="other status"),
        pytest.param(
            VpaCondition(type="RecommendationProvided", status="True"), False, id="without a time"
        ),
    ],
)
def test_the_time_of_a_condition_changes_with_its_status(
    *, before: VpaCondition, kept: bool
) -> None:
    found = next_status(
        with_conditions(before), StatusFindings(recommendation=SOMETHING, pods=1), NOW
    )
    (after,) = found.conditions or ()
    want = before.last_transition_time if kept else NOW.replace(microsecond=0)
    assert after.last_transition_time == want
    assert after.message == ""


def test_x115_the_condition_names_the_controlling_vpa_and_is_removed() -> None:
    findings = StatusFindings(recommendation=SOMETHING, pods=1, controlled_by="old")
    status = next_status(vpa(), findings, NOW)
    (found, _) = status.conditions or ()
    assert (found.type, found.status, found.reason) == (
        "ControlledByAnotherVPA",
        "True",
        "OlderVPA",
    )
    assert found.message == (
        "VPA old has the same target and controls its pods: it is older, or as old and first by "
        "name. Delete one of the two VPAs, or set the update mode of old to Off and remove its "
        "startupBoost."
    )
    before = msgspec.structs.replace(vpa(), status=status)
    after = next_status(before, StatusFindings(recommendation=SOMETHING, pods=1), NOW)
    assert [one.type for one in after.conditions or ()] == ["RecommendationProvided"]


def message(findings: StatusFindings, kind: str) -> str:
    conditions = next_status(vpa(), findings, NOW).conditions or ()
    return next(one.message for one in conditions if one.type == kind)


@pytest.mark.parametrize(
    ("history", "want"),
    [
        pytest.param(
            little(0),
            "app: less than 6h of usage is known. The bounds stay wide until 24h is known, which "
            "takes at most 24h more if no measurement is missing.",
            id="less than a quarter",
        ),
        pytest.param(
            little(3, "app", "sidecar"),
            "app, sidecar: 18h to 24h of usage is known. The bounds stay wide until 24h is known, "
            "which takes at most 6h more if no measurement is missing.",
            id="the last quarter, of two containers",
        ),
        pytest.param(
            little(1, interval=timedelta(hours=2)),
            "app: 30m to 1h of usage is known. The bounds stay wide until 2h is known, which "
            "takes at most 1.5h more if no measurement is missing.",
            id="another interval",
        ),
    ],
)
def test_x1_the_message_of_low_confidence_has_the_history(
    history: LittleHistory, want: str
) -> None:
    findings = StatusFindings(recommendation=SOMETHING, pods=1, little_history=history)
    assert message(findings, "LowConfidence") == want


def test_x115_the_controlling_vpa_names_the_others() -> None:
    names = tuple(f"vpa-{number:02}" for number in range(21))
    findings = StatusFindings(recommendation=SOMETHING, pods=1, controls=names)
    found = message(findings, "TargetShared")
    assert found.startswith(
        "This VPA controls the pods of its target. These VPAs with the same target change no pod: "
        "vpa-00, "
    )
    assert "vpa-19 and 1 more. Delete them, or set the update mode of this VPA to Off" in found


def test_conditions_of_other_clients_stay_and_outdated_ones_are_removed() -> None:
    before = with_conditions(condition(type="Theirs"), condition(type="ConfigDeprecated"))
    found = next_status(before, StatusFindings(recommendation=SOMETHING, pods=1), NOW)
    types = [one.type for one in found.conditions or ()]
    assert types == ["RecommendationProvided", "Theirs"]


STATUS = next_status(vpa(), StatusFindings(recommendation=SOMETHING, pods=1), NOW)


def changed(**changes: object) -> VpaStatus:
    return msgspec.structs.replace(STATUS, **changes)


RECOMMENDED = vpa(recommendations=(recommendation(target={"cpu": "0.1"}),)).status.recommendation


@pytest.mark.parametrize(
    ("current", "written"),
    [
        pytest.param(STATUS, False, id="equal"),
        pytest.param(changed(recommendation=RECOMMENDED), False, id="equal by value"),
        pytest.param(changed(recommendation=None), True, id="no recommendation"),
        pytest.param(changed(observed_generation=0), True, id="another generation"),
        pytest.param(changed(conditions=None), True, id="no conditions"),
        pytest.param(
            changed(
                recommendation=vpa(
                    recommendations=(recommendation(target={"cpu": "what?"}),)
                ).status.recommendation
            ),
            True,
            id="invalid amounts of another client",
        ),
    ],
)
def test_a_status_differs_if_its_meaning_differs(*, current: VpaStatus, written: bool) -> None:
    assert bool(status_difference(current, STATUS)) is written


def test_an_empty_recommendation_is_an_object() -> None:
    found = next_status(vpa(), StatusFindings(recommendation=(), pods=1), NOW)
    assert msgspec.to_builtins(found)["recommendation"] == {}


# The relative difference of statuses, and when it is written (X80)


def amounts(**changes: dict[str, str]) -> VpaStatus:
    published = {
        "target": {"cpu": "100m", "memory": "100Mi"},
        "lower_bound": {"cpu": "50m", "memory": "50Mi"},
        "upper_bound": {"cpu": "1", "memory": "1000M"},
        "uncapped_target": {"cpu": "100m"},
        **changes,
    }
    container = ContainerRecommendation(container_name="app", **published)
    return changed(recommendation=RecommendedPodResources(container_recommendations=(container,)))


@pytest.mark.parametrize(
    ("wanted", "by"),
    [
        pytest.param(amounts(), 0.0, id="equal"),
        pytest.param(
            amounts(upper_bound={"cpu": "1000m", "memory": "1G"}), 0.0, id="equal by value"
        ),
        pytest.param(
            amounts(upper_bound={"cpu": "1010m", "memory": "1000M"}), 0.01, id="one percent more"
        ),
        pytest.param(
            amounts(upper_bound={"cpu": "990m", "memory": "1000M"}), 0.01, id="one percent less"
        ),
        pytest.param(
            amounts(upper_bound={"cpu": "1", "memory": "1010000001"}),
            pytest.approx(0.010000001),
            id="a byte more than one percent",
        ),
        pytest.param(
            amounts(lower_bound={"cpu": "51m", "memory": "50Mi"}), 0.02, id="the lower bound"
        ),
        pytest.param(amounts(uncapped_target={"cpu": "103m"}), 0.03, id="the uncapped target"),
        pytest.param(
            amounts(target={"cpu": "101m", "memory": "100Mi"}), math.inf, id="the target, a little"
        ),
        pytest.param(
            amounts(uncapped_target={"cpu": "100m", "memory": "1"}), math.inf, id="a resource more"
        ),
        pytest.param(amounts(uncapped_target={}), math.inf, id="a resource less"),
        pytest.param(changed(conditions=None), math.inf, id="a condition"),
        pytest.param(changed(observed_generation=7), math.inf, id="the observed generation"),
        pytest.param(changed(recommendation=None), math.inf, id="the recommendation"),
    ],
)
def test_the_relative_difference_of_statuses(wanted: VpaStatus, by: float) -> None:
    assert status_difference(amounts(), wanted) == by


def test_a_change_from_zero_is_infinite() -> None:
    nothing = amounts(lower_bound={"cpu": "0", "memory": "50Mi"})
    assert status_difference(nothing, amounts()) == math.inf


MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("by", "waited", "worth_it"),
    [
        pytest.param(0.0, timedelta(days=1), False, id="equal, after any time"),
        pytest.param(1e-9, 9 * MINUTE, False, id="a small difference, before ten minutes"),
        pytest.param(
            1e-9,
            9 * MINUTE + timedelta(seconds=1),
            True,
            id="a small difference, the next cycle is after ten minutes",
        ),
        pytest.param(0.01, MINUTE, False, id="one percent"),
        pytest.param(0.01, 10 * MINUTE, True, id="one percent, after ten minutes"),
        pytest.param(math.nextafter(0.01, 1), timedelta(), True, id="more than one percent"),
        pytest.param(math.inf, timedelta(), True, id="a difference other than amounts"),
    ],
)
def test_when_a_status_is_written(*, by: float, waited: timedelta, worth_it: bool) -> None:
    assert is_due(by, waited=waited, interval=MINUTE) is worth_it

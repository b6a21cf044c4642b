"""Rounding, caps and order of amounts; the reference's numbers are in tests/golden."""

from dataclasses import replace
from typing import Any

import pytest

from common.api.autoscaling import ContainerPolicy, ResourcePolicy
from common.quantity import Quantity
from common.recommendation.processing import ContainerAmounts
from common.resources import parse_quantities
from recommender.estimate.amount_selection import CurrentRecommendation
from recommender.estimate.post_processing import PostProcessingSettings, post_process
from recommender.estimate.vpa_estimates import ContainerEstimate

ESTIMATE = ContainerEstimate(
    container="app",
    target={"cpu": 150, "memory": 839_500_000},
    lower={"cpu": 100, "memory": 600_000_000},
    upper={"cpu": 1500, "memory": 2_000_000_000},
    confidence={"cpu": 1.0, "memory": 1.0},
)
KEY = "vpa-post-processor.kubernetes.io/app_integerCPU"


@pytest.mark.parametrize(
    ("publication", "want"),
    [
        pytest.param(
            PostProcessingSettings(),
            {"cpu": "150m", "memory": "839500000"},
            id="without post-processing",
        ),
        pytest.param(
            PostProcessingSettings(round_cpu=100), {"cpu": "200m", "memory": "839500000"}, id="cpu"
        ),
        pytest.param(
            PostProcessingSettings(round_memory=134_217_728),
            {"cpu": "150m", "memory": "896Mi"},
            id="memory",
        ),
        pytest.param(
            PostProcessingSettings(humanize_memory=True),
            {"cpu": "150m", "memory": "839500431360m"},
            id="humanized",
        ),
        pytest.param(
            PostProcessingSettings(round_cpu=0, round_memory=-5),
            {"cpu": "150m", "memory": "839500000"},
            id="an invalid factor is ignored",
        ),
        pytest.param(
            PostProcessingSettings(integer_cpu=True),
            {"cpu": "1", "memory": "839500000"},
            id="whole cpus",
        ),
    ],
)
def test_targets(publication: PostProcessingSettings, want: dict[str, str]) -> None:
    (found,) = post_process([ESTIMATE], publication, annotations={KEY: "true"}, policy=None).amounts
    assert {name: str(value) for name, value in found.target.items()} == want
    assert found.uncapped_target == found.target


def policy(**bounds: dict[str, str]) -> ResourcePolicy:
    return ResourcePolicy(container_policies=(ContainerPolicy(container_name="*", **bounds),))  # type: ignore[arg-type] # values as in JSON


@pytest.mark.parametrize(
    ("given", "most", "want"),
    [
        pytest.param(policy(min_allowed={"cpu": "1"}), {}, "1", id="minAllowed"),
        pytest.param(policy(max_allowed={"cpu": "120m"}), {}, "120m", id="maxAllowed"),
        pytest.param(None, {"cpu": "110m"}, "110m", id="the global maximum, without a policy"),
        pytest.param(
            policy(max_allowed={"cpu": "120m"}),
            {"cpu": "110m"},
            "120m",
            id="the policy takes precedence",
        ),
        pytest.param(
            policy(min_allowed={"cpu": "2"}, max_allowed={"cpu": "1"}), {}, "1", id="max wins"
        ),
        pytest.param(policy(max_allowed={"cpu": "0"}), {}, "150m", id="zero is no bound"),
    ],
)
def test_caps(given: ResourcePolicy | None, most: dict[str, str], want: str) -> None:
    publication = PostProcessingSettings(max_allowed=parse_quantities(most))
    (found,) = post_process([ESTIMATE], publication, annotations={}, policy=given).amounts
    assert str(found.target["cpu"]) == want
    assert str(found.uncapped_target["cpu"]) == "150m"


def test_the_bounds_enclose_the_target_q20() -> None:
    crossed = ContainerEstimate(
        container="app",
        target={"cpu": 100},
        lower={"cpu": 300},
        upper={"cpu": 50},
        confidence={"cpu": 1.0},
    )
    (found,) = post_process(
        [crossed], PostProcessingSettings(), annotations={}, policy=None
    ).amounts
    hundred = {"cpu": Quantity.parse("100m")}
    assert found.lower_bound == found.target == found.upper_bound == hundred


def test_bounds_of_resources_without_a_recommendation_are_not_parsed() -> None:
    strange = policy(max_allowed={"cpu": "120m", **{f"example.com/{n}": "?" for n in range(1000)}})
    (found,) = post_process(
        [ESTIMATE], PostProcessingSettings(), annotations={}, policy=strange
    ).amounts
    assert found.target["cpu"] == Quantity.parse("120m")


def test_published_amounts_stay_until_the_first_sample() -> None:
    """They stay for controlled resources, within the current bounds."""
    before = ContainerAmounts(
        name="app",
        target=parse_quantities({"cpu": "2", "memory": "3Gi"}),
        upper_bound=parse_quantities({"cpu": "4"}),
    )
    guess = replace(ESTIMATE, target={"cpu": 25}, lower={"cpu": 25}, upper={"cpu": 25})
    given: Any = {"annotations": {}, "policy": policy(max_allowed={"cpu": "3"})}
    known = {"app": before}

    unknown = replace(guess, observed=frozenset())
    (kept,) = post_process(
        [unknown], PostProcessingSettings(), current=CurrentRecommendation(amounts=known), **given
    ).amounts
    assert kept.target == parse_quantities({"cpu": "2"})
    assert kept.upper_bound == parse_quantities({"cpu": "3"})
    assert kept.lower_bound == parse_quantities({"cpu": "25m"})  # no lower bound was published

    (found,) = post_process(
        [guess], PostProcessingSettings(), current=CurrentRecommendation(amounts=known), **given
    ).amounts
    assert found.target == parse_quantities({"cpu": "25m"})

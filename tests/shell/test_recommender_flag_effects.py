"""The effect of each flag of recommendations, in the explanation of a recommendation."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from common.features import FeatureGates
from common.flags import declared, read_flags
from common.read_model.explanation import ExplainedContainer, RecommendationExplanation
from common.recommendation.decision_trace import Amount
from fake_api import FakeApi, listing
from recommender.estimate.step_reasons import StepReason
from recommender.recommendation_flags import RecommendationFlags
from recommender.settings import RecommenderSettings
from recommender_harness import (
    CHECKPOINTS,
    METRICS,
    START,
    checkpoint,
    killed,
    prepare,
    running,
    usage,
    vpa,
)

Probe = Callable[[RecommendationExplanation], Any]
INTEGER_CPU = {"vpa-post-processor.kubernetes.io/app_integerCPU": "true"}
TARGET, LOWER, UPPER = Amount.TARGET, Amount.LOWER_BOUND, Amount.UPPER_BOUND


def app(found: RecommendationExplanation) -> ExplainedContainer:
    return next(one for one in found.containers if one.name == "app")


def step(cause: StepReason, resource: str, amount: Amount = TARGET) -> Probe:
    """Return the result of a step of a number of the container; None without that step."""

    def probe(found: RecommendationExplanation) -> str | None:
        (number,) = (
            one for one in app(found).numbers if (one.resource, one.amount) == (resource, amount)
        )
        return next((one.after for one in number.steps if one.step is cause), None)

    return probe


def weight(resource: str) -> Probe:
    return lambda found: round(app(found).weight[resource], 4)


def containers(found: RecommendationExplanation) -> list[str]:
    return [one.name for one in found.containers]


@dataclass(frozen=True, kw_only=True)
class Case:
    flag: str  # with a value other than the default
    probe: Probe
    usual: Any
    changed: Any

    @property
    def name(self) -> str:
        return self.flag.partition("=")[0]


PERCENTILE, MARGIN, CONFIDENCE = StepReason.PERCENTILE, StepReason.MARGIN, StepReason.CONFIDENCE
MINIMUM, ROUNDING, GLOBAL = StepReason.MINIMUM, StepReason.ROUNDING, StepReason.GLOBAL_MAX
CASES = [
    Case(
        flag="--recommendation-margin-fraction=0.5",
        probe=step(MARGIN, "cpu"),
        usual="813m",
        changed="1060m",
    ),
    Case(
        flag="--pod-recommendation-min-cpu-millicores=3000",
        probe=step(MINIMUM, "cpu"),
        usual="813m",
        changed="1500m",  # two containers share it
    ),
    Case(
        flag="--pod-recommendation-min-memory-mb=4000",
        probe=step(MINIMUM, "memory"),
        usual="813749082",
        changed="2000Mi",
    ),
    Case(
        flag="--target-cpu-percentile=0.3",
        probe=step(PERCENTILE, "cpu"),
        usual="707m",
        changed="110m",
    ),
    Case(
        flag="--target-memory-percentile=0.3",
        probe=step(PERCENTILE, "memory"),
        usual="707607898",
        changed="110265643",
    ),
    Case(
        flag="--recommendation-lower-bound-cpu-percentile=0.8",
        probe=step(PERCENTILE, "cpu", LOWER),
        usual="110m",
        changed="357m",
    ),
    Case(
        flag="--recommendation-lower-bound-memory-percentile=0.3",
        probe=step(PERCENTILE, "memory", LOWER),
        usual="330659541",
        changed="110265643",
    ),
    Case(
        flag="--recommendation-upper-bound-cpu-percentile=0.3",
        probe=step(PERCENTILE, "cpu", UPPER),
        usual="707m",
        changed="110m",
    ),
    Case(
        flag="--recommendation-upper-bound-memory-percentile=0.3",
        probe=step(PERCENTILE, "memory", UPPER),
        usual="707607898",
        changed="110265643",
    ),
    Case(
        flag="--confidence-interval-cpu=12h",
        probe=step(CONFIDENCE, "cpu", UPPER),
        usual="2439m",
        changed="1626m",
    ),
    Case(
        flag="--confidence-interval-memory=12h",
        probe=step(CONFIDENCE, "memory", UPPER),
        usual="2441247246",
        changed="1627498164",
    ),
    Case(
        flag="--round-cpu-millicores=100",
        probe=step(ROUNDING, "cpu"),
        usual=None,
        changed="900m",
    ),
    Case(
        flag="--round-memory-bytes=134217728",
        probe=step(ROUNDING, "memory"),
        usual=None,
        changed="896Mi",
    ),
    Case(
        flag="--humanize-memory",
        probe=step(StepReason.HUMANIZED, "memory"),
        usual=None,
        changed="813747404800m",
    ),
    Case(
        flag="--cpu-integer-post-processor-enabled",
        probe=step(StepReason.INTEGER_CPU, "cpu"),
        usual=None,
        changed="1",
    ),
    Case(
        flag="--container-recommendation-max-allowed-cpu=0.5",
        probe=step(GLOBAL, "cpu"),
        usual=None,
        changed="500m",
    ),
    Case(
        flag="--container-recommendation-max-allowed-memory=300Mi",
        probe=step(GLOBAL, "memory"),
        usual=None,
        changed="300Mi",
    ),
    Case(
        flag="--memory-aggregation-interval=12h",
        probe=weight("memory"),
        usual=9.0711,
        changed=8.4853,
    ),
    Case(
        flag="--memory-aggregation-interval-count=2",
        probe=containers,
        usual=["app", "old"],
        changed=["app"],
    ),
    Case(
        flag="--cpu-histogram-decay-half-life=12h",
        probe=weight("cpu"),
        usual=7.1711,
        changed=5.1,
    ),
    Case(
        flag="--memory-histogram-decay-half-life=12h",
        probe=weight("memory"),
        usual=9.0711,
        changed=9.0,
    ),
    Case(
        flag="--oom-bump-up-ratio=40",
        probe=step(PERCENTILE, "memory", UPPER),
        usual="707607898",
        changed="8790737608",
    ),
    Case(
        flag="--oom-min-bump-up-bytes=8e9",
        probe=step(PERCENTILE, "memory", UPPER),
        usual="707607898",
        changed="8362607246",
    ),
]


def history(container: str, *, ends: timedelta) -> Any:
    """Return a history of half a day that ended this long ago, with samples in three buckets."""
    weights = {"bucketWeights": {"8": 10000, "20": 6000, "30": 4000}}
    times = {"referenceTimestamp": "2026-01-02T00:00:00Z"}
    return checkpoint(
        container=container,
        cpuHistogram=weights | times | {"totalWeight": 10},
        memoryHistogram=weights | times | {"totalWeight": 10},
        firstSampleStart=(START - ends - timedelta(hours=12)).isoformat(),
        lastSampleStart=(START - ends).isoformat(),
        totalSamplesCount=720,
    )


async def explanation_of(settings: dict[str, Any], **policy: Any) -> RecommendationExplanation:
    """Explain a container with half a day of history and an OOM kill, and one with old history."""
    scaled = vpa(resourcePolicy={"containerPolicies": [{"containerName": "*", **policy}]})
    scaled["metadata"]["annotations"] = INTEGER_CPU
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[scaled], pods=[killed("2026-01-02T12:00:01Z")])
        api.on(METRICS, listing(usage()))
        old = history("old", ends=timedelta(days=3))
        api.on(CHECKPOINTS, listing(history("app", ends=timedelta(0)), old))
        async with running(api, **settings) as process:
            await process.cycle()
            found = process.recommender.explain("shop", "web")
    assert isinstance(found, RecommendationExplanation)
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_flag_changes_its_step(case: Case) -> None:
    (name,) = (
        one.name for one in declared(RecommenderSettings) if one.metadata["flag"] == case.name
    )
    settings = {name: getattr(read_flags(RecommenderSettings, [case.flag]), name)}
    assert case.probe(await explanation_of({})) == case.usual
    assert case.probe(await explanation_of(settings)) == case.changed


@pytest.mark.parametrize(
    ("policy", "like"),
    [
        ({"oomBumpUpRatio": "40"}, "--oom-bump-up-ratio"),
        ({"oomMinBumpUp": "8G"}, "--oom-min-bump-up-bytes"),
        ({"memoryAggregationIntervalSeconds": 43200}, "--memory-aggregation-interval"),
        ({"memoryAggregationIntervalCount": 2}, "--memory-aggregation-interval-count"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
async def test_the_policy_of_a_vpa_has_the_effect_of_the_flag(
    policy: dict[str, Any], like: str
) -> None:
    """The gate PerVPAConfig."""
    (case,) = (one for one in CASES if one.name == like)
    assert case.probe(await explanation_of({}, **policy)) == case.usual
    gates = FeatureGates(per_vpa_config=True)
    assert case.probe(await explanation_of({"feature_gates": gates}, **policy)) == case.changed


ELSEWHERE = {
    *("--recommender-name", "--recommender-interval", "--address", "--debug-endpoints"),
    *("--memory-saver", "--update-worker-count", "--leader-elect-resource-name"),
    *("--checkpoints-gc-interval", "--checkpoints-timeout", "--min-checkpoints"),
    "--publish-without-samples",  # test_little_is_known.py
    "--cap-to-quotas",  # test_recommender_quotas.py
    "--container-metrics",  # test_request_metrics.py
    "--namespace-vpas",  # test_namespace_vpas.py
    *("--cap-to-nodes", "--node-shape"),  # test_recommender_nodes.py
}


def test_every_flag_of_recommendations_has_a_case() -> None:
    inherited = {
        one.metadata["flag"]
        for base in RecommenderSettings.__bases__
        if base is not RecommendationFlags
        for one in declared(base)
    }
    own = {one.metadata["flag"] for one in declared(RecommenderSettings)} - inherited
    assert own - ELSEWHERE == {case.name for case in CASES}

"""The result of ``kubectl vpa explain``."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

import builders
from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import ContainerStatus, Pod, ResourceRequirements
from common.read_model.explanation import (
    ExcludedContainer,
    ExplainedContainer,
    ExplainedNumber,
    ExplainedStep,
    RecommendationExplanation,
)
from common.read_model.recommender import ContainerHistograms, PercentilePoint, UsageHistogram
from common.recommendation.decision_trace import Amount
from kubectl_vpa.judge.computed_numbers import Requests, computed_vpa, usual_requests
from kubectl_vpa.judge.pod_groups import PodGroups
from kubectl_vpa.results.explain import ComputedVpa, CurvePoint, NumberSource

NOW = datetime(2026, 1, 2, tzinfo=UTC)
LARGE, SMALL = {"cpu": "1", "memory": "1Gi"}, {"cpu": "10m"}


def pods(*requests: dict[str, str], reported: dict[str, str] | None = None) -> Sequence[Pod]:
    made = []
    for number, each in enumerate(requests):
        one = builders.pod(f"web-{number}", containers=(builders.container(requests=each),))
        if reported is not None:
            resources = ResourceRequirements(requests=reported)
            state = ContainerStatus(name="app", resources=resources)
            one = replace(one, status=replace(one.status, container_statuses=(state,)))
        made.append(one)
    return made


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param((), {}, id="no pods"),
        pytest.param(pods(LARGE, SMALL, SMALL), {"app": SMALL}, id="most pods"),
        pytest.param(pods(LARGE, LARGE, SMALL), {"app": LARGE}, id="most pods, the other way"),
        pytest.param(pods({}), {"app": {}}, id="no requests"),
        pytest.param(pods(LARGE, reported=SMALL), {"app": SMALL}, id="resized in place"),
        pytest.param(pods({"cpu": "1", "nvidia.com/gpu": "1"}), {"app": {"cpu": "1"}}, id="a GPU"),
    ],
)
def test_requests_of_most_pods(given: Sequence[Pod], want: Requests) -> None:
    groups = PodGroups()
    groups.add(given)
    assert usual_requests(list(groups.groups.values())) == want


def test_pods_that_are_not_seen_have_no_requests() -> None:
    assert usual_requests(None) == {}


def step(name: str, before: str | None, after: str | None) -> ExplainedStep:
    return ExplainedStep(step=name, by="0.9", before=before, after=after, meaning="It is so.")


def explained(vpa: VerticalPodAutoscaler, *, held_up: str | None = None) -> ComputedVpa:
    number = ExplainedNumber(
        resource="cpu",
        amount=Amount.TARGET,
        published="100m",
        steps=(step("percentile", None, "100m"), step("margin", "100m", "115m")),
    )
    app = ExplainedContainer(
        name="app",
        samples=7,
        oldest_sample=NOW,
        newest_sample=NOW,
        weight={"cpu": 0.7, "memory": 1.0},
        confidence={"cpu": 0.1, "memory": 0.2},
        sharing=1,
        numbers=(number,),
    )
    explanation = RecommendationExplanation(
        namespace="default",
        name="web",
        generation=1,
        at=NOW,
        target=None,
        selector=None,
        pods=1,
        unsupported=None,
        status="equal",
        due=None,
        held_up=held_up,
        containers=(app,),
        left_out=(ExcludedContainer(name="log", reason="off", why="its policy has mode Off"),),
    )
    histogram = UsageHistogram(
        resource="cpu",
        unit="millicores",
        weight=0.7,
        half_life_seconds=86400,
        target=0.9,
        lower_bound=0.5,
        upper_bound=0.95,
        margin=0.15,
        buckets=(),
        curve=(PercentilePoint(fraction=0.5, amount=80),),
    )
    return computed_vpa(
        vpa,
        explanation,
        [ContainerHistograms(name="app", histograms=(histogram,))],
        {"app": {"cpu": "1"}},
        source=NumberSource.RECOMMENDER,
        flags_of=None,
    )


def test_steps_curve_request_and_status_are_brought_together() -> None:
    published = builders.recommendation(target={"cpu": "90m"})
    found = explained(builders.vpa(recommendations=(published,)))
    assert (found.workload_kind, found.workload_name, found.mode) == (
        "Deployment",
        "web",
        "Recreate",
    )
    app, log = found.containers
    cpu, memory = app.resources
    assert (cpu.request, cpu.confidence, cpu.weight) == ("1", 0.1, 0.7)
    (target,) = cpu.numbers
    assert (target.amount, target.value, target.published) == ("target", "115m", "90m")
    assert [each.after for each in target.steps] == ["100m", "115m"]
    assert cpu.curve == (CurvePoint(fraction=0.5, amount=80),)
    assert (memory.request, memory.numbers, memory.curve) == (None, (), ())
    assert (log.container, log.excluded, log.resources) == ("log", "its policy has mode Off", ())


@pytest.mark.parametrize(
    "target", [{"cpu": "much"}, {"memory": "1Gi"}], ids=["unreadable", "other"]
)
def test_a_number_that_the_status_does_not_have_is_none(target: dict[str, str]) -> None:
    recommendation = builders.recommendation(target=target)
    found = explained(builders.vpa(recommendations=(recommendation,)))
    assert found.containers[0].resources[0].numbers[0].published is None


def test_what_holds_a_write_up_is_named() -> None:
    assert explained(builders.vpa()).held_up is None
    text = "its checkpoints can't be read"
    assert explained(builders.vpa(), held_up=text).held_up == text

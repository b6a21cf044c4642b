"""The explanation of a recommendation agrees with the published status, step by step."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from common.api.autoscaling import VerticalPodAutoscaler
from common.kube.watch import WatchProtocol
from common.quantity import Quantity
from common.read_model.explanation import RecommendationExplanation
from common.recommendation.decision_trace import Amount
from fake_api import FakeApi, Reply, listing, named, status, watch_line
from recommender.debugging import lines
from recommender.estimate.step_reasons import StepReason
from recommender.publish.explanation import ExclusionReason, Unexplained
from recommender.publish.status_decision import WriteDecision
from recommender_harness import (
    CHECKPOINTS,
    METRICS,
    START,
    Running,
    checkpoint,
    checkpoint_of,
    deployment,
    node,
    pod,
    prepare,
    quota,
    running,
    status_of,
    usage,
    vpa,
    written,
)

NAMES = ("app", "log", "proxy")
FIRST = {"cpu": "3", "memory": "2Gi"}


def explanation(process: Running, name: str = "web") -> RecommendationExplanation:
    found = process.recommender.explain("shop", name)
    assert isinstance(found, RecommendationExplanation), found
    return found


def steps_of(
    found: RecommendationExplanation, resource: str, amount: Amount
) -> dict[StepReason, str | None]:
    """Return the steps of one number of the only container, with their results."""
    (container,) = found.containers
    (number,) = (n for n in container.numbers if (n.resource, n.amount) == (resource, amount))
    return {StepReason(stage.step): stage.after for stage in number.steps}


# Random VPAs


class RandomVpas:
    """Random VPAs, whose written statuses are sent by the watch."""

    def __init__(self, seed: int, api: FakeApi) -> None:
        self.random, self.api = Random(seed), api
        self.vpas = {name: self._vpa(name) for name in (f"v{number}" for number in range(25))}
        self.pods = [
            self._pod(name, number)
            for name in self.vpas
            for number in range(self.random.choice((0, 1, 1, 3)))
        ]
        self.version = 10
        kinds = {name: found["spec"]["targetRef"]["kind"] for name, found in self.vpas.items()}
        prepare(
            api,
            deployments=[deployment(name) for name in self.vpas if kinds[name] == "Deployment"],
            pods=self.pods,
            verticalpodautoscalers=list(self.vpas.values()),
            resourcequotas=[quota(requests_cpu="40", requests_memory="20Gi")] if seed % 3 else [],
            nodes=[node(cpu="2", memory="2Gi")] if seed % 4 == 3 else [],
        )
        for name in self.vpas:
            for container in NAMES:
                api.on(checkpoint_of(f"{name}-{container}"), Reply(body=named("any")))
        api.on("GET /apis/apps", status(503, "ServiceUnavailable", "too early"))
        api.on(CHECKPOINTS, listing(*self._checkpoints()))

    def settings(self) -> dict[str, Any]:
        choose = self.random.choice
        return {
            "round_cpu_millicores": choose((1, 1, 50)),
            "round_memory_bytes": choose((1, 1, 1 << 20)),
            "humanize_memory": choose((False, False, True)),
            "integer_cpu": choose((False, True)),
            "max_allowed_cpu": Quantity.parse(choose(("0", "0", "700m"))),
            "max_allowed_memory": Quantity.parse(choose(("0", "0", "1Gi"))),
            "lower_cpu_percentile": choose((0.5, 0.95)),
            "margin_fraction": choose((0.15, 0.0)),
            "publish_without_samples": choose((False, True)),
        }

    def add_usage(self, process: Running) -> None:
        """Add a sample for every pod."""
        at = process.clock.forward(timedelta(minutes=self.random.choice((1, 1, 7, 60))))
        metrics = [
            usage(one["metadata"]["name"], at=at) | {"containers": list(self._used(one))}
            for one in self.pods
            if self.random.random() < 0.8
        ]
        self.api.on(METRICS, listing(*metrics))

    def apply_writes(self, process: Running) -> None:
        """Send the written statuses by the watch."""
        feed = WatchProtocol(VerticalPodAutoscaler, resource_version="10").feed
        for name, one in self.vpas.items():
            if status_of(name) in self.api.routes:
                self.version += 1
                one["status"] = written(self.api, status_of(name))
                one["metadata"]["resourceVersion"] = str(self.version)
                process.informers.vpas._apply(next(feed(watch_line("MODIFIED", one))))

    def _used(self, one: Any) -> Iterator[Any]:
        for container in one["spec"]["containers"]:
            cpu, memory = self.random.randint(0, 3000), self.random.randint(0, 2000)
            yield {"name": container["name"], "usage": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}}

    def _vpa(self, name: str) -> Any:
        choose = self.random.choice
        kind = choose(("Deployment",) * 6 + ("Machine", "StatefulSet"))
        policies = [self._policy(each) for each in ("*", *NAMES) if self.random.random() < 0.3]
        found = vpa(name, kind=kind, resourcePolicy={"containerPolicies": policies})
        found["metadata"]["annotations"] = {
            f"vpa-post-processor.kubernetes.io/{choose(NAMES)}_integerCPU": choose(("true", "no"))
        }
        if self.random.random() < 0.4:
            one = {"containerName": choose(NAMES), "target": FIRST, "uncappedTarget": FIRST}
            found["status"] = {
                "recommendation": {"containerRecommendations": [one]},
                "conditions": [
                    {
                        "type": "RecommendationProvided",
                        "status": "True",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                    }
                ],
            }
        return found

    def _policy(self, container: str) -> Any:
        choose = self.random.choice
        return {
            "containerName": container,
            "mode": choose(("Auto", "Auto", "Off")),
            "minAllowed": choose(({}, {"cpu": "200m"}, {"cpu": "1", "memory": "300Mi"})),
            "maxAllowed": choose(({}, {"cpu": "0.5"}, {"cpu": "0", "memory": "1.5Gi"})),
            "controlledResources": choose((None, None, ["cpu"], ["memory"], [])),
        }

    def _pod(self, name: str, number: int) -> Any:
        made = pod(f"{name}-{number}", app=name)
        count = self.random.randint(1, len(NAMES))
        made["spec"]["containers"] = [{"name": container} for container in NAMES[:count]]
        made["metadata"]["labels"]["pod"] = str(number)
        return made

    def _checkpoints(self) -> Iterator[Any]:
        for name in self.vpas:
            if self.random.random() < 0.3:
                days = self.random.choice((1, 20))
                last = (START - timedelta(days=days)).isoformat()
                yield checkpoint(name, self.random.choice(NAMES), lastSampleStart=last)


def is_equal(one: str | None, other: str | None) -> bool:
    if one is None or other is None:
        return one is other
    return Quantity.parse(one) == Quantity.parse(other)


def check_explanation(found: RecommendationExplanation, says: Any) -> set[StepReason]:
    """Check that each number of the status is explained by consecutive steps."""
    recommended = {
        (one["containerName"], amount.value, resource): value
        for one in (says.get("recommendation") or {}).get("containerRecommendations") or ()
        for amount in Amount
        for resource, value in (one.get(amount) or {}).items()
    }
    causes = set()
    for container in found.containers:
        for number in container.numbers:
            place = (container.name, number.amount.value, number.resource)
            want = recommended.pop(place, None)
            assert is_equal(number.published, want), place
            assert number.steps[0].before is None, place
            for one, then in pairwise(number.steps):
                assert one.after == then.before, (place, number.steps)
            assert is_equal(number.steps[-1].after, want), (place, number.steps)
            causes |= {StepReason(stage.step) for stage in number.steps}
    assert not recommended
    return causes


async def test_explanations_of_random_vpas_agree_with_their_statuses() -> None:
    causes: set[StepReason] = set()
    decisions: set[WriteDecision] = set()
    neglected: set[ExclusionReason] = set()
    for seed in range(8):
        async with FakeApi() as api:
            vpas = RandomVpas(seed, api)
            async with running(api, **vpas.settings()) as process:
                for cycle in range(5):
                    if cycle or seed % 2:
                        vpas.add_usage(process)
                    else:
                        api.on(METRICS, listing())
                    await process.cycle()
                    vpas.apply_writes(process)
                    for name, one in vpas.vpas.items():
                        found = explanation(process, name)
                        causes |= check_explanation(found, one["status"])
                        decisions.add(WriteDecision(found.status))
                        neglected |= {ExclusionReason(left.reason) for left in found.left_out}
                        assert list(lines(found))
    assert causes == set(StepReason) - {StepReason.HISTORY_MISSING}
    assert decisions == {WriteDecision.EQUAL, WriteDecision.WAITS}
    assert neglected == set(ExclusionReason) - {ExclusionReason.NATIVE_SIDECAR}


# Single VPAs


async def test_the_steps_of_a_number() -> None:
    policy = {"containerName": "app", "minAllowed": {"cpu": "200m"}, "maxAllowed": {"cpu": "150m"}}
    async with FakeApi() as api:
        prepare(
            api,
            verticalpodautoscalers=[vpa(resourcePolicy={"containerPolicies": [policy]})],
        )
        async with running(api) as process:
            await process.cycle()
            found = explanation(process)
    assert steps_of(found, "cpu", Amount.TARGET) == {
        StepReason.PERCENTILE: "110m",
        StepReason.MARGIN: "126m",
        StepReason.MINIMUM: "126m",
        StepReason.MIN_ALLOWED: "200m",
        StepReason.MAX_ALLOWED: "150m",
    }
    assert steps_of(found, "cpu", Amount.UPPER_BOUND)[StepReason.CONFIDENCE] == "100G"
    assert steps_of(found, "cpu", Amount.UNCAPPED_TARGET) == {StepReason.BEFORE_CAPS: "126m"}
    (container,) = found.containers
    assert (container.samples, container.sharing) == (1, 1)
    assert container.oldest_sample == container.newest_sample == START
    assert container.weight["cpu"] == pytest.approx(0.1)
    assert container.confidence == {"cpu": 0.0, "memory": 0.0}
    assert (found.selector, found.pods, found.unsupported) == ("app=web", 1, None)
    assert found.status is WriteDecision.WRITTEN  # not yet in the cache


@pytest.mark.parametrize(
    ("spec", "name", "want"),
    [
        pytest.param({}, "missing", (404, "there is no VPA shop/missing"), id="no such VPA"),
        pytest.param(
            {"recommenders": [{"name": "other"}]},
            "web",
            (404, "VPA shop/web asks for the recommender other, and this one is default"),
            id="a VPA of another recommender",
        ),
        pytest.param(
            {
                "resourcePolicy": {
                    "containerPolicies": [{"containerName": "app", "minAllowed": {"cpu": "x"}}]
                }
            },
            "web",
            (422, "VPA shop/web: its policy can't be read: not a quantity: 'x'"),
            id="an invalid name",
        ),
    ],
)
async def test_what_cannot_be_explained(spec: Any, name: str, want: tuple[int, str]) -> None:
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[vpa(**spec)])
        async with running(api) as process:
            before = process.recommender.explain("shop", name)
            await process.cycle()
            found = process.recommender.explain("shop", name)
    assert isinstance(before, Unexplained)
    assert (before.status, before.error) == (
        503,
        "no cycle has ended yet, so nothing is recommended",
    )
    assert isinstance(found, Unexplained)
    assert found.status == want[0]
    assert found.error.startswith(want[1])

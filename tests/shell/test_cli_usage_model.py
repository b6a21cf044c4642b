"""The command line computes from checkpoints what the recommender publishes from them."""

import contextlib
from collections.abc import AsyncIterator, Iterable
from datetime import timedelta
from random import Random
from typing import Any

import msgspec
import pytest

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.errors import ConfigError
from common.features import FeatureGates
from common.quantity import Quantity, QuantityError
from common.read_model.page import ReadMetadata
from fake_api import FakeApi, Reply, listing, named, status
from kubectl_vpa.cluster.checkpoints import read_histories
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.judge.usage_model import (
    ModelSettings,
    StoredVpa,
    explained,
    recommended,
    usage_of,
)
from recommender.model.usage import Usage
from recommender.publish.status_decision import PublishingSettings
from recommender.settings import RecommenderSettings
from recommender_harness import (
    CHECKPOINTS,
    METRICS,
    NEW_CHECKPOINT,
    START,
    checkpoint,
    checkpoint_of,
    deployment,
    pod,
    prepare,
    running,
    status_of,
    usage,
    vpa,
    written,
)

NAMES = ("app", "log", "proxy")
VPAS = tuple(f"v{number}" for number in range(30))
FLAGS: dict[str, dict[str, Any]] = {
    "default flags": {},
    "other estimation": {
        "margin_fraction": 0.0,
        "target_cpu_percentile": 0.6,
        "upper_memory_percentile": 1.0,
        "pod_min_cpu": 100.0,
        "confidence_interval_cpu": timedelta(hours=3),
    },
    "rounding and limits": {
        "round_cpu_millicores": 50,
        "round_memory_bytes": 1 << 20,
        "max_allowed_memory": Quantity.parse("1Gi"),
        "integer_cpu": True,
    },
    "other counting": {
        "cpu_half_life": timedelta(hours=5),
        "memory_aggregation_interval_count": 2,
        "feature_gates": FeatureGates(native_sidecar=True, per_vpa_config=True),
    },
    "minimum without samples": {"publish_without_samples": True},
}


class Stored:
    """Random VPAs with pods and checkpoints."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.pods: list[Any] = []
        self.vpas = [self._vpa(name) for name in VPAS]
        for name in VPAS:
            self.pods += [self._pod(name, number) for number in range(self.random.choice((0, 2)))]
        self.checkpoints = [
            self._checkpoint(name, container)
            for name in VPAS
            for container in NAMES
            if self.random.random() < 0.7
        ]

    def _vpa(self, name: str) -> Any:
        choose = self.random.choice
        policies = [
            {"containerName": "app", "maxAllowed": {"cpu": choose(("300m", "4")), "memory": "3Gi"}},
            {"containerName": "log", "mode": choose(("Auto", "Off"))},
            {"containerName": "*", "controlledResources": choose((["cpu"], ["cpu", "memory"]))},
        ]
        given = {"containerPolicies": policies[: choose((0, 1, 3))]}
        made = vpa(name, resourcePolicy=given)
        made["metadata"]["annotations"] = {
            "vpa-post-processor.kubernetes.io/app_integerCPU": choose(("true", "false"))
        }
        return made

    def _pod(self, name: str, number: int) -> Any:
        made = pod(f"{name}-{number}", app=name)
        containers: list[Any] = [{"name": name, "resources": {}} for name in ("app", "log")]
        sidecar = {"name": "proxy", "restartPolicy": "Always", "resources": {}}
        made["spec"] = {"containers": containers, "initContainers": [sidecar]}
        return made

    def _checkpoint(self, name: str, container: str) -> Any:
        last = START - timedelta(hours=self.random.choice((0, 1, 30, 24 * 9)))
        first = last - timedelta(hours=self.random.randint(1, 200))
        found = checkpoint(
            name,
            container,
            cpuHistogram=self._histogram(last),
            memoryHistogram=self._histogram(last),
            firstSampleStart=first.isoformat(),
            lastSampleStart=last.isoformat(),
            totalSamplesCount=self.random.choice((0, 7, 1440, 20_000)),
        )
        if self.random.random() < 0.1:
            found["metadata"]["annotations"] = {"vpa-recommender/target": "Deployment/before"}
        return found

    def _histogram(self, at: Any) -> Any:
        weights = {
            str(self.random.randint(0, 90)): self.random.randint(1, 10_000)
            for _ in range(self.random.choice((0, 1, 5, 30)))
        }
        total = self.random.uniform(0.1, 200) if weights else 0
        return {
            "referenceTimestamp": at.isoformat(),
            "bucketWeights": weights,
            "totalWeight": total,
        }


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as made:
        yield made


def publishing(flags: dict[str, Any]) -> PublishingSettings:
    settings = RecommenderSettings(**flags)
    return PublishingSettings(estimation=settings.estimation, publication=settings.publication)


async def model(
    api: FakeApi, vpas: list[Any], pods: list[Any], now: Any, flags: dict[str, Any]
) -> tuple[Usage, list[VerticalPodAutoscaler]]:
    """Return the command line's model of the checkpoints that the API server has."""
    settings = RecommenderSettings(**flags)
    async with api.client() as client:
        histories = await read_histories(Reader(client, ""))
    decoded = msgspec.convert(vpas, list[VerticalPodAutoscaler], strict=False)
    live = msgspec.convert(pods, list[Pod], strict=False)
    stored = [
        StoredVpa(
            vpa=each,
            pods=[one for one in live if (one.metadata.labels or {})["app"] == each.metadata.name],
        )
        for each in decoded
    ]
    counting = ModelSettings(
        rules=settings.aggregation, half_lives=settings.half_lives, gates=settings.feature_gates
    )
    return usage_of(stored, histories, now, counting), decoded


def published(api: FakeApi, names: Iterable[str]) -> dict[str, Any]:
    """Return the recommendations that the recommender wrote, by VPA."""
    found = {}
    for name in names:
        with contextlib.suppress(IndexError):
            status = written(api, status_of(name))
            if amounts := status["recommendation"].get("containerRecommendations"):
                found[name] = amounts
    return found


def computed(
    found: Usage, vpas: list[VerticalPodAutoscaler], now: Any, flags: dict[str, Any]
) -> dict[str, Any]:
    statuses = recommended(found, vpas, now, publishing(flags))
    return {
        key.name: msgspec.json.decode(msgspec.json.encode(status.recommendation))[
            "containerRecommendations"
        ]
        for key, status in statuses.items()
    }


def stored_checkpoint(api: FakeApi) -> Any:
    """Return the checkpoint as the writes of the recommender left it."""
    found: Any = {}
    for each in api.requests:
        route = f"{each.method} {each.path}"
        if route == NEW_CHECKPOINT:
            found = each.json()
        elif route == checkpoint_of("web-app"):
            for change in each.json():
                if change["path"] == "/metadata/annotations":
                    found["metadata"]["annotations"] = change["value"]
                elif change["path"] == "/status":
                    found["status"] = change["value"]
    return found


def rounded(content: Any) -> Any:
    """Return content without the last bits of its numbers, which depend on the order of sums."""
    match content:
        case float():
            return float(f"{content:.9g}")
        case dict():
            return {name: rounded(each) for name, each in content.items()}
        case list() | tuple():
            return [rounded(each) for each in content]
    return content


def prepared(api: FakeApi, stored: Stored) -> None:
    """Serve the objects, and usage of a pod without VPA alone."""
    prepare(
        api,
        deployments=[deployment(name) for name in VPAS],
        pods=[*stored.pods, pod("other", app="other")],
        verticalpodautoscalers=stored.vpas,
    )
    for name in VPAS:
        for container in NAMES:
            api.on(checkpoint_of(f"{name}-{container}"), Reply(body=named("any")))
    api.on(METRICS, listing(usage("other")))
    api.on(CHECKPOINTS, listing(*stored.checkpoints))


@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
@pytest.mark.parametrize("seed", range(3))
async def test_checkpoints_alone_give_the_published_numbers(
    api: FakeApi, seed: int, flags: dict[str, Any]
) -> None:
    stored = Stored(seed)
    prepared(api, stored)
    async with running(api, **flags) as process:
        await process.cycle()
        found, vpas = await model(api, stored.vpas, stored.pods, START, flags)
        wanted = published(api, VPAS)
        assert len(wanted) > 10
        assert computed(found, vpas, START, flags) == wanted


@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
async def test_steps_and_histograms_are_those_of_the_read_api(
    api: FakeApi, flags: dict[str, Any]
) -> None:
    stored = Stored(7)
    prepared(api, stored)
    async with running(api, **flags) as process:
        await process.cycle()
        found, vpas = await model(api, stored.vpas, stored.pods, START, flags)
        for each in vpas:
            ours = explained(found, each, START, publishing(flags))
            detail = process.recommender.detail(
                "shop", each.metadata.name, ReadMetadata(last_pass=None, leading=None, leader=None)
            )
            assert detail is not None
            assert detail.explanation is not None
            for one, other in (
                (ours.explanation.containers, detail.explanation.containers),
                (ours.explanation.left_out, detail.explanation.left_out),
                (ours.histograms, detail.containers),
            ):
                assert rounded(msgspec.to_builtins(one)) == rounded(msgspec.to_builtins(other))


async def test_written_checkpoints_with_running_windows_give_the_published_numbers(
    api: FakeApi,
) -> None:
    """The highest memory is that of windows that have not ended, which only annotations have."""
    prepare(api, pods=[pod("web-1"), pod("web-2")])
    async with running(api) as process:
        random = Random(3)
        for step in range(120):
            at = process.clock.forward(timedelta(minutes=15))
            amounts = {
                "cpu": f"{random.randint(50, 900)}m",
                "memory": f"{random.randint(90, 900) + 20 * step}Mi",
            }
            api.on(
                METRICS, listing(*(usage(name, at=at, **amounts) for name in ("web-1", "web-2")))
            )
            await process.cycle()
        await process.recommender.end(timedelta(minutes=1))
        now = process.clock.now()
        api.on(CHECKPOINTS, listing(stored_checkpoint(api)))
        found, vpas = await model(api, [vpa()], [pod("web-1"), pod("web-2")], now, {})
        wanted = published(api, ["web"])
        assert computed(found, vpas, now, {}) == wanted


async def test_checkpoints_that_can_not_be_decoded_are_noted(api: FakeApi) -> None:
    wrong = [checkpoint(f"v{number}", version="v9") for number in range(5)]
    api.on(CHECKPOINTS, listing(*wrong, checkpoint("web")))
    async with api.client() as client:
        reader = Reader(client, "")
        (found,) = await read_histories(reader)
    assert (found.vpa.name, found.container, found.target) == ("web", "app", "Deployment/web")
    assert reader.notes == [
        *(
            f"checkpoint shop/v{number}-app: version is 'v9', only 'v3' can be read"
            for number in range(3)
        ),
        "2 more checkpoints that can't be decoded",
    ]


async def test_without_the_right_to_list_checkpoints_nothing_is_computed(api: FakeApi) -> None:
    api.on(CHECKPOINTS, status(403, "Forbidden"))
    async with api.client() as client:
        reader = Reader(client, "")
        with pytest.raises(ConfigError, match="you need the right to list them"):
            await read_histories(reader)
    assert reader.notes == ["verticalpodautoscalercheckpoints: you may not list them"]


@pytest.mark.parametrize(
    ("target", "samples"),
    [
        pytest.param("Deployment/web", 1440, id="this target"),
        pytest.param(None, 1440, id="an unknown target, as the reference writes it"),
        pytest.param("Deployment/before", 0, id="a former target"),
    ],
)
async def test_history_of_a_former_target_does_not_count(
    api: FakeApi, target: str | None, samples: int
) -> None:
    stored = checkpoint("web")
    stored["metadata"]["annotations"] = {"vpa-recommender/target": target} if target else {}
    api.on(CHECKPOINTS, listing(stored))
    found, (web,) = await model(api, [vpa()], [pod()], START, {})
    (app,) = explained(found, web, START).explanation.containers
    assert app.samples == samples


async def test_a_vpa_with_an_invalid_policy_is_left_out(api: FakeApi) -> None:
    wrong = {"containerPolicies": [{"containerName": "app", "maxAllowed": {"cpu": "a lot"}}]}
    vpas = [vpa("web"), vpa("wrong", resourcePolicy=wrong)]
    api.on(CHECKPOINTS, listing(checkpoint("web"), checkpoint("wrong")))
    found, decoded = await model(api, vpas, [], START, {})
    assert {key.name for key in recommended(found, decoded, START)} == {"web"}
    with pytest.raises(QuantityError):
        explained(found, decoded[1], START)

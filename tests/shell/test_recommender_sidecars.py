"""The recommender and native sidecars, in whole cycles: AEP-8905, X107 and X108."""

from collections.abc import Sequence
from typing import Any

import pytest

from common.features import FeatureGates
from common.read_model.explanation import RecommendationExplanation
from fake_api import FakeApi, Reply, Request, listing, named
from oom_deliveries import OomDeliveries
from recommender.checkpoints.checkpoint_annotations import SIDECAR
from recommender.publish.explanation import ExclusionReason
from recommender_harness import (
    CHECKPOINTS,
    METRICS,
    NEW_CHECKPOINT,
    START,
    WEB,
    Running,
    checkpoint,
    checkpoint_of,
    pod,
    prepare,
    running,
    written,
)

ON, OFF = FeatureGates(native_sidecar=True), FeatureGates()
PROXY = {
    "name": "proxy",
    "restartPolicy": "Always",
    "resources": {"requests": {"memory": "100Mi"}},
}
MIGRATE = {"name": "migrate", "resources": {"requests": {"memory": "1Gi"}}}
HALF = {"cpu": "12m", "memory": "125Mi"}  # of the minimum of a pod


def with_init(*init: Any, name: str = "web-1", app: str = "web", **status: Any) -> Any:
    found = pod(name, app=app, status={"phase": "Running", **status})
    found["spec"]["initContainers"] = list(init)
    return found


def usage_at(*containers: str, name: str = "web-1", at: Any = START) -> Any:
    """Return low usage, so that the shares of the pod minimum are visible."""
    little = {"cpu": "1m", "memory": "1Mi"}
    return named(
        name,
        timestamp=at.isoformat(),
        window="15s",
        containers=[{"name": each, "usage": little} for each in containers],
    )


def targets(api: FakeApi) -> dict[str, dict[str, str]]:
    """Return the targets of the last status, by container."""
    found = written(api, WEB).get("recommendation") or {}
    return {
        one["containerName"]: one["target"] for one in found.get("containerRecommendations") or ()
    }


def writable(api: FakeApi, *containers: str) -> None:
    for each in containers:
        api.on(checkpoint_of(f"web-{each}"), Reply(body=named(f"web-{each}")))


def is_new_checkpoint(request: Request) -> bool:
    return f"{request.method} {request.path}" == NEW_CHECKPOINT


async def recommended(
    api: FakeApi, gates: FeatureGates, *, cycles: int = 1
) -> dict[str, dict[str, str]]:
    async with running(api, feature_gates=gates) as process:
        for _ in range(cycles):
            await process.cycle()
    return targets(api)


@pytest.mark.parametrize(
    ("gates", "want"),
    [(ON, {"app", "proxy"}), (OFF, {"app"})],
    ids=["gate on", "gate off"],
)
async def test_the_gate_decides_whether_a_sidecar_gets_a_recommendation(
    gates: FeatureGates, want: set[str]
) -> None:
    async with FakeApi() as api:
        prepare(api, pods=[with_init(MIGRATE, PROXY)])
        api.on(METRICS, listing(usage_at("app", "migrate", "proxy")))
        writable(api, "proxy")
        found = await recommended(api, gates)
        assert found.keys() == want
        both = gates is ON
        assert found["app"] == (HALF if both else {"cpu": "25m", "memory": "250Mi"})
        names = {one.json()["metadata"]["name"] for one in api.requests if is_new_checkpoint(one)}
        assert names == {f"web-{each}" for each in want}


async def test_a_plain_init_container_with_the_name_of_a_sidecar_is_ignored() -> None:
    """AEP-8905: ``proxy`` is a sidecar in one pod, and a plain init container in another one."""
    plain = {key: value for key, value in PROXY.items() if key != "restartPolicy"}
    async with FakeApi() as api:
        prepare(api, pods=[with_init(PROXY), with_init(plain, name="web-2")])
        large = usage_at("proxy", name="web-2")
        large["containers"][0]["usage"] = {"cpu": "9", "memory": "9Gi"}
        api.on(METRICS, listing(usage_at("app", "proxy"), large))
        writable(api, "proxy")
        found = await recommended(api, ON)
        assert found == {"app": HALF, "proxy": HALF}


@pytest.mark.parametrize("gates", [ON, OFF], ids=["gate on", "gate off"])
async def test_an_oom_kill_of_a_sidecar_is_recorded_with_the_gate(gates: FeatureGates) -> None:
    ended = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-01-02T12:00:20Z"}
    killed = {"name": "proxy", "restartCount": 0, "state": {"terminated": ended}}
    plain = {**killed, "name": "migrate"}
    runs = {"name": "proxy", "restartCount": 0, "state": {"running": {}}}
    before = with_init(MIGRATE, PROXY, initContainerStatuses=[runs])
    async with FakeApi() as api:
        prepare(api, pods=[before])
        writable(api, "proxy")
        async with running(api, feature_gates=gates) as process:
            simulation = OomDeliveries(api, process)
            await simulation.cycle(usage_at("app", "proxy"))
            simulation.pod(
                "MODIFIED", with_init(MIGRATE, PROXY, initContainerStatuses=[plain, killed])
            )
            await simulation.cycle()
            await simulation.cycle()
            _, recorded, discarded = simulation.counts()
    assert recorded == (gates is ON)
    assert not discarded
    if gates is ON:  # 100Mi requested, and 100 MiB more at least
        assert targets(api)["proxy"]["memory"] not in (HALF["memory"], "")


@pytest.mark.parametrize(
    ("gates", "want"), [(ON, {"app", "proxy"}), (OFF, {"app"})], ids=["gate on", "gate off"]
)
async def test_external_metrics_report_sidecars(gates: FeatureGates, want: set[str]) -> None:
    items = [
        {
            "metricName": "used",
            "metricLabels": {"name": each},
            "timestamp": START.isoformat(),
            "value": "100m",
        }
        for each in ("app", "proxy", "migrate")
    ]
    root = "GET /apis/external.metrics.k8s.io/v1beta1/namespaces/shop"
    async with FakeApi() as api:
        prepare(api, pods=[with_init(MIGRATE, PROXY)])
        writable(api, "proxy")
        api.on(f"{root}/used-cores", Reply(body={"items": items}))
        async with running(
            api,
            feature_gates=gates,
            use_external_metrics=True,
            external_metrics_cpu_metric="used-cores",
        ) as process:
            await process.cycle()
    found = targets(api)
    assert found.keys() == want
    assert {one["cpu"] for one in found.values()} == {"126m"}


# After the gate was turned off


def mark_as_sidecar(found: Any) -> Any:
    found["metadata"]["annotations"] = {SIDECAR: "true"}
    return found


ALONE = {"app": {"cpu": "25m", "memory": "250Mi"}}


@pytest.mark.parametrize(
    ("pods", "stored"),
    [
        pytest.param([with_init(PROXY)], checkpoint(container="proxy"), id="by a pod"),
        pytest.param(
            [with_init(PROXY)], mark_as_sidecar(checkpoint(container="proxy")), id="by both"
        ),
        pytest.param(
            [pod()], mark_as_sidecar(checkpoint(container="proxy")), id="by the checkpoint"
        ),
    ],
)
async def test_a_checkpoint_of_a_sidecar_is_ignored_with_the_gate_off(
    pods: Sequence[Any], stored: Any
) -> None:
    """X108: no recommendation, the whole minimum for the others, and the checkpoint is kept."""
    async with FakeApi() as api:
        prepare(api, pods=list(pods))
        api.on(METRICS, listing(usage_at("app", "proxy")))
        api.on(CHECKPOINTS, listing(stored))
        writable(api, "proxy")
        async with running(api, feature_gates=OFF) as process:
            await process.cycle()
            explanation = process.recommender.explain("shop", "web")
        assert targets(api) == ALONE
        assert not [one for one in api.requests if one.method == "DELETE"]
        assert isinstance(explanation, RecommendationExplanation)
        assert [(one.name, one.reason) for one in explanation.left_out] == [
            ("proxy", ExclusionReason.NATIVE_SIDECAR)
        ]


async def test_without_pods_the_checkpoint_decides() -> None:
    async with FakeApi() as api:
        stored = [checkpoint(), mark_as_sidecar(checkpoint(container="proxy"))]
        prepare(api, pods=[])
        api.on(METRICS, listing())
        api.on(CHECKPOINTS, listing(*stored))
        writable(api, "proxy")
        assert (await recommended(api, OFF)).keys() == {"app"}


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([pod()], id="no pod has it"),
        pytest.param([with_init(MIGRATE)], id="a plain init container has another name"),
        pytest.param([with_init({**MIGRATE, "name": "proxy"})], id="a plain init container"),
    ],
)
async def test_a_checkpoint_of_any_other_container_is_used(pods: Sequence[Any]) -> None:
    async with FakeApi() as api:
        prepare(api, pods=list(pods))
        api.on(METRICS, listing(usage_at("app")))
        api.on(CHECKPOINTS, listing(checkpoint(container="proxy")))
        writable(api, "proxy")
        assert (await recommended(api, OFF)).keys() == {"app", "proxy"}


async def test_a_sidecar_that_became_a_regular_container_is_used() -> None:
    regular = pod()
    regular["spec"]["containers"].append({"name": "proxy"})
    async with FakeApi() as api:
        prepare(api, pods=[regular, with_init(PROXY, name="web-2", app="web")])
        regular["metadata"]["labels"]["pod-template-hash"] = "new"
        api.on(METRICS, listing(usage_at("app", "proxy")))
        api.on(CHECKPOINTS, listing(mark_as_sidecar(checkpoint(container="proxy"))))
        writable(api, "proxy")
        assert (await recommended(api, OFF)).keys() == {"app", "proxy"}


async def test_the_checkpoint_of_a_sidecar_is_marked_and_kept_without_the_gate() -> None:
    async with FakeApi() as api:
        prepare(api, pods=[with_init(PROXY)])
        api.on(METRICS, listing(usage_at("app", "proxy")))
        await recommended(api, ON)
        bodies = [one.json() for one in api.requests if is_new_checkpoint(one)]
        marks = {
            body["metadata"]["name"]: SIDECAR in body["metadata"].get("annotations", {})
            for body in bodies
        }
        assert marks == {"web-app": False, "web-proxy": True}


async def test_with_the_gate_on_again_history_continues() -> None:
    async with FakeApi() as api:
        prepare(api, pods=[with_init(PROXY)])
        api.on(METRICS, listing(usage_at("app", "proxy")))
        api.on(CHECKPOINTS, listing(mark_as_sidecar(checkpoint(container="proxy"))))
        writable(api, "proxy")
        async with running(api, feature_gates=ON) as process:
            await process.cycle()
            assert _samples(process) > 1440


def _samples(process: Running) -> int:
    explained = process.recommender.explain("shop", "web")
    assert isinstance(explained, RecommendationExplanation)
    (proxy,) = (one for one in explained.containers if one.name == "proxy")
    return proxy.samples

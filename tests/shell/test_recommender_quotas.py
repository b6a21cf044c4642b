"""Targets that are lowered to ResourceQuotas: the cycle of the recommender."""

from datetime import timedelta
from typing import Any

import pytest

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import ResourceQuota
from common.kube import endpoints
from common.kube.node_autoscalers import NODE_POOLS
from common.kube.watch import WatchProtocol
from fake_api import FakeApi, Reply, listing, named, status, watch_line
from recommender_harness import (
    METRICS,
    Running,
    conditions,
    deployment,
    node,
    pod,
    prepare,
    published,
    quota,
    running,
    status_of,
    target,
    usage,
    vpa,
    written,
)

CONDITION = "CappedByQuota"
AUTOSCALER = "GET /api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
QUOTAS = f"GET {endpoints.RESOURCE_QUOTAS.collection()}"
USUAL = {"cpu": "126m", "memory": "250Mi"}  # without a quota


def workload(name: str = "web", *, replicas: int = 1, surge: int = 0, **status_: Any) -> Any:
    found = deployment(name)
    found["spec"] |= {"replicas": replicas, "strategy": {"rollingUpdate": {"maxSurge": surge}}}
    return found | {"status": {"replicas": replicas, **status_}}


def running_pod(name: str = "web-1", *, app: str = "web", cpu: str = "10m", **more: Any) -> Any:
    found = pod(name, app=app)
    requests = {"cpu": cpu, "memory": "50Mi"}
    found["spec"]["containers"][0]["resources"] = {"requests": requests, **more}
    return found


def apply_write(api: FakeApi, process: Running, one: Any) -> None:
    """Send the written status by the watch."""
    one["status"] = written(api, status_of(one["metadata"]["name"]))
    version = int(one["metadata"].get("resourceVersion", "1")) + 1
    one["metadata"]["resourceVersion"] = str(version)
    feed = WatchProtocol(VerticalPodAutoscaler, resource_version="1").feed
    process.informers.vpas._apply(next(feed(watch_line("MODIFIED", one))))


@pytest.mark.parametrize(
    ("hard", "replicas", "surge", "cpu"),
    [
        pytest.param("126m", 1, 0, "126m", id="one pod just fits"),
        pytest.param("125m", 1, 0, "125m", id="a millicore is missing"),
        pytest.param("378m", 2, 1, "126m", id="three pods of a rollout just fit"),
        pytest.param("377m", 2, 1, "125m", id="the surge counts"),
        pytest.param("10m", 1, 0, "25m", id="not below the smallest recommendation"),
    ],
)
async def test_the_pods_of_a_rollout_fit(hard: str, replicas: int, surge: int, cpu: str) -> None:
    async with FakeApi() as api:
        prepare(
            api,
            deployments=[workload(replicas=replicas, surge=surge)],
            pods=[running_pod(f"web-{number + 1}") for number in range(replicas)],
            resourcequotas=[quota(requests_cpu=hard)],
        )
        async with running(api) as process:
            await process.cycle()
        assert target(api) == USUAL | {"cpu": cpu}
        assert (CONDITION in conditions(api)) == (cpu != USUAL["cpu"])


async def test_the_condition_states_the_numbers() -> None:
    async with FakeApi() as api:
        prepare(
            api,
            deployments=[workload(replicas=2, surge=1)],
            pods=[running_pod("web-1"), running_pod("web-2")],
            resourcequotas=[quota(requests_cpu="500m", used={"requests.cpu": "220m"})],
        )
        async with running(api) as process:
            await process.cycle()
        assert target(api)["cpu"] == "100m"
        found = written(api)["recommendation"]["containerRecommendations"][0]
        assert found["upperBound"]["cpu"] != "100m", "pods that run keep their range"
        assert found["uncappedTarget"]["cpu"] == "126m"
        assert conditions(api)[CONDITION] == (
            "app: targets are lowered so that the pods of a rollout fit. "
            "ResourceQuota team allows 500m of requests.cpu, of which other pods use 200m. "
            "Each of the 3 pods of a rollout may use 100m, and the recommendation wants 126m."
        )


async def test_a_target_that_cannot_be_met_is_published_at_its_minimum() -> None:
    policy = {"containerPolicies": [{"containerName": "*", "minAllowed": {"cpu": "120m"}}]}
    async with FakeApi() as api:
        prepare(
            api,
            deployments=[workload(replicas=2)],
            pods=[running_pod("web-1"), running_pod("web-2")],
            resourcequotas=[quota(requests_cpu="200m", used={"requests.cpu": "20m"})],
            verticalpodautoscalers=[vpa(resourcePolicy=policy)],
        )
        async with running(api) as process:
            await process.cycle()
        assert target(api)["cpu"] == "120m"
        assert conditions(api)[CONDITION] == (
            "The pods of a rollout do not fit, not even with the lowest targets. "
            "ResourceQuota team allows 200m of requests.cpu, of which other pods use 0. "
            "Each of the 2 pods of a rollout may use 100m, but it needs at least 120m."
        )


async def test_a_target_that_a_quota_lowers_a_little_below_a_node_keeps_both_conditions() -> None:
    one = vpa()
    async with FakeApi() as api:
        prepare(
            api,
            deployments=[workload()],
            pods=[running_pod()],
            nodes=[node("small", cpu="120m", memory="4Gi")],
            resourcequotas=[quota(requests_cpu="115m")],
            verticalpodautoscalers=[one],
        )
        for route in (f"GET {NODE_POOLS.collection()}", AUTOSCALER):
            api.on(route, status(404, "NotFound"))
        async with running(api) as process:
            for _ in range(2):
                await process.cycle()
                apply_write(api, process, one)
                assert target(api)["cpu"] == "115m"
                assert {CONDITION, "CappedByNodes"} <= conditions(api).keys()


async def test_a_quota_on_limits_lowers_requests_by_their_ratio() -> None:
    async with FakeApi() as api:
        prepare(
            api,
            deployments=[workload()],
            pods=[running_pod(limits={"cpu": "40m"})],
            resourcequotas=[quota(limits_cpu="400m")],
        )
        async with running(api) as process:
            await process.cycle()
        assert target(api)["cpu"] == "100m"


@pytest.mark.parametrize(
    ("used", "cpu"),
    [
        pytest.param("110m", "100m", id="other pods use nothing"),
        pytest.param("130m", "90m", id="other pods use 20m"),
    ],
)
async def test_pending_pods_count_with_the_published_target(used: str, cpu: str) -> None:
    """They aren't cached, but the Deployment counts them."""
    async with FakeApi() as api:
        prepare(
            api,
            deployments=[workload(replicas=2)],
            pods=[running_pod(cpu="50m")],
            resourcequotas=[quota(requests_cpu="200m", used={"requests.cpu": used})],
            verticalpodautoscalers=[published(vpa(), cpu="60m", memory="250Mi")],
        )
        async with running(api) as process:
            await process.cycle()
        assert target(api)["cpu"] == cpu


async def test_without_pods_the_template_counts_and_the_target_stays_for_half_an_hour() -> None:
    """A quota that refuses all pods must not keep a target that is too large."""
    made = workload(replicas=1)
    made["spec"]["template"] = {"spec": {"containers": [{"name": "app"}]}}
    one = published(vpa(), cpu="500m", memory="300Mi")
    async with FakeApi() as api:
        prepare(
            api,
            deployments=[made],
            pods=[],
            resourcequotas=[quota(requests_cpu="200m")],
            verticalpodautoscalers=[one],
        )
        api.on(METRICS, listing())
        async with running(api) as process:
            for _ in range(2):
                await process.cycle()
                assert target(api)["cpu"] == "500m"
                assert conditions(api)[CONDITION].endswith(
                    "The only pod of a rollout may use 200m, but the target stays at 500m until "
                    "12:30 UTC."
                )
                apply_write(api, process, one)
                process.clock.forward(timedelta(minutes=29))
            process.clock.forward(timedelta(minutes=1))
            await process.cycle()
        assert target(api)["cpu"] == "200m"


async def test_a_workload_that_is_scaled_to_zero_counts_as_one_pod() -> None:
    async with FakeApi() as api:
        prepare(
            api,
            deployments=[workload(replicas=0)],
            pods=[running_pod()],
            resourcequotas=[quota(requests_cpu="100m")],
        )
        async with running(api) as process:
            await process.cycle()
        assert target(api)["cpu"] == "100m"


async def test_vpas_share_a_quota_until_it_has_been_larger_for_half_an_hour() -> None:
    names = ("api", "web")
    vpas = [vpa(name) for name in names]
    async with FakeApi() as api:
        prepare(
            api,
            deployments=[workload(name) for name in names],
            pods=[running_pod(f"{name}-1", app=name) for name in names],
            resourcequotas=[quota(requests_cpu="160m", used={"requests.cpu": "20m"})],
            verticalpodautoscalers=vpas,
        )
        api.on(METRICS, listing(usage("api-1"), usage("web-1")))
        async with running(api) as process:
            for _ in range(2):
                await process.cycle()
                for one in vpas:
                    apply_write(api, process, one)
            assert [target(api, name)["cpu"] for name in names] == ["80m", "80m"]
            assert "1 other VPA gets a share of the rest" in conditions(api)[CONDITION]
            larger = quota(requests_cpu="300m", used={"requests.cpu": "20m"})
            larger["metadata"]["resourceVersion"] = "2"
            quotas = process.informers.quotas
            assert quotas is not None
            feed = WatchProtocol(ResourceQuota, resource_version="1").feed
            quotas._apply(next(feed(watch_line("MODIFIED", larger))))
            await process.cycle()
            for one in vpas:
                apply_write(api, process, one)
            assert [target(api, name)["cpu"] for name in names] == ["80m", "80m"]
            assert "They may grow at 12:30 UTC, if the room is" in conditions(api)[CONDITION]
            process.clock.forward(timedelta(minutes=30))
            await process.cycle()
        assert [target(api, name)["cpu"] for name in names] == ["126m", "126m"]
        assert CONDITION not in conditions(api)


async def test_published_amounts_that_stay_are_not_lowered_again_and_again() -> None:
    """Container log has no usage, so its published amounts stay in each cycle."""
    found = pod()
    requests = {"requests": {"cpu": "10m", "memory": "50Mi"}}
    found["spec"]["containers"] = [{"name": name, "resources": requests} for name in ("app", "log")]
    one, amounts = vpa(), {"cpu": "100m", "memory": "250Mi"}
    log = {"containerName": "log", "target": amounts, "uncappedTarget": amounts}
    one["status"] = {"recommendation": {"containerRecommendations": [log]}}
    seen = []
    async with FakeApi() as api:
        prepare(
            api,
            deployments=[workload()],
            pods=[found],
            resourcequotas=[quota(requests_cpu="113m")],
            verticalpodautoscalers=[one],
        )
        async with running(api) as process:
            for _ in range(4):
                await process.cycle()
                apply_write(api, process, one)
                recommended = one["status"]["recommendation"]["containerRecommendations"]
                seen.append([each["target"]["cpu"] for each in recommended])
    assert seen == [["63m", "50m"]] * 4


@pytest.mark.parametrize(
    ("settings", "answer"),
    [
        pytest.param({"cap_to_quotas": False}, None, id="the flag turns it off"),
        pytest.param({}, status(403, "Forbidden", "no"), id="without permission it is off"),
    ],
)
async def test_quotas_are_optional(
    settings: dict[str, Any], answer: Reply | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeApi() as api:
        prepare(
            api,
            deployments=[workload()],
            pods=[running_pod()],
            resourcequotas=[quota(requests_cpu="100m")],
        )
        if answer is not None:
            api.on(QUOTAS, answer)
        async with running(api, **settings) as process:
            await process.cycle()
        assert target(api) == USUAL
        lines = [one for one in caplog.records if getattr(one, "resource", "") == "resourcequotas"]
        assert len(lines) == (answer is not None)


async def test_a_namespace_without_quotas_has_no_bounds() -> None:
    elsewhere = quota(requests_cpu="1m") | named("team")
    elsewhere["metadata"]["namespace"] = "other"
    async with FakeApi() as api:
        prepare(api, pods=[running_pod()], resourcequotas=[elsewhere])
        async with running(api) as process:
            await process.cycle()
        assert target(api) == USUAL

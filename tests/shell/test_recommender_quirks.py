"""Quirks of recommender.md 18, in whole cycles."""

import asyncio
from datetime import timedelta
from pathlib import Path

from component import running_component
from fake_api import FakeApi, Reply, listing, named, status, until, watch_line
from recommender_harness import (
    CHECKPOINTS,
    METRICS,
    WEB,
    checkpoint,
    checkpoint_of,
    conditions,
    deployment,
    pod,
    prepare,
    running,
    status_of,
    target,
    usage,
    vpa,
    written,
)
from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock

EVENTS = "/api/v1/events"


def test_a_selector_is_kept_while_the_api_server_fails_q1() -> None:
    """In virtual time, because the scale of a custom kind is cached for half a minute."""
    kinds = [{"name": "rockets", "kind": "Rocket"}, {"name": "rockets/scale", "kind": "Scale"}]
    scale = "GET /apis/example.test/v1/namespaces/shop/rockets/web/scale"
    rocket = vpa(kind="Rocket")
    rocket["spec"]["targetRef"]["apiVersion"] = "example.test/v1"

    async def main(_: VirtualClock) -> None:
        async with FakeApi() as api:
            prepare(api, verticalpodautoscalers=[rocket])
            api.on("GET /apis/example.test", Reply(body={"versions": [{"version": "v1"}]}))
            api.on("GET /apis/example.test/v1", Reply(body={"resources": kinds}))
            api.on(scale, Reply(body=named("web", status={"replicas": 1, "selector": "app=web"})))
            async with running(api) as process:
                await process.cycle()
                assert target(api)["cpu"] == "126m"
                api.on(scale, status(503, "ServiceUnavailable", "busy"))
                await asyncio.sleep(31)
                at = process.clock.forward(timedelta(minutes=1))
                api.on(METRICS, listing(*(usage(at=at, cpu="1", memory="200Mi"),)))
                await process.cycle()
                found_conditions = conditions(api)
                assert found_conditions["ConfigUnsupported"].endswith("last error busy")
                assert "NoPodsMatched" not in found_conditions
                assert target(api)["cpu"] == "1168m", "from the usage of its pods meanwhile"
                assert written(api, checkpoint_of("web-app"))["totalSamplesCount"] == 2

    virtual_time.run(main)


async def test_a_repeated_eviction_event_is_counted_once_q19() -> None:
    """A watch starts again, and the API server repeats the Event."""
    event = named(
        "web-1.evicted",
        11,
        reason="Evicted",
        type="Warning",
        involvedObject={"kind": "Pod", "namespace": "shop", "name": "web-1"},
    )
    event["metadata"] |= {
        "uid": "event-1",
        "creationTimestamp": "2026-01-02T12:00:10Z",
        "annotations": {
            "offending_containers": "app",
            "offending_containers_usage": "300Mi",
            "starved_resource": "memory",
        },
    }
    last = named("web-1.other", 13, reason="Evicted", involvedObject={"kind": "Node", "name": "n"})
    async with FakeApi() as api:
        prepare(api)
        api.on(
            f"WATCH {EVENTS}",
            Reply(chunks=[watch_line("ADDED", event)], cut=True),
            Reply(chunks=[watch_line("ADDED", event), watch_line("ADDED", last)], hold=True),
        )
        async with running(api) as process:
            await until(lambda: process.informers._evictions._version == "13")
            await process.cycle()
            assert process.sample("vpa_recommender_oom_seen_total") == 1
            assert process.sample("vpa_recommender_oom_recorded_total") == 1


async def test_the_first_cycle_runs_at_once_q24(tmp_path: Path) -> None:
    async with FakeApi() as api:
        prepare(api)
        interval = "--recommender-interval=1h"
        async with running_component("recommender", api, tmp_path, interval):
            await api.asked(WEB)


async def test_all_checkpoints_are_in_one_list_q29() -> None:
    """Q29: the reference lists all of them once for each namespace that has VPAs."""
    kinds = {"verticalpodautoscalers": vpa, "deployments": deployment}
    places = ("shop", "mill", "farm")
    objects = {
        resource: [_placed(make(), namespace) for namespace in places]
        for resource, make in kinds.items()
    }
    async with FakeApi() as api:
        prepare(api, pods=[_placed(pod(), namespace) for namespace in places], **objects)
        api.on(METRICS, listing(*(_placed(usage(), namespace) for namespace in places)))
        api.on(CHECKPOINTS, listing(*(_placed(checkpoint(), namespace) for namespace in places)))
        for namespace in places:
            for route in (status_of("web"), checkpoint_of("web-app")):
                api.on(route.replace("/shop/", f"/{namespace}/"), Reply(body=named("web")))
        async with running(api) as process:
            await process.cycle()
        assert target(api) == {"cpu": "813m", "memory": "813749082"}, (
            "the history of the checkpoint"
        )
        assert sum("verticalpodautoscalercheckpoints" in route for route in _reads(api)) == 1


def _placed(found: dict[str, object], namespace: str) -> dict[str, object]:
    metadata = found["metadata"]
    assert isinstance(metadata, dict)
    return {**found, "metadata": metadata | {"namespace": namespace}}


def _reads(api: FakeApi) -> list[str]:
    return [route for route in api.routes if route.startswith("GET ")]

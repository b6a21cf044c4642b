"""Targets that can't be looked up: the published recommendation and the condition."""

import asyncio
from datetime import timedelta

import pytest

from common.api.autoscaling import VerticalPodAutoscaler
from common.kube.watch import WatchProtocol
from fake_api import FakeApi, Reply, listing, named, status, watch_line
from recommender_harness import (
    METRICS,
    conditions,
    prepare,
    published,
    running,
    target,
    usage,
    vpa,
    written,
)
from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock

MACHINES = "/apis/apps/v1/namespaces/shop/machines"
ERROR_REPLIES = [
    pytest.param(status(503, "ServiceUnavailable", "too early"), id="a server error"),
    pytest.param(status(403, "Forbidden", "too early"), id="no permission"),
    pytest.param(status(401, "Unauthorized", "too early"), id="token not valid yet"),
    pytest.param(status(422, "Invalid", "too early"), id="refused"),
]


def machines(api: FakeApi, scale: Reply) -> None:
    """Serve the custom kind Machine with this scale of the object ``web``."""
    api.on("GET /apis/apps", Reply(body={"versions": [{"version": "v1"}]}))
    kinds = [
        {"name": "machines", "kind": "Machine", "namespaced": True},
        {"name": "machines/scale"},
    ]
    api.on("GET /apis/apps/v1", Reply(body={"resources": kinds}))
    api.on(f"GET {MACHINES}/web/scale", scale)


@pytest.mark.parametrize("error_reply", ERROR_REPLIES)
def test_a_scale_that_temporarily_cannot_be_read_removes_nothing(error_reply: Reply) -> None:
    """Q1."""

    async def main(_: VirtualClock) -> None:
        async with FakeApi() as api:
            prepare(api, verticalpodautoscalers=[vpa(kind="Machine")])
            machines(api, Reply(body=named("web", status={"selector": "app=web"})))
            async with running(api) as process:
                await process.cycle()
                assert target(api) == {"cpu": "126m", "memory": "250Mi"}
                api.on(f"GET {MACHINES}/web/scale", error_reply)
                later = process.clock.forward(timedelta(minutes=1))
                api.on(METRICS, listing(usage(at=later, cpu="2", memory="200Mi")))
                await asyncio.sleep(60)
                await process.cycle()
                assert "last error too early" in conditions(api)["ConfigUnsupported"]
                assert target(api) == {
                    "cpu": "2406m",
                    "memory": "250Mi",
                }  # the pods are still matched
                api.on(f"GET {MACHINES}/web/scale", status(404, "NotFound", "gone"))
                await asyncio.sleep(60)
                await process.cycle()
                assert "last error gone" in conditions(api)["ConfigUnsupported"]
                assert written(api)["recommendation"] == {}  # a permanent error

    virtual_time.run(main)


async def test_the_result_for_one_target_is_not_used_for_another() -> None:
    """Q1."""
    async with FakeApi() as api:
        prepare(api)
        api.on("GET /apis/apps", status(503, "ServiceUnavailable", "too early"))
        async with running(api) as process:
            await process.cycle()
            assert target(api) == {"cpu": "126m", "memory": "250Mi"}
            for version in (11, 12):  # the second change isn't about the target
                other = vpa(kind="Machine") | {"status": written(api)}
                other["metadata"]["resourceVersion"] = str(version)
                line = watch_line("MODIFIED", other)
                feed = WatchProtocol(VerticalPodAutoscaler, resource_version="10").feed
                process.informers.vpas._apply(next(feed(line)))
                await process.cycle()
                assert written(api)["recommendation"] == {}
                assert "too early" in conditions(api)["ConfigUnsupported"]


@pytest.mark.parametrize("error_reply", ERROR_REPLIES)
async def test_a_target_that_cannot_be_looked_up_yet_removes_nothing(error_reply: Reply) -> None:
    one = published(vpa(kind="Machine"), cpu="3", memory="2Gi")
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[one])
        api.on("GET /apis/apps", error_reply)
        async with running(api) as process:
            await process.cycle()
            labels = {"update_mode": "Recreate", "api": "v1", "matches_pods": "true"}
            labels |= {"has_recommendation": "true", "unsupported_config": "true"}
            assert process.sample("vpa_recommender_vpa_objects_count", **labels) == 1
        found = written(api)
        assert target(api) == {"cpu": "3", "memory": "2Gi"}
        assert conditions(api) == {
            "ConfigUnsupported": "Cannot read targetRef. Reason: unhandled targetRef "
            "apps/v1 / Machine / web, last error too early",
            "RecommendationProvided": "",
        }
        assert found["conditions"][1]["lastTransitionTime"] == "2026-01-01T00:00:00Z"


async def test_x115_a_vpa_names_the_older_one_of_its_target_until_that_is_deleted() -> None:
    older = vpa("older", targetRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})
    older["spec"]["recommenders"] = [{"name": "another-recommender"}]
    younger = vpa()
    for hours, made in ((10, older), (11, younger)):
        made["metadata"]["creationTimestamp"] = f"2026-01-02T{hours}:00:00Z"
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[older, younger])
        async with running(api) as process:
            await process.cycle()
            assert "VPA older has the same target" in conditions(api)["ControlledByAnotherVPA"]
            assert target(api) == {"cpu": "126m", "memory": "250Mi"}
            (body,) = (each for each in written(api)["conditions"] if each.get("reason"))
            assert (body["status"], body["reason"]) == ("True", "OlderVPA")
            feed = WatchProtocol(VerticalPodAutoscaler, resource_version="10").feed
            gone = older | {"metadata": older["metadata"] | {"resourceVersion": "11"}}
            process.informers.vpas._apply(next(feed(watch_line("DELETED", gone))))
            process.clock.forward(timedelta(minutes=1))
            await process.cycle()
            assert "ControlledByAnotherVPA" not in conditions(api)


async def test_x115_the_controlling_vpa_names_the_younger_one_until_that_is_deleted() -> None:
    younger = vpa("younger", targetRef=vpa()["spec"]["targetRef"])
    younger["spec"]["recommenders"] = [{"name": "another-recommender"}]
    older = vpa()
    for hours, made in ((10, older), (11, younger)):
        made["metadata"]["creationTimestamp"] = f"2026-01-02T{hours}:00:00Z"
    async with FakeApi() as api:
        prepare(api, verticalpodautoscalers=[older, younger])
        async with running(api) as process:
            await process.cycle()
            assert "change no pod: younger." in conditions(api)["TargetShared"]
            feed = WatchProtocol(VerticalPodAutoscaler, resource_version="10").feed
            gone = younger | {"metadata": younger["metadata"] | {"resourceVersion": "11"}}
            process.informers.vpas._apply(next(feed(watch_line("DELETED", gone))))
            process.clock.forward(timedelta(minutes=1))
            await process.cycle()
            assert "TargetShared" not in conditions(api)

"""Cycles while history is fetched from Prometheus, and afterwards."""

import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

from common.kube import endpoints
from common.kube.watch import WatchProtocol
from common.read_model.explanation import RecommendationExplanation
from fake_api import FakeApi, Reply, listing, named, status, until, watch_line
from fake_prometheus import FakePrometheus, Steady, refusal
from recommender.estimate.step_reasons import StepReason
from recommender_harness import (
    CHECKPOINTS,
    CHECKPOINTS_OF_SHOP,
    METRICS,
    Running,
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

LIVE = {"cpu": "126m", "memory": "250Mi"}  # after one live sample
WEB = checkpoint_of("web-app")


@contextlib.asynccontextmanager
async def fetching(
    api: FakeApi, prometheus: FakePrometheus, **settings: Any
) -> AsyncIterator[Running]:
    """Run a recommender with history from ``prometheus``."""
    address = settings.pop("prometheus_address", prometheus.address)
    async with running(
        api, storage="prometheus", prometheus_address=address, **settings
    ) as process:
        yield process


async def complete(process: Running, namespaces: int = 1) -> None:
    """Wait until history is loaded, and run a cycle."""
    await until(lambda: loaded_namespaces(process) == namespaces)
    process.clock.forward(
        timedelta(minutes=10)
    )  # the longest delay of a checkpoint of long history
    await process.cycle()


def loaded_namespaces(process: Running) -> float | None:
    return process.sample("vpa_recommender_history_namespaces", state="loaded")


def failures(process: Running, reason: str) -> float | None:
    return process.sample("vpa_recommender_history_failures_total", reason=reason)


async def test_live_samples_are_used_while_history_is_fetched() -> None:
    async with FakeApi() as api, FakePrometheus(Steady(pod="web-1")) as prometheus:
        prepare(api)
        prometheus.go.clear()
        async with fetching(api, prometheus) as process:
            await process.cycle()
            assert target(api) == LIVE
            assert conditions(api)["FetchingHistory"] == (
                "History from Prometheus is still being loaded. A recommendation that was "
                "published before stays until then."
            )
            assert not [route for route in api.routes if "checkpoints/" in route]
            prometheus.go.set()
            await complete(process)
            assert "FetchingHistory" not in conditions(api)
            assert target(api)["cpu"] == "587m"  # half a core, with the margin
            assert int(target(api)["memory"]) > 2**30


async def test_history_from_prometheus_is_stored_in_checkpoints() -> None:
    async with FakeApi() as api, FakePrometheus(Steady(pod="web-1")) as prometheus:
        prepare(api)
        async with fetching(api, prometheus) as process:
            await process.cycle()
            await complete(process)
        kept = written(api, WEB)
        assert kept["totalSamplesCount"] == 193 + 1  # eight days, one an hour, and a live sample
        assert kept["firstSampleStart"] == "2025-12-25T11:58:00Z"
        assert sum(kept["memoryHistogram"]["bucketWeights"].values()) > 0


async def test_history_in_a_checkpoint_is_not_fetched_again() -> None:
    """Only the gap between the last checkpoint and the start is fetched."""
    async with FakeApi() as api, FakePrometheus(Steady(pod="web-1")) as prometheus:
        prepare(api)
        api.on(CHECKPOINTS, listing(checkpoint(lastUpdateTime="2026-01-02T02:00:00Z")))
        prometheus.go.clear()
        async with fetching(api, prometheus) as process:
            await process.cycle()
            process.clock.forward(timedelta(minutes=10))
            await process.cycle()  # the checkpoint's history is kept all the time
            assert written(api, WEB)["totalSamplesCount"] == 1440 + 1
            prometheus.go.set()
            await complete(process)
        assert written(api, WEB)["totalSamplesCount"] == 1440 + 1 + 10


async def test_history_is_not_fetched_before_the_checkpoint_is_read() -> None:
    """The history that is in the checkpoint is not known before."""
    async with FakeApi() as api, FakePrometheus(Steady(pod="web-1")) as prometheus:
        prepare(api, verticalpodautoscalers=[vpa("other")])
        api.on(status_of("web"), Reply(body=named("web")))
        api.on(WEB, Reply(body=named("web-app")))
        api.on(CHECKPOINTS_OF_SHOP, status(503, "ServiceUnavailable"))
        async with fetching(api, prometheus) as process:
            create_vpa(process, vpa())
            await process.cycle()
            await process.cycle()
            assert not prometheus.asked
            api.on(CHECKPOINTS_OF_SHOP, listing(checkpoint(lastUpdateTime="2026-01-02T02:00:00Z")))
            await process.cycle()
            await complete(process)
        assert written(api, WEB)["totalSamplesCount"] == 1440 + 1 + 10


async def test_the_condition_is_removed_if_there_is_no_history() -> None:
    async with FakeApi() as api, FakePrometheus() as prometheus:
        prepare(api)
        prometheus.go.clear()
        async with fetching(api, prometheus) as process:
            await process.cycle()
            seen = {**vpa(), "status": written(api, status_of("web"))}
            create_vpa(process, seen)
            await process.cycle()  # nothing to write
            assert api.routes.count(status_of("web")) == 1
            prometheus.go.set()
            await complete(process)
            assert "FetchingHistory" not in conditions(api)


async def test_a_later_vpa_of_another_namespace_gets_its_history() -> None:
    containers = (Steady(pod="web-1"), Steady(pod="web-1", namespace="bank"))
    async with FakeApi() as api, FakePrometheus(*containers) as prometheus:
        prepare(api)
        theirs = status_of("web").replace("/shop/", "/bank/")
        api.on(theirs, Reply(body=named("web")))
        api.on(CHECKPOINTS_OF_SHOP.replace("/shop/", "/bank/"), listing())
        async with fetching(api, prometheus) as process:
            await process.cycle()
            await complete(process)
            asked = len(prometheus.asked)
            create_vpa(process, in_namespace(vpa(), "bank"))
            await process.cycle()
            await complete(process, namespaces=2)
            assert {"bank" in one.form["query"] for one in prometheus.asked[asked:]} == {True}
            assert process.sample("vpa_recommender_history_samples_total", resource="cpu") == 386


def create_vpa(process: Running, found: Any) -> None:
    """Send the creation of a VPA."""
    found["metadata"]["resourceVersion"] = "11"
    decoder = WatchProtocol(endpoints.VPAS.type, resource_version="10")
    process.informers.vpas._apply(next(iter(decoder.feed(watch_line("ADDED", found)))))


async def test_a_recommendation_from_all_history_is_kept_until_history_is_fetched() -> None:
    """After a new image, the pods must not shrink to the usage of a minute (X72)."""
    found = vpa()
    target_ = {"cpu": "3", "memory": "2Gi"}
    one = {"containerName": "app", "target": target_, "uncappedTarget": target_}
    found["status"] = {
        "recommendation": {
            "containerRecommendations": [{**one, "lowerBound": target_, "upperBound": target_}]
        },
        "conditions": [
            {"type": "RecommendationProvided", "status": "True"},
            {"type": "CappedByNodes", "status": "True", "reason": "TargetsLowered"},
        ],
    }
    async with FakeApi() as api, FakePrometheus(Steady(pod="web-1")) as prometheus:
        prepare(api, verticalpodautoscalers=[found])
        prometheus.go.clear()
        async with fetching(api, prometheus) as process:
            await process.cycle()
            assert target(api) == target_
            kept = {"FetchingHistory", "LowConfidence", "CappedByNodes"}
            assert kept < conditions(api).keys(), "CappedByNodes is about the kept target"
            explanation = process.recommender.explain("shop", "web")
            assert isinstance(explanation, RecommendationExplanation)
            first = explanation.containers[0].numbers[0]
            assert (first.published, first.steps[-1].step) == ("3", StepReason.HISTORY_MISSING)
            prometheus.go.set()
            await complete(process)
            assert target(api)["cpu"] == "587m"
            assert "CappedByNodes" not in conditions(api)


async def test_an_unreachable_server_is_logged_once_and_retried(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="recommender.sources.prometheus_backfill")
    async with FakeApi() as api, FakePrometheus(Steady(pod="web-1")) as prometheus:
        prepare(api)
        await prometheus.stop()
        async with fetching(api, prometheus) as process:
            await process.cycle()
            await until(lambda: (failures(process, "unreachable") or 0) >= 3)
            await process.cycle()
            assert target(api) == LIVE
            await prometheus.start()
            await complete(process)
            assert target(api)["cpu"] == "587m"
    explanation = [
        record.message
        for record in caplog.records
        if record.name == "recommender.sources.prometheus_backfill"
    ]
    assert explanation == [
        "history not fetched from Prometheus, trying again",
        "history is fetched from Prometheus again",
        "history from Prometheus is complete",
    ]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        pytest.param(
            refusal(422, "execution", "query processing would load too many samples"),
            "execution",
            id="too large",
        ),
        pytest.param(web.Response(status=500, text="oops"), "500", id="a crash"),
        pytest.param(web.Response(text="<html>"), "undecodable", id="no JSON"),
        pytest.param(web.Response(status=401, text="who?"), "401", id="not allowed"),
    ],
)
async def test_a_namespace_that_failed_half_way_starts_over(
    reply: web.Response, reason: str
) -> None:
    async with FakeApi() as api, FakePrometheus(Steady(pod="web-1")) as prometheus:
        prepare(api)
        async with fetching(api, prometheus) as process:
            prometheus.go.clear()
            await process.cycle()
            await until(lambda: len(prometheus.asked) == 1)
            prometheus.replies.append(count_of(1))
            prometheus.replies.append(reply)
            prometheus.go.set()
            await complete(process)
            assert failures(process, reason) == 1
        assert written(api, WEB)["totalSamplesCount"] == 193 + 1


def count_of(containers: int) -> web.Response:
    values = [[0, str(containers)]]
    data = {"resultType": "matrix", "result": [{"metric": {}, "values": values}]}
    return web.json_response({"status": "success", "data": data})


def in_namespace(found: Any, namespace: str) -> Any:
    found["metadata"]["namespace"] = namespace
    return found


async def test_a_namespace_fails_alone() -> None:
    containers = (Steady(pod="web-1"), Steady(pod="web-1", namespace="bank"))
    async with FakeApi() as api, FakePrometheus(*containers) as prometheus:
        prepare(
            api,
            deployments=[deployment(), in_namespace(deployment(), "bank")],
            pods=[pod(), in_namespace(pod(), "bank")],
            verticalpodautoscalers=[vpa(), in_namespace(vpa(), "bank")],
        )
        theirs = status_of("web").replace("/shop/", "/bank/")
        api.on(theirs, Reply(body=named("web")))
        api.on(METRICS, listing(usage(), in_namespace(usage(), "bank")))
        prometheus.refused["bank"] = lambda: refusal(422, "execution", "too many samples")
        async with fetching(api, prometheus) as process:
            await process.cycle()
            await complete(process)
            await until(lambda: (failures(process, "execution") or 0) >= 2)
            assert target(api)["cpu"] == "587m"
            shown = [one["type"] for one in written(api, theirs)["conditions"]]
            assert "FetchingHistory" in shown
            prometheus.refused.clear()
            await complete(process, namespaces=2)
            shown = [one["type"] for one in written(api, theirs)["conditions"]]
            assert "FetchingHistory" not in shown


async def test_no_other_pod_is_queried_while_the_server_is_unreachable() -> None:
    async with FakeApi() as api, FakePrometheus(Steady(pod="web-1")) as prometheus:
        prepare(api, verticalpodautoscalers=[vpa(), in_namespace(vpa(), "bank")])
        prometheus.replies.append(web.Response(status=503, text="starting"))
        async with fetching(api, prometheus) as process:
            await process.cycle()
            await until(lambda: loaded_namespaces(process) == 2)
        first, second, *_ = ("bank" in one.form["query"] for one in prometheus.asked)
        assert (first, second) == (True, True)


async def test_a_query_that_was_too_large_is_split() -> None:
    many = [Steady(pod=f"web-{number}") for number in range(1100)]
    async with FakeApi() as api, FakePrometheus(*many) as prometheus:
        prepare(api)
        prometheus.go.clear()
        async with fetching(api, prometheus) as process:
            await process.cycle()
            await until(lambda: len(prometheus.asked) == 1)
            prometheus.replies.append(count_of(1100))
            prometheus.replies.append(refusal(422, "execution", "too many samples"))
            prometheus.go.set()
            await until(lambda: len(prometheus.asked) >= 5)
        labels = [one for one in prometheus.asked if one.form["query"].startswith("last_over")]
        assert [len(one.steps) for one in labels[:2]] == [181, 45]


async def test_responses_with_history_are_bounded() -> None:
    """With many containers, each query has fewer points in time; each point is fetched once."""
    many = [Steady(pod=f"web-{number}", cores="0.1") for number in range(1100)]
    async with FakeApi() as api, FakePrometheus(*many) as prometheus:
        prepare(api)
        async with fetching(api, prometheus) as process:
            await process.cycle()
            await complete(process)
        usages = [one for one in prometheus.asked if one.form["query"].startswith("rate(")]
        assert [len(one.steps) for one in usages] == [181, 12]
        steps = [at for one in usages for at in one.steps]
        assert steps == sorted(set(steps))
        assert written(api, WEB)["totalSamplesCount"] == 193 * 1100 + 1


@pytest.mark.parametrize(
    ("settings", "header"),
    [
        pytest.param({}, "", id="no credentials"),
        pytest.param({"prometheus_bearer_token": "abc"}, "Bearer abc", id="a token"),
        pytest.param({"username": "me", "password": "secret"}, "Basic bWU6c2VjcmV0", id="a user"),
        pytest.param({"username": "me"}, "", id="a user without a password"),
    ],
)
async def test_the_credentials_of_queries(settings: dict[str, str], header: str) -> None:
    async with FakeApi() as api, FakePrometheus() as prometheus:
        prepare(api)
        async with fetching(api, prometheus, **settings) as process:
            await process.cycle()
            await complete(process)
        assert {one.authorization for one in prometheus.asked} == {header}


async def test_a_server_without_post_is_queried_by_get() -> None:
    async with FakeApi() as api, FakePrometheus(Steady(pod="web-1")) as prometheus:
        prepare(api)
        prometheus.replies.append(web.Response(status=405))
        async with fetching(api, prometheus) as process:
            await process.cycle()
            await complete(process)
            name = "vpa_recommender_prometheus_client_api_requests_count"
            assert process.sample(name, code="405", method="post") == 1
            assert process.sample(name, code="200", method="get") == 4
        assert [one.method for one in prometheus.asked] == ["POST", *["GET"] * 4]

"""Usage from metrics.k8s.io: one list, and the fallback if it fails."""

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from common.kube import endpoints
from fake_api import FakeApi, Reply, listing, named, status
from recommender_harness import (
    METRICS,
    START,
    Running,
    deployment,
    pod,
    prepare,
    running,
    status_of,
    target,
    usage,
    vpa,
)

SOME = {"cpu": "126m", "memory": "250Mi"}
NOTHING: dict[str, str] = {}
FORBIDDEN = status(403, "Forbidden")
NO_LIST = Reply(body="<html>")


def metrics_of(namespace: str) -> str:
    return f"GET {endpoints.POD_METRICS.collection(namespace)}"


def in_namespace(found: Any, namespace: str) -> Any:
    found["metadata"]["namespace"] = namespace
    return found


def two_namespaces(api: FakeApi) -> None:
    """Serve the same objects in the namespaces ``shop`` and ``bank``."""
    prepare(
        api,
        deployments=[deployment(), in_namespace(deployment(), "bank")],
        pods=[pod(), in_namespace(pod(), "bank")],
        verticalpodautoscalers=[vpa(), in_namespace(vpa(), "bank")],
    )
    api.on(status_of("web").replace("/shop/", "/bank/"), Reply(body=named("web")))
    api.on(metrics_of("shop"), listing(usage()))
    api.on(metrics_of("bank"), listing(in_namespace(usage(), "bank")))


def targets(api: FakeApi) -> dict[str, dict[str, str]]:
    """Return the last published target, by namespace."""
    found = {}
    for request in api.requests:
        for namespace in ("shop", "bank"):
            route = status_of("web").replace("/shop/", f"/{namespace}/")
            if f"{request.method} {request.path}" == route:
                recommended = request.json()[-1]["value"]["recommendation"]
                (one,) = recommended.get("containerRecommendations", [{"target": NOTHING}])
                found[namespace] = one["target"]
    return found


def usage_lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return each line about usage, with its reason."""
    return [
        (record.message, getattr(record, "reason", ""))
        for record in caplog.records
        if record.name == "recommender.sources.usage_ingestion"
    ]


@pytest.mark.parametrize(
    ("replies", "wanted", "line"),
    [
        pytest.param(
            {"": listing(usage(), in_namespace(usage(), "bank"))},
            {"shop": SOME, "bank": SOME},
            "",
            id="one list is enough",
        ),
        pytest.param(
            {"": FORBIDDEN},
            {"shop": SOME, "bank": SOME},
            "usage is read namespace by namespace",
            id="not allowed for the whole cluster",
        ),
        pytest.param(
            {"": NO_LIST},
            {"shop": SOME, "bank": SOME},
            "usage is read namespace by namespace",
            id="a response that is no list",
        ),
        pytest.param(
            {"": FORBIDDEN, "bank": FORBIDDEN},
            {"shop": SOME, "bank": NOTHING},
            "usage of some pods is missing",
            id="one namespace fails alone",
        ),
        pytest.param(
            {"": FORBIDDEN, "bank": NO_LIST},
            {"shop": SOME, "bank": NOTHING},
            "usage of some pods is missing",
            id="one namespace can't be decoded",
        ),
        pytest.param(
            {"": FORBIDDEN, "bank": FORBIDDEN, "shop": FORBIDDEN},
            {"shop": NOTHING, "bank": NOTHING},
            "no usage",
            id="every namespace fails",
        ),
    ],
)
async def test_if_the_cluster_list_fails_each_namespace_is_listed(
    replies: Mapping[str, Reply],
    wanted: dict[str, dict[str, str]],
    line: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="recommender.sources.usage_ingestion")
    async with FakeApi() as api:
        two_namespaces(api)
        for namespace, reply in replies.items():
            api.on(metrics_of(namespace), reply)
        async with running(api) as process:
            await process.cycle()
            await process.cycle()
    assert targets(api) == wanted
    assert [text for text, _ in usage_lines(caplog)] == ([line] if line else [])


def requests(process: Running, scope: str, outcome: str) -> float | None:
    labels = {"scope": scope, "outcome": outcome}
    return process.sample("vpa_recommender_usage_requests_total", **labels)


async def test_each_response_is_counted_and_each_change_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="recommender.sources.usage_ingestion")
    async with FakeApi() as api:
        two_namespaces(api)
        api.on(METRICS, FORBIDDEN)
        async with running(api) as process:
            await process.cycle()
            api.on(metrics_of("bank"), NO_LIST)
            await process.cycle()
            await process.cycle()
            api.on(METRICS, listing(usage()))
            await process.cycle()
            assert requests(process, "cluster", "Forbidden") == 3
            assert requests(process, "cluster", "ok") == 1
            assert requests(process, "part", "ok") == 4
            assert requests(process, "part", "DecodeError") == 2
    assert usage_lines(caplog) == [
        ("usage is read namespace by namespace", "Forbidden"),
        ("usage of some pods is missing", "Forbidden"),
        ("usage is there again", ""),
    ]


async def test_a_single_namespace_has_no_fallback() -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(metrics_of("shop"), FORBIDDEN)
        api.on(f"GET {endpoints.CHECKPOINTS.collection('shop')}", listing())
        async with running(api, vpa_object_namespace="shop") as process:
            await process.cycle()
        assert api.routes.count(metrics_of("shop")) == 1
        assert target(api) == NOTHING


async def test_an_unavailable_metrics_server_is_not_queried_for_every_namespace() -> None:
    """Otherwise hundreds of namespaces would each wait for the same error."""
    async with FakeApi() as api:
        many = [f"team-{number}" for number in range(30)]
        prepare(api, verticalpodautoscalers=[in_namespace(vpa(), namespace) for namespace in many])
        api.on(METRICS, FORBIDDEN)
        for namespace in many:
            api.on(metrics_of(namespace), FORBIDDEN)
        async with running(api, update_worker_count=2) as process:
            await process.cycle()
        assert (
            2 <= sum("/namespaces/team-" in route and "/pods" in route for route in api.routes) <= 4
        )


async def test_samples_from_before_the_fallback_are_counted_once() -> None:
    async with FakeApi() as api:
        two_namespaces(api)
        api.on(METRICS, listing(usage()), FORBIDDEN)
        api.on(metrics_of("shop"), listing(usage(at=START, cpu="9", memory="9Gi")))
        async with running(api) as process:
            await process.cycle()
            process.clock.forward(timedelta(minutes=1))
            await process.cycle()
        assert targets(api)["shop"]["cpu"] == SOME["cpu"]  # the second sample has the same time


async def test_an_invalid_value_affects_only_itself_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The first CPU sample is used although memory is invalid; later both are."""
    caplog.set_level(logging.INFO, logger="recommender.sources.usage_ingestion")
    async with FakeApi() as api:
        prepare(api)
        async with running(api) as process:
            for memory in ("much", "much", "1Gi"):
                api.on(METRICS, listing(usage(cpu="100m", memory=memory)))
                await process.cycle()
                assert target(api)["cpu"] == "126m"
    assert target(api)["memory"] == "1238659775"
    assert [
        one.message for one in caplog.records if one.name == "recommender.sources.usage_ingestion"
    ] == [
        "unreadable usage values left out",
        "no more unreadable usage values",
    ]

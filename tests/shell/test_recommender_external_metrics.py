"""Usage from external.metrics.k8s.io: a query for each pod of a VPA and each metric."""

import logging
from datetime import datetime, timedelta
from typing import Any

import pytest

from fake_api import FakeApi, Reply, status
from recommender_harness import METRICS, START, pod, prepare, running, target, written

ROOT = "GET /apis/external.metrics.k8s.io/v1beta1/namespaces/shop"
CPU, MEMORY = f"{ROOT}/used-cores", f"{ROOT}/used-bytes"
FLAGS: dict[str, Any] = {
    "use_external_metrics": True,
    "external_metrics_cpu_metric": "used-cores",
    "external_metrics_memory_metric": "used-bytes",
}
CHECKPOINT = "PATCH /apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalercheckpoints"


def values(*items: Any) -> Reply:
    kind = {"kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1"}
    return Reply(body={**kind, "metadata": {}, "items": list(items)})


def value(text: Any, *, at: datetime = START, window: Any = None, **labels: str) -> Any:
    return {
        "metricName": "used",
        "metricLabels": labels or {"name": "app"},
        "timestamp": at.isoformat(),
        "window": window,
        "value": text,
    }


async def test_external_metrics_of_every_pod_of_a_vpa() -> None:
    async with FakeApi() as api:
        prepare(api, pods=[pod(), pod("web-2"), pod("other", app="other")])
        api.on(CPU, values(value("100m")))
        api.on(MEMORY, values(value("1Gi")))
        async with running(api, **FLAGS) as process:
            await process.cycle()
            labels = {"scope": "part", "outcome": "ok"}
            assert process.sample("vpa_recommender_usage_requests_total", **labels) == 4
        assert METRICS not in api.routes
        questions = [one.query["labelSelector"] for one in api.requests if "external" in one.path]
        assert sorted(questions) == [
            *("app=web,pod=web-1", "app=web,pod=web-1"),
            *("app=web,pod=web-2", "app=web,pod=web-2"),
        ]
        assert target(api)["cpu"] == "126m"
        assert int(target(api)["memory"]) > 2**30


async def test_containers_are_distinguished_by_the_flag_s_label() -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(
            CPU,
            values(
                value("9", container="sidecar"),
                value("100m", container="app"),
                value("8", name="app"),
            ),
        )
        api.on(MEMORY, values())
        async with running(api, container_name_label="container", **FLAGS) as process:
            await process.cycle()
        assert target(api)["cpu"] == "126m"


async def test_a_resource_without_a_metric_gives_no_samples() -> None:
    """The reference feeds zeros (Q8)."""
    async with FakeApi() as api:
        prepare(api)
        api.on(CPU, values(value("100m")))
        flags = {**FLAGS, "external_metrics_memory_metric": ""}
        async with running(api, **flags) as process:
            await process.cycle()
        assert MEMORY not in api.routes
        kept = written(api, f"{CHECKPOINT}/web-app")
        assert kept["totalSamplesCount"] == 1
        assert kept["memoryHistogram"].get("totalWeight", 0) == 0


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(status(500, "InternalError"), id="an error"),
        pytest.param(status(404, "NotFound"), id="no such metric"),
        pytest.param(Reply(body="<html>"), id="no JSON"),
        pytest.param(values(7), id="no value"),
        pytest.param(values(value("much")), id="no quantity"),
    ],
)
async def test_a_failed_query_affects_no_other(reply: Reply) -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(CPU, values(value("100m")))
        api.on(MEMORY, reply)
        async with running(api, **FLAGS) as process:
            await process.cycle()
        assert target(api) == {"cpu": "126m"}


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(7, id="no object"),
        pytest.param(value("much", name="other"), id="no quantity"),
        pytest.param(value({}, name="other"), id="an object as value"),
        pytest.param({**value("1"), "timestamp": "noon"}, id="no time"),
    ],
)
async def test_an_invalid_value_of_a_list_affects_only_itself(odd: Any) -> None:
    async with FakeApi() as api:
        prepare(api)
        api.on(CPU, values(odd, value("100m")))
        api.on(MEMORY, values(value("1Gi"), odd))
        async with running(api, **FLAGS) as process:
            await process.cycle()
        assert target(api)["cpu"] == "126m"
        assert int(target(api)["memory"]) > 2**30


@pytest.mark.parametrize(
    ("window", "seconds", "cpu"),
    [
        pytest.param(30, 90, "126m", id="its window and a minute ahead"),
        pytest.param(30, 91, None, id="a second more"),
        pytest.param(3600, 660, "126m", id="a window of an hour: eleven minutes"),
        pytest.param(3600, 661, None, id="a window of an hour: a second more"),
        pytest.param(None, 120, "126m", id="no window: two minutes"),
        pytest.param(None, 121, None, id="no window: a second more"),
        pytest.param("30s", 120, "126m", id="a window that is no number: two minutes"),
    ],
)
async def test_values_from_the_future_are_left_out(
    window: Any, seconds: int, cpu: str | None
) -> None:
    async with FakeApi() as api:
        prepare(api)
        at = START + timedelta(seconds=seconds)
        api.on(CPU, values(value("100m", at=at, window=window)))
        api.on(MEMORY, values(value("1Gi")))
        async with running(api, **FLAGS) as process:
            await process.cycle()
        assert target(api).get("cpu") == cpu


async def test_failures_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="recommender.sources.usage_ingestion")
    async with FakeApi() as api:
        prepare(api)
        api.on(CPU, values(value("100m")))
        api.on(MEMORY, status(500, "InternalError"))
        async with running(api, **FLAGS) as process:
            await process.cycle()
            await process.cycle()
            api.on(MEMORY, values(value("1Gi")))
            await process.cycle()
    messages = [
        one.message for one in caplog.records if one.name == "recommender.sources.usage_ingestion"
    ]
    assert messages == ["usage of some pods is missing", "usage is there again"]


async def test_an_unreachable_server_is_not_queried_for_every_pod() -> None:
    async with FakeApi() as api:
        prepare(api, pods=[pod(f"web-{number}") for number in range(300)])
        async with running(api, **FLAGS) as process:
            await process.cycle()
        assert 100 <= sum("external" in one.path for one in api.requests) <= 110

"""The metrics of calls to the API server and of caches, against a scripted and a sandbox server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry

from common.errors import KubeError, NotFoundError, UnreachableError
from common.kube.cache import Cache
from common.kube.cache_metrics import CacheMetrics
from common.kube.client import KubeClient
from common.kube.client_metrics import ClientMetrics
from common.kube.connection import Connection
from common.kube.endpoints import PODS
from fake_api import FakeApi, Hasty, Reply, listing, named, status, watch_line
from sandbox.cluster import Cluster
from virtual_cluster import in_cluster

LIST = "GET /api/v1/pods"
WATCH = "WATCH /api/v1/pods"
EVICTION = "POST /api/v1/namespaces/shop/pods/web/eviction"


class Metrics:
    """A registry with the metrics of a client, and their values."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.client = ClientMetrics(self.registry)

    def value(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"rest_client_{name}", labels) or 0

    def requests(self, code: str, method: str, resource: str) -> float:
        return self.value("requests_total", code=code, method=method, api_resource=resource)


@contextlib.asynccontextmanager
async def connected(metrics: Metrics, port: int, *, qps: float = 0.0) -> AsyncIterator[KubeClient]:
    connection = Connection(f"http://127.0.0.1:{port}")
    async with KubeClient(
        connection, user_agent="test", qps=qps, burst=1.0, rng=Hasty(), metrics=metrics.client
    ) as client:
        yield client


async def test_every_try_of_a_request_is_counted() -> None:
    metrics = Metrics()
    async with FakeApi() as api, connected(metrics, api.port) as client:
        api.on(LIST, status(503, "ServiceUnavailable"), listing(named("a")))
        await client.list(PODS)
        with pytest.raises(NotFoundError):
            await client.get(PODS, "gone", namespace="shop")
    assert metrics.requests("503", "GET", "pods") == 1
    assert metrics.requests("200", "GET", "pods") == 1
    assert metrics.requests("404", "GET", "pods") == 1
    taken = metrics.value("request_duration_seconds_count", verb="GET", api_resource="pods")
    assert taken == 3


async def test_a_refused_eviction_is_counted_by_its_code_and_subresource() -> None:
    metrics = Metrics()
    async with FakeApi() as api, connected(metrics, api.port) as client:
        api.on(EVICTION, status(429, "TooManyRequests"))
        with pytest.raises(KubeError):
            await client.evict("shop", "web")
    assert metrics.requests("429", "POST", "pods/eviction") == 1


async def test_a_request_without_an_answer_has_the_code_of_client_go() -> None:
    metrics = Metrics()
    async with FakeApi() as api:
        api.on(EVICTION, Reply(cut=True))
        async with connected(metrics, api.port) as client:
            with pytest.raises(UnreachableError):
                await client.evict("shop", "web")
    assert metrics.requests("<error>", "POST", "pods/eviction") == 1


async def test_a_watch_counts_as_a_request_without_a_duration() -> None:
    metrics = Metrics()
    async with FakeApi() as api, connected(metrics, api.port) as client:
        api.on(WATCH, Reply(chunks=[watch_line("ADDED", named("a", 11))]))
        async with contextlib.aclosing(client.watch(PODS, resource_version="1")) as events:
            assert [event.name async for event in events] == ["a"]
    assert metrics.requests("200", "GET", "pods") == 1
    taken = metrics.value("request_duration_seconds_count", verb="GET", api_resource="pods")
    assert taken == 0


async def test_waits_for_our_rate_limit_are_measured() -> None:
    metrics = Metrics()
    async with FakeApi() as api, connected(metrics, api.port, qps=20) as client:
        api.on(LIST, listing())
        for _ in range(3):
            await client.list(PODS)
    assert metrics.value("rate_limiter_duration_seconds_count", verb="GET") == 3
    assert metrics.value("rate_limiter_duration_seconds_sum", verb="GET") > 0.05


def test_the_age_of_a_cache_grows_until_the_api_server_sends_something() -> None:
    async def main(cluster: Cluster, client: KubeClient) -> None:
        registry = CollectorRegistry()

        def age() -> float:
            labels = {"api_resource": "pods"}
            found = registry.get_sample_value("vpa_test_cache_age_seconds", labels)
            assert found is not None
            return found

        async with asyncio.TaskGroup() as group:
            cache = Cache(client, PODS, namespace="shop")
            CacheMetrics("test", registry).follow([cache])
            assert age() == 0  # before it runs
            task = group.create_task(cache.run())
            await cache.wait_synced()
            await asyncio.sleep(20)  # virtual time
            assert 15 < age() < 25
            body = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "app"}]}}
            await client.create(PODS.as_dicts(), body, namespace="shop")
            while cache.get("shop", "web") is None:  # noqa: ASYNC110 - caches have no event for it
                await asyncio.sleep(0.1)
            assert age() < 5
            await cluster.stop_api_server()
            await asyncio.sleep(600)
            assert age() > 590
            await cluster.start_api_server()
            await asyncio.sleep(120)
            assert age() < 90  # a list, and bookmarks once a minute
            task.cancel()

    in_cluster(main, scenario="namespaces: [shop]")

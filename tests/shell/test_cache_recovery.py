"""The time until caches watch again after an outage of the API server, in virtual time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from common.kube.cache import Cache
from common.kube.client import KubeClient
from common.kube.endpoints import PODS, Endpoint
from sandbox.apiserver.faults import ApiFault, Calls, Effect, Refusal
from sandbox.cluster import Cluster
from virtual_cluster import in_cluster

CACHES = 12  # of one process; by their own backoff the last would be half a minute later
FORBIDDEN = "API server unreachable, trying again until it is back"
SCENARIO = "namespaces: [shop]"
CONFIG_MAPS = Endpoint("", "v1", "configmaps", "ConfigMap", dict[str, Any])


@contextlib.asynccontextmanager
async def caches(cluster: Cluster) -> AsyncIterator[tuple[KubeClient, Sequence[Cache[Any]]]]:
    """Run caches of one client until all of them watch."""
    async with cluster.client("ours/1") as client, asyncio.TaskGroup() as group:
        made = [Cache(client, PODS, namespace="shop") for _ in range(CACHES)]
        tasks = [group.create_task(one.run()) for one in made]
        await wait_until(lambda: all(one.synced for one in made), 5)
        await asyncio.sleep(5)  # virtual time, in which the watches begin
        yield client, made
        for task in tasks:
            task.cancel()


async def wait_until(condition: Callable[[], bool], seconds: float) -> float:
    """Wait in virtual time, and return the seconds."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not condition():
        assert loop.time() - began < seconds
        await asyncio.sleep(0.1)
    return loop.time() - began


Stop = Callable[[Cluster], Awaitable[None]]


async def keep_history(cluster: Cluster) -> None:
    """Restart the API server; watches continue."""
    await cluster.start_api_server()


async def forget_history(cluster: Cluster) -> None:
    """Restart the API server without its history; caches have to list again."""
    await cluster.forget_history()


@pytest.mark.parametrize(
    "restart",
    [
        pytest.param(keep_history, id="watches continue"),
        pytest.param(forget_history, id="410: caches list again"),
    ],
)
def test_all_caches_watch_again_after_the_first_response(restart: Stop) -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        del client
        async with caches(cluster) as (ours, made):
            for away in (4, 40, 400):  # an outage doesn't prolong the next one
                await cluster.stop_api_server()
                await asyncio.sleep(away)
                assert not any(one.fresh for one in made)
                await restart(cluster)
                await wait_until(lambda: ours.reachable, 31)
                assert await wait_until(lambda: all(one.fresh for one in made), 31) < 5

    in_cluster(test, scenario=SCENARIO)


def test_caches_retry_soon_while_a_starting_server_denies_requests() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        del client
        forbidden = Effect(refuse=Refusal.FORBIDDEN)
        async with caches(cluster) as (ours, made):
            await cluster.stop_api_server()
            await asyncio.sleep(400)
            await cluster.start_api_server()
            cluster.api.faults.add(
                ApiFault(calls=Calls(user_agent="ours/*"), effect=forbidden, end=2.0)
            )
            await wait_until(lambda: ours.reachable, 31)
            assert await wait_until(lambda: all(one.fresh for one in made), 31) < 8

    in_cluster(test, scenario=SCENARIO)


def test_a_failing_watch_keeps_its_own_backoff(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The success of other watches of the process doesn't shorten its backoff."""

    async def test(cluster: Cluster, client: KubeClient) -> None:
        del client
        rule = ApiFault(calls=Calls(user_agent="ours/*", verb="watch"), effect=Effect(drop=True))
        cluster.api.faults.add(rule)
        async with cluster.client("ours/1") as ours, asyncio.TaskGroup() as group:
            cache = Cache(ours, PODS, namespace="shop")
            task = group.create_task(cache.run())
            for _ in range(600):
                await ours.list(CONFIG_MAPS, namespace="shop")
                await asyncio.sleep(1)
            task.cancel()
            assert 20 < caplog.messages.count(FORBIDDEN) < 90

    in_cluster(test, scenario=SCENARIO)

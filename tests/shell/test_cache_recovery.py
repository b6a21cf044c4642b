"""How soon caches follow again when an API server is back from an outage. In virtual time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from common.kube.cache import Cache
from common.kube.client import KubeClient
from common.kube.endpoints import PODS, Endpoint
from sandbox.apiserver.faults import ApiFault
from sandbox.cluster import Cluster
from sandbox.description import Section
from virtual_cluster import in_cluster

MANY = 12  # caches of one process; without help the last would come half a minute after the first
LOST = "API server unreachable, trying again until it is back"
SCENARIO = "namespaces: [shop]"
CONFIG_MAPS = Endpoint("", "v1", "configmaps", "ConfigMap", dict[str, Any])


@contextlib.asynccontextmanager
async def caches(cluster: Cluster) -> AsyncIterator[tuple[KubeClient, Sequence[Cache[Any]]]]:
    """Quiet caches of one client, which all follow."""
    async with cluster.client("ours/1") as client, asyncio.TaskGroup() as group:
        made = [Cache(client, PODS, namespace="shop") for _ in range(MANY)]
        tasks = [group.create_task(one.run()) for one in made]
        await until(lambda: all(one.synced for one in made), 5)
        await asyncio.sleep(5)  # virtual: the watches stand
        yield client, made
        for task in tasks:
            task.cancel()


async def until(condition: Callable[[], bool], seconds: float) -> float:
    """Wait in virtual time; how long it took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not condition():
        assert loop.time() - began < seconds
        await asyncio.sleep(0.1)
    return loop.time() - began


Stop = Callable[[Cluster], Awaitable[None]]


async def keeps_history(cluster: Cluster) -> None:
    """The watches go on where they were."""
    await cluster.start_api_server()


async def forgets(cluster: Cluster) -> None:
    """The caches have to list again."""
    await cluster.forget_history()


@pytest.mark.parametrize(
    "returns",
    [
        pytest.param(keeps_history, id="watches go on"),
        pytest.param(forgets, id="410: caches list again"),
    ],
)
def test_all_follow_again_as_soon_as_one_is_answered(returns: Stop) -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        del client
        async with caches(cluster) as (ours, made):
            for away in (4, 40, 400):  # one outage after the other: none makes the next one longer
                await cluster.stop_api_server()
                await asyncio.sleep(away)
                assert not any(one.fresh for one in made)
                await returns(cluster)
                await until(lambda: ours.reachable, 31)
                assert await until(lambda: all(one.fresh for one in made), 31) < 5

    in_cluster(test, scenario=SCENARIO)


def test_a_server_that_denies_everything_while_it_starts_is_asked_again_soon() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        del client
        rule = {"match": {"user-agent": "ours/*"}, "refuse": 403, "until": "2s"}
        async with caches(cluster) as (ours, made):
            await cluster.stop_api_server()
            await asyncio.sleep(400)
            await cluster.start_api_server()
            cluster.api.faults.add(ApiFault.parse(Section(rule, "rule")))
            await until(lambda: ours.reachable, 31)
            assert await until(lambda: all(one.fresh for one in made), 31) < 8

    in_cluster(test, scenario=SCENARIO)


def test_a_watch_that_never_gets_through_is_tried_at_its_own_pace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Others of the process are answered all the time: that is no reason to hurry."""

    async def test(cluster: Cluster, client: KubeClient) -> None:
        del client
        rule = {"match": {"user-agent": "ours/*", "verb": "watch"}, "drop": True}
        cluster.api.faults.add(ApiFault.parse(Section(rule, "rule")))
        async with cluster.client("ours/1") as ours, asyncio.TaskGroup() as group:
            cache = Cache(ours, PODS, namespace="shop")
            task = group.create_task(cache.run())
            for _ in range(600):
                await ours.list(CONFIG_MAPS, namespace="shop")
                await asyncio.sleep(1)
            task.cancel()
            assert 20 < caplog.messages.count(LOST) < 90

    in_cluster(test, scenario=SCENARIO)

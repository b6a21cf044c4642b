"""Scale subresources that come late: who gives up waiting, and who asks next."""

import asyncio

import pytest
from robots import ROBOTS, define_robots, robot

from common.kube.client import KubeClient
from common.kube.scales import ScaleFound, Scales
from common.target.owners import Controller, Found, Unknown
from fake_api import until
from sandbox.apiserver.faults import ApiFault, Calls, Effect
from sandbox.cluster import Cluster, running_cluster
from sandbox.scenario import parse_scenario

MARVIN = Controller("default", "Robot", "marvin", "example.com/v1")
DELAY = 0.3  # seconds


async def prepare(cluster: Cluster, client: KubeClient) -> None:
    """A robot whose scale takes its time."""
    await define_robots(client)
    await client.create(ROBOTS, robot("marvin", replicas=1), namespace="default")
    slow = ApiFault(calls=Calls(resource="robots/scale"), effect=Effect(delay=DELAY))
    cluster.api.faults.add(slow)


async def test_an_answer_for_which_nobody_waits_any_longer_is_remembered() -> None:
    async with (
        running_cluster(parse_scenario("nodes: []")) as cluster,
        cluster.client("test") as client,
    ):
        await prepare(cluster, client)
        scales = Scales(client)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(DELAY / 3):
                await scales.fetch(MARVIN)
        assert scales.answer(MARVIN) == Unknown()
        await until(lambda: isinstance(scales.answer(MARVIN), Found))
        assert len(cluster.audit(resource="robots", subresource="scale")) == 1


async def test_those_who_ask_at_the_same_time_share_one_question() -> None:
    async with (
        running_cluster(parse_scenario("nodes: []")) as cluster,
        cluster.client("test") as client,
    ):
        await prepare(cluster, client)
        scales = Scales(client)
        impatient = asyncio.create_task(scales.fetch(MARVIN))
        others = [asyncio.create_task(scales.fetch(MARVIN)) for _ in range(3)]
        await asyncio.sleep(0)
        impatient.cancel()
        answers = await asyncio.gather(*others)
        assert answers == [ScaleFound()] * 3
        assert len(cluster.audit(resource="robots", subresource="scale")) == 1

"""The recommender waits at its start for what bounds targets: nodes, autoscalers and quotas."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import yaml
from prometheus_client import CollectorRegistry

from common.kube.client import KubeClient
from common.runtime.object_errors import ObjectErrors
from recommender.nodes.autoscalers import Autoscalers
from recommender.sources.informers import Informers
from sandbox.apiserver.faults import ApiFault, Calls, Effect, Refusal
from sandbox.cluster import Cluster
from sandbox_client import CRDS
from virtual_cluster import Test, in_cluster
from workloads import DEFINITIONS

ONE_NODE = "nodes: [{name: n1, cpu: '4', memory: 16Gi}]"
OPTIONAL = ("nodes", "nodepools", "configmaps", "resourcequotas")
UNKNOWN = "the first cycle starts without these resources"


def refuse(cluster: Cluster, refusal: Refusal, *resources: str) -> list[ApiFault]:
    faults = [
        ApiFault(calls=Calls(resource=each, user_agent="test/*"), effect=Effect(refuse=refusal))
        for each in resources
    ]
    for fault in faults:
        cluster.api.faults.add(fault)
    return faults


def in_ready_cluster(test: Test) -> None:
    """Run a test in a cluster with one node, which serves VPAs."""

    async def main(cluster: Cluster, client: KubeClient) -> None:
        for definition in CRDS.glob("verticalpod*.yaml"):
            await client.create(DEFINITIONS, yaml.safe_load(definition.read_text()))
        async with asyncio.timeout(3600):
            await test(cluster, client)

    in_cluster(main, scenario=ONE_NODE)


@asynccontextmanager
async def following(client: KubeClient) -> AsyncIterator[Informers]:
    errors = ObjectErrors("recommender", CollectorRegistry())
    informers = Informers(client, namespace="", errors=errors, with_quotas=True)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run()) for run in informers.background]
        yield informers
        for task in tasks:
            task.cancel()


async def seconds_until_synced(informers: Informers) -> float:
    loop = asyncio.get_running_loop()
    started = loop.time()
    await informers.wait_synced()
    return loop.time() - started


def lines(caplog: pytest.LogCaptureFixture) -> list[list[str]]:
    """Return the resources in the lines about what is unknown."""
    return [each.__dict__["resources"] for each in caplog.records if each.message == UNKNOWN]


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(None, id="everything is answered"),
        pytest.param(Refusal.FORBIDDEN, id="nothing may be read"),
    ],
)
def test_answers_end_the_wait(refusal: Refusal | None, caplog: pytest.LogCaptureFixture) -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        if refusal is not None:
            refuse(cluster, refusal, *OPTIONAL)
        async with following(client) as informers:
            assert await seconds_until_synced(informers) < 5
            facts = informers.node_facts()
        if refusal is None:
            assert facts.autoscalers == Autoscalers(reports=False, node_pools=())
            assert set(facts.nodes or ()) == {"n1-0"}
        else:
            assert (facts.nodes, facts.autoscalers) == (None, Autoscalers())

    in_ready_cluster(test)
    assert lines(caplog) == []


@pytest.mark.parametrize("resource", OPTIONAL)
def test_a_failure_delays_the_first_cycle(resource: str, caplog: pytest.LogCaptureFixture) -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        fault = ApiFault(
            calls=Calls(resource=resource, user_agent="test/*"),
            effect=Effect(refuse=Refusal.UNAVAILABLE),
        )
        end = cluster.api.faults.add(fault)
        asyncio.get_running_loop().call_later(20, end)
        async with following(client) as informers:
            assert 20 <= await seconds_until_synced(informers) < 60
            facts = informers.node_facts()
        assert facts.autoscalers == Autoscalers(reports=False, node_pools=())
        assert set(facts.nodes or ()) == {"n1-0"}

    in_ready_cluster(test)
    assert lines(caplog) == []


def test_after_a_minute_the_first_cycle_starts_without_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        refuse(cluster, Refusal.UNAVAILABLE, *OPTIONAL)
        async with following(client) as informers:
            assert 60 <= await seconds_until_synced(informers) < 65
            facts = informers.node_facts()
        assert (facts.nodes, facts.autoscalers) == (None, Autoscalers())

    with caplog.at_level(logging.WARNING):
        in_ready_cluster(test)
    assert lines(caplog) == [["cluster-autoscaler-status", "nodepools", "nodes", "resourcequotas"]]


AGES = [pytest.param(590, True, id="below"), pytest.param(610, False, id="above")]


@pytest.mark.parametrize(("seconds", "counts"), AGES)
def test_nodes_that_can_not_be_read_any_more_count_for_ten_minutes(
    seconds: float, *, counts: bool
) -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        async with following(client) as informers:
            await informers.wait_synced()
            refuse(cluster, Refusal.FORBIDDEN, "nodes")
            await asyncio.sleep(600)  # a watch has ended, and can't begin again
            assert not informers.nodes.fresh
            await asyncio.sleep(seconds - informers.nodes.age())
            assert (informers.node_facts().nodes is not None) is counts

    in_ready_cluster(test)

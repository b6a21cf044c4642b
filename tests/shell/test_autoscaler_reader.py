"""What is visible of autoscalers of nodes, read from a sandbox cluster."""

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest

from common.kube.client import KubeClient
from common.kube.node_autoscalers import CONFIG_MAPS, NODE_POOLS
from recommender.nodes.autoscalers import Autoscalers
from recommender.nodes.node_pools import NodePool, UnreadPool
from recommender.sources.autoscaler_reader import AutoscalerReader
from sandbox.apiserver.faults import ApiFault, Calls, Effect, Refusal
from sandbox.cluster import Cluster
from virtual_cluster import in_cluster
from workloads import DEFINITIONS

POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "general"},
    "spec": {"template": {"spec": {}}, "limits": {"cpu": "100"}},
}
STATUS = {"metadata": {"name": "cluster-autoscaler-status"}, "data": {"status": "time: now"}}


async def make_pools(client: KubeClient, *pools: Any, version: str = "v1") -> None:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True}
    definition = {
        "metadata": {"name": "nodepools.karpenter.sh"},
        "spec": {
            "group": "karpenter.sh",
            "scope": "Cluster",
            "names": {"plural": "nodepools", "singular": "nodepool", "kind": "NodePool"},
            "versions": [{**served, "schema": {"openAPIV3Schema": anything}}],
        },
    }
    await client.create(DEFINITIONS, definition)
    endpoint = replace(NODE_POOLS, version=version)
    for pool in pools:
        await client.create(endpoint, {**pool, "apiVersion": f"karpenter.sh/{version}"})


async def make_status(client: KubeClient) -> None:
    await client.create(CONFIG_MAPS.as_dicts(), STATUS, namespace="kube-system")


def names(pools: tuple[NodePool | UnreadPool, ...] | None) -> list[str] | None:
    """Return the names of the pools, with a question mark if one can't be decoded."""
    if pools is None:
        return None
    return [
        f"{pool.name}?" if isinstance(pool, UnreadPool) else pool.metadata.name for pool in pools
    ]


def test_autoscalers_that_come_later_are_seen() -> None:
    async def test(_: Cluster, client: KubeClient) -> None:
        reader = AutoscalerReader(client)
        assert reader.known == Autoscalers(reports=None, node_pools=None)
        await reader.read()
        assert reader.known == Autoscalers(reports=False, node_pools=())
        await make_pools(client, POOL)
        await make_status(client)
        await reader.read()
        assert reader.known.reports is True
        assert names(reader.known.node_pools) == ["general"]
        (pool,) = reader.known.node_pools or ()
        assert isinstance(pool, NodePool)
        assert pool.spec.limits == {"cpu": "100"}

    in_cluster(test, scenario="nodes: []")


ODD = {**POOL, "metadata": {"name": "odd"}, "spec": {"template": "none"}}

POOLS = [
    pytest.param("v1", (), [], id="Karpenter without a NodePool"),
    pytest.param("v1", (POOL, ODD), ["general", "odd?"], id="a NodePool that can't be decoded"),
    pytest.param("v1beta1", (POOL,), None, id="NodePools of an older version are unknown"),
    pytest.param("v1beta1", (), [], id="an older version without a NodePool"),
]


@pytest.mark.parametrize(("version", "pools", "want"), POOLS)
def test_node_pools(version: str, pools: tuple[Any, ...], want: list[str] | None) -> None:
    async def test(_: Cluster, client: KubeClient) -> None:
        await make_pools(client, *pools, version=version)
        reader = AutoscalerReader(client)
        await reader.read()
        assert names(reader.known.node_pools) == want
        assert reader.unanswered == frozenset()

    in_cluster(test, scenario="nodes: []")


@pytest.mark.parametrize("resource", ["nodepools", "configmaps"])
def test_it_is_read_each_second_until_it_is_answered(
    resource: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        effect = Effect(refuse=Refusal.UNAVAILABLE)
        end = cluster.api.faults.add(ApiFault(calls=Calls(resource=resource), effect=effect))
        reader = AutoscalerReader(client)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(reader.run())
            await asyncio.sleep(20)
            assert len(reader.unanswered) == 1
            end()
            async with asyncio.timeout(10):
                await reader.wait_answered()
            task.cancel()
        assert reader.known == Autoscalers(reports=False, node_pools=())

    with caplog.at_level(logging.WARNING, "recommender"):
        in_cluster(test, scenario="nodes: []")
    assert [each.message for each in caplog.records] == [
        "autoscalers of nodes not read yet, trying again"
    ]


REFUSALS = [
    pytest.param(Refusal.FORBIDDEN, Autoscalers(), id="without permission they are unknown"),
    pytest.param(
        Refusal.UNAVAILABLE,
        Autoscalers(reports=False, node_pools=()),
        id="after another error they stay",
    ),
]


@pytest.mark.parametrize(("refusal", "want"), REFUSALS)
def test_refused_reads(
    refusal: Refusal, want: Autoscalers, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        reader = AutoscalerReader(client)
        await reader.read()
        for resource in ("nodepools", "configmaps"):
            calls = Calls(resource=resource)
            cluster.api.faults.add(ApiFault(calls=calls, effect=Effect(refuse=refusal)))
        for _ in range(3):
            await reader.read()
        assert reader.known == want

    with caplog.at_level(logging.WARNING, "recommender"):
        in_cluster(test, scenario="nodes: []")
    logged = [record.__dict__["resource"] for record in caplog.records]
    assert logged == ["nodepools", "cluster-autoscaler-status"], "once for each"

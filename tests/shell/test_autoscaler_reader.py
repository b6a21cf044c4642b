"""What is visible of autoscalers of nodes, read from a sandbox cluster."""

import logging

import pytest

from common.kube.client import KubeClient
from recommender.nodes.autoscalers import Autoscalers
from recommender.nodes.node_pools import NodePool
from recommender.sources.autoscaler_reader import CONFIG_MAPS, NODE_POOLS, AutoscalerReader
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


async def make_pools(client: KubeClient) -> None:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True}
    definition = {
        "metadata": {"name": "nodepools.karpenter.sh"},
        "spec": {
            "group": "karpenter.sh",
            "scope": "Cluster",
            "names": {"plural": "nodepools", "singular": "nodepool", "kind": "NodePool"},
            "versions": [{**version, "schema": {"openAPIV3Schema": anything}}],
        },
    }
    await client.create(DEFINITIONS, definition)
    await client.create(NODE_POOLS.as_dicts(), POOL)


async def make_status(client: KubeClient) -> None:
    await client.create(CONFIG_MAPS.as_dicts(), STATUS, namespace="kube-system")


def names(pools: tuple[NodePool, ...] | None) -> list[str] | None:
    return None if pools is None else [pool.metadata.name for pool in pools]


def test_autoscalers_that_come_later_are_seen() -> None:
    async def test(_: Cluster, client: KubeClient) -> None:
        reader = AutoscalerReader(client)
        assert reader.known == Autoscalers(reports=None, node_pools=None)
        await reader.read()
        assert reader.known == Autoscalers(reports=False, node_pools=())
        await make_pools(client)
        await make_status(client)
        await reader.read()
        assert reader.known.reports is True
        assert names(reader.known.node_pools) == ["general"]
        (pool,) = reader.known.node_pools or ()
        assert pool.spec.limits == {"cpu": "100"}

    in_cluster(test, scenario="nodes: []")


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

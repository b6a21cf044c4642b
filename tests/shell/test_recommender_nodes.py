"""Targets are lowered so that the pod of a recommendation fits a node."""

import logging
from typing import Any

import pytest

from common.kube import endpoints
from common.kube.node_autoscalers import NODE_POOLS
from common.kube.watch import WatchProtocol
from fake_api import FakeApi, Reply, listing, named, status, watch_line
from recommender.nodes.cached_node import CachedNode
from recommender.nodes.cap_mode import CAP_ANNOTATION, CapMode
from recommender.nodes.node_shapes import DEPARTURE
from recommender.nodes.shape_flag import parse_shape
from recommender_harness import (
    METRICS,
    WEB,
    Running,
    conditions,
    deployment,
    node,
    pod,
    prepare,
    running,
    target,
    usage,
    vpa,
    written,
)

NODES = f"GET {endpoints.NODES.collection()}"
POOLS = f"GET {NODE_POOLS.collection()}"
STATUS = "GET /api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
SMALL = node("small", cpu="2", memory="4Gi")
NO_NODE = (
    "The node selector, the required node affinity and the tolerations of its pods match no known "
    "node. So the target stays."
)


def prepare_large(api: FakeApi, *nodes: Any, **objects: Any) -> None:
    """Prepare a pod that uses 8 cores and 200Mi."""
    prepare(api, nodes=list(nodes), **objects)
    api.on(METRICS, listing(usage(cpu="8", memory="200Mi")))
    for route in (POOLS, STATUS):
        api.on(route, status(404, "NotFound"))


def change(process: Running, kind: str, found: Any, version: int) -> None:
    found["metadata"]["resourceVersion"] = str(version)
    feed = WatchProtocol(CachedNode, resource_version="1").feed
    process.informers.nodes._apply(next(feed(watch_line(kind, found))))


async def test_a_target_above_all_nodes_is_capped() -> None:
    async with FakeApi() as api:
        prepare_large(api, SMALL)
        async with running(api) as process:
            await process.cycle()
        (found,) = written(api)["recommendation"]["containerRecommendations"]
        assert found["target"]["cpu"] == "2"
        assert found["upperBound"]["cpu"] == "100G", "pods that run keep their range"
        assert found["uncappedTarget"]["cpu"] == "9616m"
        assert conditions(api)["CappedByNodes"] == (
            "app: the target is lowered, so that a pod fits. The best node that its pods may run "
            "on has room for 2 CPU and 4Gi memory beside DaemonSets."
        )


async def test_static_pods_take_room_on_their_node() -> None:
    proxy = named("kube-proxy-small", namespace="kube-system", status={"phase": "Running"})
    proxy["metadata"]["ownerReferences"] = [{"kind": "Node", "name": "small"}]
    container = {"name": "proxy", "resources": {"requests": {"cpu": "100m"}}}
    proxy["spec"] = {"nodeName": "small", "containers": [container]}
    async with FakeApi() as api:
        prepare_large(api, SMALL, pods=[pod(), proxy])
        async with running(api) as process:
            await process.cycle()
        assert target(api)["cpu"] == "1900m"


async def test_a_larger_node_ends_the_cap_and_its_condition() -> None:
    async with FakeApi() as api:
        prepare_large(api, SMALL)
        async with running(api) as process:
            await process.cycle()
            assert target(api)["cpu"] == "2"
            change(process, "ADDED", node("large", cpu="16", memory="64Gi"), 2)
            await process.cycle()
            assert target(api)["cpu"] == "9616m"
            assert "CappedByNodes" not in conditions(api)


async def test_a_node_that_has_gone_may_come_back_for_half_an_hour() -> None:
    large = node("large", cpu="16", memory="64Gi")
    async with FakeApi() as api:
        prepare_large(api, SMALL, large)
        async with running(api) as process:
            await process.cycle()
            assert "ExceedsKnownNodes" not in conditions(api)
            change(process, "DELETED", large, 3)
            await process.cycle()
            assert target(api)["cpu"] == "9616m"
            assert conditions(api)["ExceedsKnownNodes"] == (
                "The pod of the target fits no known node. The best node that its pods may run on "
                "has room for 2 CPU and 4Gi memory beside DaemonSets. A node was there until 12:00 "
                "UTC and may come back, so it stays."
            )
            process.clock.forward(DEPARTURE)
            await process.cycle()
            assert target(api)["cpu"] == "2"
            assert "ExceedsKnownNodes" not in conditions(api)


async def test_pods_that_may_run_on_no_node_keep_their_target() -> None:
    selected = pod()
    selected["spec"]["nodeSelector"] = {"disk": "ssd"}
    async with FakeApi() as api:
        prepare_large(api, SMALL, pods=[selected])
        async with running(api) as process:
            await process.cycle()
        assert target(api)["cpu"] == "9616m"
        assert conditions(api)["ExceedsKnownNodes"] == NO_NODE


async def test_the_template_counts_without_pods() -> None:
    made, selected = deployment(), pod()
    made["spec"]["template"] = {"spec": {"containers": [{"name": "app"}]}}
    selected["spec"]["nodeSelector"] = {"disk": "ssd"}
    async with FakeApi() as api:
        prepare_large(api, SMALL, pods=[selected], deployments=[made])
        async with running(api) as process:
            await process.cycle()
            assert conditions(api)["ExceedsKnownNodes"] == NO_NODE
            feed = WatchProtocol(process.informers.pods.endpoint.type, resource_version="1").feed
            selected["metadata"]["resourceVersion"] = "2"
            process.informers.pods._apply(next(feed(watch_line("DELETED", selected))))
            await process.cycle()
        assert target(api)["cpu"] == "2"


SELECTING = [
    pytest.param({"pool": "small"}, "2", id="another node: its pods are Pending"),
    pytest.param({"pool": "large"}, "9616m", id="the same node"),
    pytest.param({}, "9616m", id="none, and admission may have added that of the pod"),
]


@pytest.mark.parametrize(("selector", "cpu"), SELECTING)
async def test_the_rules_of_a_new_template_count_before_its_pods_run(
    selector: dict[str, str], cpu: str
) -> None:
    large, small = node("large", cpu="16", memory="64Gi"), node("small", cpu="2", memory="4Gi")
    large["metadata"]["labels"], small["metadata"]["labels"] = {"pool": "large"}, {"pool": "small"}
    old, made = pod(), deployment()
    old["spec"]["nodeSelector"] = {"pool": "large"}
    made["spec"]["template"] = {"spec": {"containers": [{"name": "app"}], "nodeSelector": selector}}
    async with FakeApi() as api:
        prepare_large(api, large, small, pods=[old], deployments=[made])
        async with running(api) as process:
            await process.cycle()
        assert target(api)["cpu"] == cpu


async def test_an_autoscaler_may_make_a_larger_node() -> None:
    async with FakeApi() as api:
        prepare_large(api, SMALL)
        api.on(STATUS, Reply(body=named("cluster-autoscaler-status", namespace="kube-system")))
        async with running(api) as process:
            await process.cycle()
        assert target(api)["cpu"] == "9616m"
        assert conditions(api)["ExceedsKnownNodes"] == (
            "The pod of the target fits no known node. The best node that its pods may run on has "
            "room for 2 CPU and 4Gi memory beside DaemonSets. A cluster "
            "autoscaler reports in the ConfigMap kube-system/cluster-autoscaler-status, and it may "
            "make a larger node, so it stays."
        )


async def test_a_shape_of_the_command_line_is_the_largest_node_of_an_autoscaler() -> None:
    async with FakeApi() as api:
        prepare_large(api, SMALL)
        api.on(STATUS, Reply(body=named("cluster-autoscaler-status", namespace="kube-system")))
        async with running(api, node_shapes=(parse_shape("cpu=6,memory=8Gi"),)) as process:
            await process.cycle()
        assert target(api)["cpu"] == "6"
        assert "of --node-shape=cpu=6,memory=8Gi, has room" in conditions(api)["CappedByNodes"]


async def test_node_pools_bound_the_nodes_of_karpenter() -> None:
    requirements = [
        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["4", "8"]},
        {"key": "karpenter.k8s.aws/instance-memory", "operator": "Lt", "values": ["65537"]},
    ]
    pool = named("general", spec={"template": {"spec": {"requirements": requirements}}})
    async with FakeApi() as api:
        prepare_large(api, SMALL)
        api.on(POOLS, listing(pool))
        async with running(api) as process:
            await process.cycle()
        assert target(api)["cpu"] == "7910m"
        assert "which NodePool general could make" in conditions(api)["CappedByNodes"]


MODES = [
    pytest.param(CapMode.NEVER, None, "9616m", id="never"),
    pytest.param(CapMode.NEVER, "auto", "2", id="never, and the annotation auto"),
    pytest.param(CapMode.AUTO, "never", "9616m", id="auto, and the annotation never"),
    pytest.param(CapMode.AUTO, "sometimes", "2", id="auto, and an invalid annotation"),
]


@pytest.mark.parametrize(("mode", "annotation", "cpu"), MODES)
async def test_the_annotation_overrides_the_flag(
    mode: CapMode, annotation: str | None, cpu: str
) -> None:
    one = vpa()
    one["metadata"]["annotations"] = {} if annotation is None else {CAP_ANNOTATION: annotation}
    async with FakeApi() as api:
        prepare_large(api, SMALL, verticalpodautoscalers=[one])
        async with running(api, cap_to_nodes=mode) as process:
            await process.cycle()
        assert target(api)["cpu"] == cpu


async def test_without_permission_nothing_is_capped_and_one_line_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeApi() as api:
        prepare_large(api, SMALL)
        api.on(NODES, status(403, "Forbidden"))
        with caplog.at_level(logging.WARNING):
            async with running(api) as process:
                await process.cycle()
                await api.asked(NODES, 2)
        assert target(api)["cpu"] == "9616m"
        found = [each for each in caplog.records if each.__dict__.get("resource") == "nodes"]
        assert [each.levelname for each in found] == ["WARNING"]
        assert {"CappedByNodes", "ExceedsKnownNodes"}.isdisjoint(conditions(api))


async def test_a_status_with_a_cap_is_written_once() -> None:
    one = vpa()
    async with FakeApi() as api:
        prepare_large(api, SMALL, verticalpodautoscalers=[one])
        async with running(api) as process:
            await process.cycle()
            one["status"] = written(api)
            one["metadata"]["resourceVersion"] = "2"
            feed = WatchProtocol(process.informers.vpas.endpoint.type, resource_version="1").feed
            process.informers.vpas._apply(next(feed(watch_line("MODIFIED", one))))
            for version in range(3, 6):
                change(process, "MODIFIED", node("small", cpu="2", memory="4Gi"), version)
                await process.cycle()
        assert api.routes.count(WEB) == 1

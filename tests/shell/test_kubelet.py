"""The sandbox's kubelets, in virtual time."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from common.errors import ForbiddenError, NotFoundError
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import EVENTS, LEASES, NODES, POD_METRICS, PODS
from sandbox.cluster import Cluster
from sandbox.kubelet.pod_resources import Totals
from virtual_cluster import in_cluster

PODS_AS_DICTS = PODS.as_dicts()
SCENARIO = """
nodes: [{name: node, count: 2, cpu: 2, memory: 4Gi}]
namespaces: [shop]
usage:
  - {match: {labels: {app: web}}, cpu: 30m, memory: 60Mi}
  - match: {labels: {app: leaker}}
    memory: {runs: [{leak: {from: 10Mi, rate: 10Mi, until: 1Gi}}, 50Mi]}
"""


async def create(client: KubeClient, name: str, *, node: str = "node-0", **spec: Any) -> None:
    container = {
        "name": "app",
        "image": "shop:1",
        "resources": {
            "requests": {"cpu": "100m", "memory": "100Mi"},
            "limits": {"memory": "200Mi"},
        },
    }
    body = {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"nodeName": node, "containers": [container], **spec},
    }
    await client.create(PODS_AS_DICTS, body, namespace="shop")


async def get_pod(client: KubeClient, name: str) -> dict[str, Any]:
    return await client.get(PODS_AS_DICTS, name, namespace="shop")


async def resize(client: KubeClient, name: str, cpu: str) -> None:
    change = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": cpu}}}]}}
    await client.patch(
        PODS_AS_DICTS,
        name,
        change,
        patch_type=PatchType.STRATEGIC,
        namespace="shop",
        subresource="resize",
    )


def condition(get_pod: dict[str, Any], kind: str) -> dict[str, Any]:
    found = [one for one in get_pod["status"].get("conditions", ()) if one["type"] == kind]
    return found[0] if found else {}


def actual_cpu(get_pod: dict[str, Any]) -> str:
    cpu: str = get_pod["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"]
    return cpu


def test_nodes_are_registered_and_send_heartbeats() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        node = await client.get(NODES, "node-1")
        assert node["metadata"]["labels"]["kubernetes.io/os"] == "linux"
        assert node["status"]["allocatable"]["cpu"] == "2"
        assert node["status"]["allocatable"]["memory"] == "4194304Ki"
        ready = [one for one in node["status"]["conditions"] if one["type"] == "Ready"]
        assert ready[0]["status"] == "True"
        await asyncio.sleep(3600)
        lease = await client.get(LEASES, "node-1", namespace="kube-node-lease")
        assert lease.spec.renew_time is not None
        assert cluster.clock.now() - lease.spec.renew_time < timedelta(seconds=11)
        cluster.kubelets.freeze("node-1")
        await asyncio.sleep(60)
        lease = await client.get(LEASES, "node-1", namespace="kube-node-lease")
        assert lease.spec.renew_time is not None
        assert cluster.clock.now() - lease.spec.renew_time > timedelta(seconds=59)

    in_cluster(test, scenario=SCENARIO)


def test_a_pod_is_started_measured_resized_and_deleted() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        await create(client, "web")
        await asyncio.sleep(0.5)
        assert (await get_pod(client, "web"))["status"]["phase"] == "Pending"
        await asyncio.sleep(2)
        found = await get_pod(client, "web")
        assert found["status"]["phase"] == "Running"
        assert condition(found, "Ready")["status"] == "True"
        assert found["status"]["qosClass"] == "Burstable"
        await asyncio.sleep(30)
        (metrics,) = (await client.list(POD_METRICS, namespace="shop")).items
        assert metrics.containers is not None
        assert metrics.containers[0].usage == {"cpu": "30000000n", "memory": "61440Ki"}

        await resize(client, "web", "300m")
        assert (await get_pod(client, "web"))["metadata"]["generation"] == 2
        await asyncio.sleep(2)
        found = await get_pod(client, "web")
        assert actual_cpu(found) == "300m"
        assert found["status"]["observedGeneration"] == 2
        assert not condition(found, "PodResizeInProgress")

        await client.delete(PODS, "web", namespace="shop")
        await asyncio.sleep(0.5)
        assert (await get_pod(client, "web"))["metadata"]["deletionTimestamp"]
        await asyncio.sleep(2)
        try:
            await get_pod(client, "web")
        except NotFoundError:
            return
        raise AssertionError("the pod is still there")

    in_cluster(test, scenario=SCENARIO)


def test_resizes_without_room_are_deferred() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        await create(client, "web")
        await create(client, "other")
        await asyncio.sleep(3)
        await resize(client, "other", "1500m")
        await asyncio.sleep(3)
        await resize(client, "web", "800m")
        await asyncio.sleep(3)
        found = await get_pod(client, "web")
        pending = condition(found, "PodResizePending")
        assert (pending["reason"], pending["observedGeneration"]) == ("Deferred", 2)
        assert actual_cpu(found) == "100m"
        await client.delete(PODS, "other", namespace="shop")
        await asyncio.sleep(5)
        found = await get_pod(client, "web")
        assert actual_cpu(found) == "800m"
        assert not condition(found, "PodResizePending")
        events = await client.list(EVENTS, namespace="shop")
        reasons = [one.reason for one in events.items if one.involved_object.name == "web"]
        for reason in ("Started", "ResizeDeferred", "ResizeStarted", "ResizeCompleted"):
            assert reasons.count(reason) == 1, reasons

    in_cluster(test, scenario=SCENARIO)


@pytest.mark.parametrize("version", ["1.35", "1.36"])
def test_a_node_that_shrank_refuses_a_decrease_that_is_still_too_large(version: str) -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        await create(client, "web")
        await asyncio.sleep(5)
        await resize(client, "web", "900m")
        await asyncio.sleep(5)
        shape = cluster.kubelets.nodes["node-0"].shape
        await cluster.kubelets.reshape(replace(shape, capacity=Totals(500, 4 * 1024**3)))
        if version == "1.36":
            with pytest.raises(ForbiddenError) as caught:
                await resize(client, "web", "700m")
            assert [cause.reason for cause in caught.value.causes] == ["NodeCapacity"]
            return
        await resize(client, "web", "700m")
        await asyncio.sleep(5)
        assert condition(await get_pod(client, "web"), "PodResizePending")["reason"] == "Infeasible"

    in_cluster(test, scenario=f'{SCENARIO}kubernetes-version: "{version}"')


@pytest.mark.parametrize("hours", [-4, 4], ids=["back", "forward"])
def test_a_clock_jump_changes_no_duration(hours: int) -> None:
    """The durations of a pod's changes stay the same; only timestamps change."""
    timing = "timing: {start-delay: 10s, ready-delay: 10s, resize-delay: 10s, stop-delay: 10s}"

    async def test(cluster: Cluster, client: KubeClient) -> None:
        async def seen_after(*seconds: float) -> list[Any]:
            """Return the state after each wait; the clock jumps during the first."""
            states = []
            for place, wait in enumerate(seconds):
                if place == 0:
                    cluster.clock.jump(timedelta(hours=hours))
                    await create(client, f"noise-{len(cluster.audit())}")  # wakes the kubelet
                await asyncio.sleep(wait)
                states.append(await state())
            return states

        async def state() -> Any:
            try:
                found = await get_pod(client, "web")
            except NotFoundError:
                return "gone"
            if not found["status"].get("containerStatuses"):
                return "Pending"
            if condition(found, "PodResizeInProgress"):
                return "resizing"
            ready = condition(found, "Ready")["status"] == "True"
            return "Ready" if ready else found["status"]["phase"]

        await create(client, "web")
        await asyncio.sleep(5)
        assert await seen_after(3, 4, 4, 6) == ["Pending", "Running", "Running", "Ready"]
        await resize(client, "web", "300m")
        await asyncio.sleep(5)
        assert await seen_after(3, 4) == ["resizing", "Ready"]
        assert actual_cpu(await get_pod(client, "web")) == "300m"
        await client.delete(PODS, "web", namespace="shop")
        await asyncio.sleep(5)
        assert await seen_after(3, 4) == ["Ready", "gone"]

    in_cluster(test, scenario=SCENARIO + timing)


def test_a_node_that_is_deleted_leaves_its_pods_without_resizes() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        await create(client, "web")
        await asyncio.sleep(5)
        cluster.kubelets.freeze("node-0")
        await client.delete(NODES, "node-0")
        with pytest.raises(ForbiddenError) as caught:
            await resize(client, "web", "200m")
        assert str(caught.value) == 'pods "web" is forbidden: node "node-0" not found'
        assert not caught.value.causes

    in_cluster(test, scenario=SCENARIO)


def test_an_oom_kill_shows_in_the_status() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        await create(client, "leaker")
        await asyncio.sleep(300)
        found = await get_pod(client, "leaker")
        (status,) = found["status"]["containerStatuses"]
        assert status["restartCount"] == 1
        assert status["lastState"]["terminated"]["reason"] == "OOMKilled"
        assert status["lastState"]["terminated"]["exitCode"] == 137
        assert "running" in status["state"]

    in_cluster(test, scenario=SCENARIO)


def test_many_pods_start_together_with_two_writes_each() -> None:
    scenario = "nodes: [{count: 10, cpu: 64, memory: 256Gi}]\nnamespaces: [shop]"

    async def test(cluster: Cluster, client: KubeClient) -> None:
        await asyncio.gather(
            *(create(client, f"web-{n}", node=f"node-{n % 10}") for n in range(200))
        )
        await asyncio.sleep(10)
        listing = await client.list(PODS, namespace="shop")
        assert {one.status.phase for one in listing.items} == {"Running"}
        addresses = {run.ip for node in cluster.kubelets.nodes.values() for run in node.running}
        assert len(addresses) == 200
        writes = cluster.audit(verb="patch", resource="pods", subresource="status")
        assert len(writes) == 400

    in_cluster(test, scenario=scenario)


def test_a_stopped_kubelet_has_no_metrics_and_continues_later() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        await create(client, "web")
        await asyncio.sleep(60)
        cluster.kubelets.freeze("node-0")
        await resize(client, "web", "300m")
        await asyncio.sleep(60)
        assert actual_cpu(await get_pod(client, "web")) == "100m"
        assert not (await client.list(POD_METRICS, namespace="shop")).items
        cluster.kubelets.thaw("node-0")
        await asyncio.sleep(60)
        assert actual_cpu(await get_pod(client, "web")) == "300m"
        assert (await client.list(POD_METRICS, namespace="shop")).items

    in_cluster(test, scenario=SCENARIO)

"""The sandbox's controllers and scheduler, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from common.errors import TooManyRequestsError
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import DAEMON_SETS, DEPLOYMENTS, PODS, REPLICA_SETS, STATEFUL_SETS
from common.kube.endpoints import EVENTS as EVENT_OBJECTS
from sandbox.cluster import Cluster
from sandbox.controllers.view import BUDGETS, QUOTAS
from virtual_cluster import in_cluster

Json = dict[str, Any]

SCENARIO = """
nodes: [{name: node, count: 2, cpu: 2, memory: 4Gi}]
namespaces: [shop]
"""


async def wait_until(check: Callable[[], Awaitable[bool]], *, within: timedelta) -> None:
    """Wait in virtual time until ``check`` holds."""
    async with asyncio.timeout(within.total_seconds()):
        while not await check():  # noqa: ASYNC110 - virtual time costs nothing
            await asyncio.sleep(0.5)


MINUTES = timedelta(minutes=10)


def workload(kind: str, name: str, *, cpu: str = "100m", **spec: Any) -> Json:
    container = {"name": "app", "image": "shop:1", "resources": {"requests": {"cpu": cpu}}}
    return {
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container]},
            },
            **spec,
        },
    }


async def pods(client: KubeClient, app: str) -> list[Json]:
    listing = await client.list(PODS.as_dicts(), namespace="shop", label_selector=f"app={app}")
    return list(listing.items)


async def ready_names(client: KubeClient, app: str) -> list[str]:
    return [
        pod["metadata"]["name"]
        for pod in await pods(client, app)
        if "deletionTimestamp" not in pod["metadata"]
        and any(
            one["type"] == "Ready" and one["status"] == "True"
            for one in pod["status"].get("conditions", ())
        )
    ]


async def ready(client: KubeClient, app: str, count: int) -> list[str]:
    async def enough() -> bool:
        return len(await ready_names(client, app)) == count

    await wait_until(enough, within=MINUTES)
    return await ready_names(client, app)


async def create(client: KubeClient, endpoint: Any, body: Json) -> None:
    await client.create(endpoint.as_dicts(), body, namespace="shop")


async def status(client: KubeClient, endpoint: Any, name: str) -> Json:
    found: Json = (await client.get(endpoint.as_dicts(), name, namespace="shop"))["status"]
    return found


def test_a_deployment_gets_pods_on_nodes_and_a_status() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        await create(client, DEPLOYMENTS, workload("Deployment", "web", replicas=3))
        names = await ready(client, "web", 3)

        async def available() -> bool:
            return (await status(client, DEPLOYMENTS, "web")).get("availableReplicas") == 3

        await wait_until(available, within=MINUTES)
        has_event = await status(client, DEPLOYMENTS, "web")
        assert {
            key: has_event[key] for key in ("replicas", "updatedReplicas", "readyReplicas")
        } == {
            "replicas": 3,
            "updatedReplicas": 3,
            "readyReplicas": 3,
        }
        assert has_event["observedGeneration"] == 1
        assert {one["type"]: one["status"] for one in has_event["conditions"]} == {
            "Available": "True",
            "Progressing": "True",
        }
        found = await pods(client, "web")
        assert {pod["spec"]["nodeName"] for pod in found} == {"node-0", "node-1"}
        [owner] = (await client.list(REPLICA_SETS.as_dicts(), namespace="shop")).items
        assert all(name.startswith(owner["metadata"]["name"] + "-") for name in names)
        [call] = {
            (one.user, one.user_agent)
            for one in cluster.audit(verb="create", resource="pods", subresource="")
        }
        assert call == (
            "system:serviceaccount:kube-system:replicaset-controller",
            "kube-controller-manager",
        )

    in_cluster(test, scenario=SCENARIO)


def test_an_evicted_pod_is_replaced() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        await create(client, DEPLOYMENTS, workload("Deployment", "web", replicas=2))
        before = await ready(client, "web", 2)
        await client.evict("shop", before[0])

        async def replaced() -> bool:
            names = await ready_names(client, "web")
            return len(names) == 2 and before[0] not in names

        await wait_until(replaced, within=MINUTES)
        assert len(cluster.audit(verb="create", resource="pods", subresource="")) == 3

    in_cluster(test, scenario=SCENARIO)


def test_a_rollout_keeps_enough_pods_available() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        rolling = {"maxSurge": 1, "maxUnavailable": 0}
        strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
        body = workload("Deployment", "web", replicas=3, strategy=strategy)
        await create(client, DEPLOYMENTS, body)
        await ready(client, "web", 3)
        containers = [{"name": "app", "image": "shop:2"}]
        await client.patch(
            DEPLOYMENTS.as_dicts(),
            "web",
            {"spec": {"template": {"spec": {"containers": containers}}}},
            patch_type=PatchType.STRATEGIC,
            namespace="shop",
        )
        least, most = 99, 0

        async def rolled_out() -> bool:
            nonlocal least, most
            least = min(least, len(await ready_names(client, "web")))
            found = await pods(client, "web")
            alive = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
            most = max(most, len(alive))
            has_event = await status(client, DEPLOYMENTS, "web")
            return (
                has_event.get("updatedReplicas") == has_event.get("replicas") == 3
                and has_event["observedGeneration"] == 2
                and {pod["spec"]["containers"][0]["image"] for pod in found} == {"shop:2"}
            )

        await wait_until(rolled_out, within=MINUTES)
        assert least == 3
        assert most == 4

    in_cluster(test, scenario=SCENARIO)


def test_scaling_and_deleting_a_deployment() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        await create(client, DEPLOYMENTS, workload("Deployment", "web", replicas=1))
        await ready(client, "web", 1)
        for count in (4, 2):
            await client.patch(
                DEPLOYMENTS.as_dicts(),
                "web",
                {"spec": {"replicas": count}},
                patch_type=PatchType.MERGE,
                namespace="shop",
            )
            await ready(client, "web", count)
        await client.delete(DEPLOYMENTS, "web", namespace="shop")

        async def gone() -> bool:
            return not await pods(client, "web")

        await wait_until(gone, within=MINUTES)

    in_cluster(test, scenario=SCENARIO)


def test_an_unschedulable_pod_waits_for_room() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        await create(client, DEPLOYMENTS, workload("Deployment", "web", replicas=2, cpu="1500m"))
        await ready(client, "web", 2)
        await create(client, DEPLOYMENTS, workload("Deployment", "big", replicas=1, cpu="1"))

        async def has_event() -> bool:
            found = await pods(client, "big")
            return bool(found) and any(
                one["type"] == "PodScheduled" and one["status"] == "False"
                for one in found[0]["status"].get("conditions", ())
            )

        await wait_until(has_event, within=MINUTES)
        [pod] = await pods(client, "big")
        [condition] = pod["status"]["conditions"]
        assert condition["reason"] == "Unschedulable"
        assert condition["message"] == "0/2 nodes are available: 2 Insufficient cpu."

        async def event() -> bool:
            events = (await client.list(EVENT_OBJECTS.as_dicts(), namespace="shop")).items
            return any(one["reason"] == "FailedScheduling" for one in events)

        await wait_until(event, within=MINUTES)
        await client.delete(DEPLOYMENTS, "web", namespace="shop")
        await ready(client, "big", 1)

    in_cluster(test, scenario=SCENARIO)


def test_a_stateful_set_keeps_its_names_and_its_order() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        body = workload("StatefulSet", "db", replicas=3, serviceName="db")
        await create(client, STATEFUL_SETS, body)
        assert sorted(await ready(client, "db", 3)) == ["db-0", "db-1", "db-2"]
        created = [pod["metadata"] for pod in await pods(client, "db")]
        times = [meta["creationTimestamp"] for meta in sorted(created, key=lambda m: m["name"])]
        assert times == sorted(times)
        uid = next(meta["uid"] for meta in created if meta["name"] == "db-1")
        await client.evict("shop", "db-1")

        async def back() -> bool:
            found = {pod["metadata"]["name"]: pod for pod in await pods(client, "db")}
            names = await ready_names(client, "db")
            return len(names) == 3 and found["db-1"]["metadata"]["uid"] != uid

        await wait_until(back, within=MINUTES)

        async def counted() -> bool:
            has_event = await status(client, STATEFUL_SETS, "db")
            return has_event.get("readyReplicas") == has_event.get("updatedReplicas") == 3

        await wait_until(counted, within=MINUTES)

    in_cluster(test, scenario=SCENARIO)


def test_a_daemon_set_has_a_pod_on_every_node() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        await create(client, DAEMON_SETS, workload("DaemonSet", "agent"))
        await ready(client, "agent", 2)
        nodes = sorted(pod["spec"]["nodeName"] for pod in await pods(client, "agent"))
        assert nodes == ["node-0", "node-1"]

        async def counted() -> bool:
            has_event = await status(client, DAEMON_SETS, "agent")
            return has_event.get("numberAvailable") == has_event.get("desiredNumberScheduled") == 2

        await wait_until(counted, within=MINUTES)

    in_cluster(test, scenario=SCENARIO)


def test_a_budget_refuses_the_second_eviction_until_the_first_pod_is_replaced() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        await create(client, DEPLOYMENTS, workload("Deployment", "web", replicas=3))
        names = await ready(client, "web", 3)
        spec = {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1}
        await create(client, BUDGETS, {"metadata": {"name": "web"}, "spec": spec})

        async def allowed() -> bool:
            return (await status(client, BUDGETS, "web")).get("disruptionsAllowed") == 1

        await wait_until(allowed, within=MINUTES)
        has_event = await status(client, BUDGETS, "web")
        assert (
            has_event["expectedPods"],
            has_event["currentHealthy"],
            has_event["desiredHealthy"],
        ) == (3, 3, 2)
        await client.evict("shop", names[0])
        with pytest.raises(TooManyRequestsError) as caught:
            await client.evict("shop", names[1])
        assert caught.value.has_cause("DisruptionBudget")
        await wait_until(allowed, within=MINUTES)
        await client.evict("shop", names[1])

    in_cluster(test, scenario=SCENARIO)


def test_a_quota_counts_and_refuses() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        hard = {"requests.cpu": "250m", "pods": "10"}
        await create(client, QUOTAS, {"metadata": {"name": "rq"}, "spec": {"hard": hard}})

        async def counted() -> bool:
            return "used" in (await status(client, QUOTAS, "rq"))

        await wait_until(counted, within=MINUTES)
        await create(client, DEPLOYMENTS, workload("Deployment", "web", replicas=3))
        await ready(client, "web", 2)

        async def has_event() -> bool:
            owners = (await client.list(REPLICA_SETS.as_dicts(), namespace="shop")).items
            conditions = owners[0]["status"].get("conditions", ())
            return any("exceeded quota: rq" in one["message"] for one in conditions)

        await wait_until(has_event, within=MINUTES)
        assert (await status(client, QUOTAS, "rq"))["used"] == {"requests.cpu": "200m", "pods": "2"}
        await client.delete(DEPLOYMENTS, "web", namespace="shop")

        async def freed() -> bool:
            used: Json = (await status(client, QUOTAS, "rq"))["used"]
            return used == {"requests.cpu": "0", "pods": "0"}

        await wait_until(freed, within=MINUTES)

    in_cluster(test, scenario=SCENARIO)


def test_a_stuck_rollout_stays_within_its_bounds_and_has_a_condition() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        strategy = {"rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
        await create(
            client,
            DEPLOYMENTS,
            workload("Deployment", "web", replicas=8, strategy=strategy),
        )
        await ready(client, "web", 8)
        template = {"metadata": {"annotations": {"kubelet.sandbox/ready-delay": "never"}}}
        await change(client, "web", {"template": template})
        await asyncio.sleep(90)
        has_event = await status(client, DEPLOYMENTS, "web")
        counts = ("observedGeneration", "replicas", "updatedReplicas", "availableReplicas")
        assert {name: has_event[name] for name in counts} == {
            "observedGeneration": 2,
            "replicas": 10,
            "updatedReplicas": 4,
            "availableReplicas": 6,
        }
        assert await progressing(client, "web") == ("True", "ReplicaSetUpdated")

    in_cluster(test, scenario=SCENARIO)


def test_a_lost_pod_does_not_start_a_rollout() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        slow = {"kubelet.sandbox/start-delay": "20s"}
        body = workload("Deployment", "web", replicas=2)
        body["spec"]["template"]["metadata"]["annotations"] = slow
        await create(client, DEPLOYMENTS, body)
        [first, _] = await ready(client, "web", 2)
        await asyncio.sleep(1)
        await client.evict("shop", first)
        await asyncio.sleep(10)
        assert (await status(client, DEPLOYMENTS, "web"))["availableReplicas"] == 1
        assert await progressing(client, "web") == ("True", "NewReplicaSetAvailable")

    in_cluster(test, scenario=SCENARIO)


def test_the_strategy_recreate_creates_no_pod_before_all_old_ones_are_deleted() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        body = workload("Deployment", "web", replicas=2, strategy={"type": "Recreate"})
        body["spec"]["template"]["metadata"]["annotations"] = {"kubelet.sandbox/stop-delay": "20s"}
        await create(client, DEPLOYMENTS, body)
        old = set(await ready(client, "web", 2))
        annotations = {"metadata": {"annotations": {"revision": "2"}}}
        await change(client, "web", {"template": annotations})
        await asyncio.sleep(15)
        assert {pod["metadata"]["name"] for pod in await pods(client, "web")} == old
        has_event = await status(client, DEPLOYMENTS, "web")
        assert (has_event["observedGeneration"], has_event.get("updatedReplicas", 0)) == (2, 0)
        assert not old & set(await ready(client, "web", 2))

    in_cluster(test, scenario=SCENARIO)


async def change(client: KubeClient, name: str, spec: Json) -> None:
    await client.patch(
        DEPLOYMENTS.as_dicts(), name, {"spec": spec}, patch_type=PatchType.MERGE, namespace="shop"
    )


async def progressing(client: KubeClient, name: str) -> tuple[str, str]:
    """Return status and reason of the condition Progressing."""
    conditions = (await status(client, DEPLOYMENTS, name))["conditions"]
    [found] = [one for one in conditions if one["type"] == "Progressing"]
    return found["status"], found["reason"]

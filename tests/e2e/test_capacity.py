"""Room for replacements: requested from an autoscaler before the eviction, or awaited after it."""

from typing import Any

from capacity_definitions import BUFFERS, NODE_POOLS, REQUESTS
from common.errors import NotFoundError
from common.kube.endpoints import (
    DEPLOYMENTS,
    JOBS,
    POD_TEMPLATES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Endpoint,
)
from e2e.cluster import OTHER_RECOMMENDER, Case
from e2e.installation import UPDATER
from e2e.pods import deployment, template
from e2e.processes import kill
from e2e.recreation import AFTER, BEFORE, Site, site
from e2e.simulated_autoscaler import POOL, served
from updater.capacity.request_objects import MANAGED_BY

_DELAY = 4.0  # seconds until a node is Ready
_VOLUMES: Endpoint[dict[str, Any]] = Endpoint(
    "", "v1", "persistentvolumes", "PersistentVolume", dict[str, Any], namespaced=False
)
_MANAGED = f"{MANAGED_BY}={UPDATER}"


async def requested(case: Case) -> list[str]:
    """Return the names of the requests and PodTemplates of the updater."""
    found = []
    for endpoint in (BUFFERS, REQUESTS, POD_TEMPLATES.as_dicts()):
        try:
            listing = await case.cluster.client.list(
                endpoint, namespace=case.namespace, label_selector=_MANAGED
            )
        except NotFoundError:
            continue  # the kind isn't served
        found += [each["metadata"]["name"] for each in listing.items]
    return found


async def wait_until_nothing_is_requested(case: Case) -> None:
    async def nothing() -> bool:
        return not await requested(case)

    await case.cluster.wait_for(nothing, "no request and no PodTemplate is left")


async def events(here: Site, reason: str) -> list[str]:
    return [each["message"] for each in await here.case.events(reason)]


async def test_with_requests_each_replacement_finds_a_node_at_once(case: Case) -> None:
    """``make bench-capacity`` prints how long pods are Pending."""
    async with site(case, "--capacity-check=provision", replicas=4, delay=_DELAY) as here:
        await here.recommend()
        await here.wait_until_recreated()
        assert not await here.waited_for_nodes()
        await wait_until_nothing_is_requested(case)
        assert here.autoscaler.added <= 4, "a node for each replacement: no buffer is refilled"


async def test_without_requests_they_wait_for_their_nodes(case: Case) -> None:
    async with site(case, "--capacity-check=off", replicas=4, delay=_DELAY) as here:
        await here.recommend()
        await here.wait_until_recreated()
        assert await here.waited_for_nodes()
        assert not await requested(case)


async def test_auto_leaves_pods_without_room_to_karpenter(case: Case) -> None:
    """Karpenter adds nodes for Pending pods; the updater only reads its NodePools."""
    client = case.cluster.client
    async with served(client, NODE_POOLS):
        await client.create(NODE_POOLS, {"metadata": {"name": "general"}})
        arguments = ("--capacity-check=auto",)
        async with site(case, *arguments, replicas=2, delay=_DELAY, kind=None) as here:
            await here.recommend()
            await here.wait_until_recreated()
            assert await here.waited_for_nodes()


async def test_requests_without_effect_are_withdrawn_and_no_pod_is_evicted(case: Case) -> None:
    arguments = ("--capacity-check=provision", "--capacity-timeout=5s")
    async with site(case, *arguments, replicas=4, delay=600) as here:
        before = await case.uids("web")
        await here.recommend()

        async def is_requested() -> list[str]:
            return await requested(case)

        await case.cluster.wait_for(is_requested, "room is requested")
        await wait_until_nothing_is_requested(case)

        async def reported() -> list[str]:
            return [each for each in await events(here, "EvictionSkipped") if "refused" in each]

        await case.cluster.wait_for(reported, "an Event about the request")
        assert await case.uids("web") == before
        assert not case.evictions()


async def test_the_requests_of_a_killed_updater_are_deleted_by_the_next(case: Case) -> None:
    cluster = case.cluster
    async with site(case, "--capacity-check=provision", replicas=4, delay=600) as here:
        await here.recommend()

        async def is_requested() -> list[str]:
            return await requested(case)

        async def is_resized() -> bool:
            listing = await cluster.client.list(BUFFERS, namespace=case.namespace)
            return [each["spec"]["replicas"] for each in listing.items] == [1]

        await cluster.wait_for(is_requested, "room is requested")
        await case.edit(DEPLOYMENTS.as_dicts(), "web", replicas=2)
        await cluster.wait_for(is_resized, "room for one pod, half of the replicas")
        (pod,) = await cluster.component_pods(UPDATER)
        kill(pod["metadata"]["uid"])
        await here.recommend(cpu="450m")  # nothing waits for room any more
        assert await requested(case)
        await wait_until_nothing_is_requested(case)


async def test_provisioning_requests_are_made_where_no_buffers_are_served(case: Case) -> None:
    arguments = ("--capacity-check=provision", "--capacity-timeout=5s")
    async with site(case, *arguments, replicas=4, delay=600, kind=REQUESTS) as here:
        await here.recommend()
        client = case.cluster.client

        async def is_requested() -> list[dict[str, Any]]:
            return list((await client.list(REQUESTS, namespace=case.namespace)).items)

        (request,) = await case.cluster.wait_for(is_requested, "room is requested")
        (pods,) = request["spec"]["podSets"]
        assert pods["count"] == 2, "half of the replicas may be missing"
        assert pods["podTemplateRef"] == {"name": request["metadata"]["name"]}
        await wait_until_nothing_is_requested(case)
        assert not case.evictions()


async def test_room_is_requested_for_each_kind_of_workload(case: Case) -> None:
    """The API server accepts a PodTemplate of each, with the claims of a StatefulSet."""
    kinds = (REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS, JOBS)
    async with site(case, "--capacity-check=provision", replicas=4, delay=600) as here:
        for _ in range(2):
            await here.autoscaler.start_node()
        for kind in kinds:
            await create_workload(case, kind, pool=here.autoscaler.pool)
        for kind in kinds:  # the nodes are full now
            await case.set_recommendation(kind.kind.lower(), app=AFTER)
        await here.recommend()

        async def all_are_requested() -> bool:
            names = [each.rpartition("-")[0] for each in await requested(case)]
            wanted = sorted(f"vpa-{each.kind.lower()}" for each in kinds)
            return sorted(names) == sorted(2 * ["vpa-web", *wanted])

        await case.cluster.wait_for(all_are_requested, "a buffer and a template for each kind")
        templates = await case.cluster.client.list(
            POD_TEMPLATES.as_dicts(), namespace=case.namespace
        )
        (claiming,) = [
            each for each in templates.items if "statefulset" in each["metadata"]["name"]
        ]
        (volume, *_) = claiming["template"]["spec"]["volumes"]
        assert volume["persistentVolumeClaim"]["claimName"].startswith("data-statefulset-")
        assert not case.evictions()


async def create_workload(case: Case, kind: Endpoint[Any], *, pool: str) -> None:
    """Create a workload of two pods, named after its kind, and its VPA."""
    name = kind.kind.lower()
    mounts = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    pods = template(
        name,
        requests=BEFORE,
        spec={"nodeSelector": {POOL: pool}},
        container=mounts if kind is STATEFUL_SETS else None,
    )
    body = deployment(name, pods)
    spec = body["spec"]
    if kind is STATEFUL_SETS:
        spec["serviceName"] = name
        spec["podManagementPolicy"] = "Parallel"
        claimed = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": case.namespace,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        spec["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claimed}]
        await create_volumes(case, 2)
    elif kind is REPLICATION_CONTROLLERS:
        spec["selector"] = {"app": name}
    elif kind is JOBS:
        del spec["replicas"], spec["selector"]
        spec["parallelism"] = spec["completions"] = 2
        pods["spec"]["restartPolicy"] = "Never"
    await case.create(kind, body)
    target = {"apiVersion": kind.api_version, "kind": kind.kind, "name": name}
    await case.create_vpa(name, "Recreate", targetRef=target, recommenders=OTHER_RECOMMENDER)
    await case.wait_until_ready(name)


async def create_volumes(case: Case, count: int) -> None:
    """Create volumes that claims with the namespace as storage class are bound to."""
    for number in range(count):
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/nonexistent"},
            "storageClassName": case.namespace,
        }
        name = f"{case.namespace}-{number}"
        await case.cluster.client.create(_VOLUMES, {"metadata": {"name": name}, "spec": spec})

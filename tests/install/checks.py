"""What must hold while an installation comes, changes and goes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from common.kube.endpoints import CHECKPOINTS, VPAS
from deploy.images import image_names
from e2e import created_pods
from e2e.cluster import Case
from e2e.created_pods import Creations
from e2e.installation import COMPONENTS
from install.fresh_cluster import REGISTRY, FreshCluster

APP = "web"  # the Deployment of :func:`install.fresh_cluster.workload`, and its VPA


@asynccontextmanager
async def creating_pods(case: Case) -> AsyncIterator[Creations]:
    """Create pods of the workload all the time while the context is entered."""
    pod = await case.gated_pod(APP)
    client = case.cluster.client
    async with created_pods.creating_pods(client, pod, namespace=case.namespace) as creations:
        yield creations


async def wait_until_patched(case: Case, creations: Creations) -> None:
    """Wait until a pod was patched."""

    async def patched() -> bool:
        return creations.patched > 0

    await case.cluster.wait_for(patched, "a new pod is patched")


async def check_images(fresh: FreshCluster, tag: str) -> None:
    """Wait until the pods of all components have the images of a tag, and no others are left."""
    wanted = {name for name in image_names(REGISTRY, tag) if "certs" not in name}

    async def replaced() -> bool:
        return await fresh.images() == wanted

    await fresh.cluster.wait_for(replaced, f"all pods have the tag {tag}")


async def check_spread(fresh: FreshCluster) -> None:
    """Check that the two replicas of each component are on different nodes."""
    for name in COMPONENTS:
        found = await fresh.cluster.pods(fresh.system, name)
        nodes = {pod["spec"]["nodeName"] for pod in found}
        assert (len(found), len(nodes)) == (2, 2), f"{name}: {nodes}"


async def check_quiet(fresh: FreshCluster) -> None:
    """Check that nothing alarms an operator: no warning in a log, no Event of type Warning.

    An API server that has just started may report the Service of the metrics API in an Event.
    """
    for name in COMPONENTS:
        logs = f"kubectl -n {fresh.system} logs --selector=app={name} --tail=-1"
        lines = (await fresh.run(logs)).splitlines()
        assert lines, name
        warnings = [line for line in lines if not line.startswith("I")]
        assert not warnings, f"{name}: {warnings}"
    words = "get events --ignore-not-found --field-selector"
    selector = "type=Warning,involvedObject.name!=metrics-server"
    found = await fresh.run(f"kubectl -n {fresh.system} {words}={selector}")
    assert not found, found


async def check_resized_in_place(case: Case) -> None:
    """Wait until the running pods have the recommendation; check that they are the same pods."""
    before = await case.uids(APP)
    await case.wait_until_applied(APP, seconds=130)  # two passes of the updater
    assert await case.uids(APP) == before


async def check_nothing_is_left(fresh: FreshCluster, before: set[str]) -> None:
    """Wait until only definitions, VPAs and checkpoints are there beside ``before``."""
    kept = {
        "APIService /v1.autoscaling.k8s.io",
        "CustomResourceDefinition /verticalpodautoscalercheckpoints.autoscaling.k8s.io",
        "CustomResourceDefinition /verticalpodautoscalers.autoscaling.k8s.io",
        f"VerticalPodAutoscaler shop/{APP}",
        f"VerticalPodAutoscalerCheckpoint shop/{APP}-app",
    }
    left: set[str] = set()

    async def gone() -> bool:
        left.clear()
        left.update(await fresh.objects() ^ before ^ kept)
        return not left

    try:
        await fresh.cluster.wait_for(gone, "nothing of ours is left")
    except AssertionError as error:
        error.add_note(f"left or missing: {sorted(left)}")
        raise


async def history(case: Case) -> dict[str, Any]:
    """Return what outlives the components: VPAs with targets, checkpoints with their begin."""
    vpas = await case.cluster.client.list(VPAS.as_dicts(), namespace=case.namespace)
    checkpoints = await case.cluster.client.list(CHECKPOINTS.as_dicts(), namespace=case.namespace)
    targets = {
        vpa["metadata"]["uid"]: (
            vpa["spec"],
            [
                (one["containerName"], one["target"])
                for one in vpa["status"]["recommendation"]["containerRecommendations"]
            ],
        )
        for vpa in vpas.items
    }
    begins = {
        one["metadata"]["uid"]: one["status"]["firstSampleStart"] for one in checkpoints.items
    }
    return {"targets": targets, "checkpoints": begins}


async def wait_for_checkpoint(case: Case, *, after: str = "") -> str:
    """Wait for a checkpoint that isn't of the time ``after``; return its time."""

    async def written() -> str:
        time = str((await case.checkpoint(APP)).get("lastUpdateTime", ""))
        return time if time != after else ""

    return await case.cluster.wait_for(written, "a new checkpoint", seconds=130)

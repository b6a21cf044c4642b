"""The nodes of these tests: no pod starts without its image, its Secrets and its ConfigMaps."""

from pathlib import Path
from typing import Any

from common.kube.endpoints import PODS, SECRETS
from controlplane.containers.sources import CONFIG_MAPS
from e2e.cluster import Case, case_in_namespace
from e2e.pods import Object, is_ready
from install.fresh_cluster import MISSING, REGISTRY, SHOP, WORKLOAD, fresh_cluster

OWN = {"metadata": {"name": "own"}}
VARIABLE = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "own", "key": "a"}}}


def pod(name: str, *, volume: Object | None = None, **container: Any) -> Object:
    """Return a pod with one container, and perhaps with a volume."""
    volumes = [{"name": "data", **volume}] if volume else []
    mounts = [{"name": each["name"], "mountPath": "/data"} for each in volumes]
    app = {"name": "app", "image": WORKLOAD, "volumeMounts": mounts, **container}
    return {"metadata": {"name": name}, "spec": {"containers": [app], "volumes": volumes}}


PODS_OF_CASE = [
    pod("image", image=f"{REGISTRY}/vpa-updater:{MISSING}"),
    pod("variable", env=[VARIABLE]),
    pod("variables", envFrom=[{"secretRef": {"name": "own"}}]),
    pod("secret", volume={"secret": {"secretName": "own"}}),
    pod("config-map", volume={"configMap": {"name": "own"}}),
    pod("optional", volume={"secret": {"secretName": "own", "optional": True}}),
]
LACKING = {
    "image": ("Pending", "ImagePullBackOff"),
    "variable": ("Pending", "CreateContainerConfigError"),
    "variables": ("Pending", "CreateContainerConfigError"),
    "secret": ("Pending", "ContainerCreating"),
    "config-map": ("Pending", "ContainerCreating"),
    "optional": ("Running", ""),
}
"""Phase and reason of each pod, named after what it lacks."""


async def states(case: Case) -> dict[str, tuple[str, str]]:
    """Return phase and reason of each pod that the kubelet has seen."""
    found = await case.cluster.client.list(PODS.as_dicts(), namespace=case.namespace)
    return {
        one["metadata"]["name"]: (
            one["status"]["phase"],
            one["status"]["containerStatuses"][0]["state"].get("waiting", {}).get("reason", ""),
        )
        for one in found.items
        if one["status"].get("containerStatuses")
    }


async def test_a_pod_waits_for_what_it_lacks(tmp_path: Path) -> None:
    async with fresh_cluster(tmp_path) as fresh, case_in_namespace(fresh.cluster, SHOP) as case:
        for each in PODS_OF_CASE:
            await case.create(PODS, each)

        async def as_expected() -> bool:
            events = await case.events("FailedMount")
            pods = {event["involvedObject"]["name"] for event in events}
            return await states(case) == LACKING and pods == {"secret", "config-map"}

        await fresh.cluster.wait_for(as_expected, "all pods wait for what they lack")

        await case.create(SECRETS, {**OWN, "stringData": {"a": "b"}})
        await case.create(CONFIG_MAPS, {**OWN, "data": {"a": "b"}})

        async def ready() -> list[str]:
            found = await case.cluster.client.list(PODS.as_dicts(), namespace=case.namespace)
            return sorted(one["metadata"]["name"] for one in found.items if is_ready(one))

        async def all_others_are_ready() -> bool:
            return await ready() == sorted(LACKING.keys() - {"image"})

        await fresh.cluster.wait_for(all_others_are_ready, "all pods but one are ready")

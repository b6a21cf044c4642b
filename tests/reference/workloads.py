"""Workloads of many shapes, with steady usage, and their VPAs."""

from collections.abc import Iterator, Mapping

from common.kube.client import KubeClient
from common.kube.endpoints import DEPLOYMENTS, NAMESPACES, VPAS
from e2e import pods
from e2e.pods import LARGE, Object, template
from workloads import autoscaler

NAMESPACE = "shop"
NEW_POD = "initial-0"  # the workload for whose pods new requests are tried
SIDECAR = {
    "name": "proxy",
    "image": "registry.example/proxy",
    "resources": {"requests": {"cpu": "100m", "memory": "300Mi"}},
}
_MODES: Mapping[str, Object] = {
    "Off": {"containerPolicies": [{"containerName": "proxy", "maxAllowed": {"cpu": "20m"}}]},
    "Initial": {"containerPolicies": [{"containerName": "*", "minAllowed": {"memory": "300Mi"}}]},
    "Recreate": {"containerPolicies": [{"containerName": "*", "controlledResources": ["cpu"]}]},
    "InPlaceOrRecreate": {
        "containerPolicies": [
            {"containerName": "*", "controlledValues": "RequestsOnly"},
            {"containerName": "proxy", "mode": "Off"},
        ]
    },
}
_USAGES = (("7m", "40Mi"), ("130m", "333Mi"), ("1700m", "2100Mi"))  # each container's


def names(mode: str) -> Iterator[str]:
    """Yield the names of the workloads of a mode."""
    yield from (f"{mode.lower()}-{number}" for number in range(len(_USAGES)))


def containers() -> set[str]:
    """Return each container with a recommendation, as VPA and container."""
    found = {f"{name}/{one}" for mode in _MODES for name in names(mode) for one in ("app", "proxy")}
    return found - {f"{name}/proxy" for name in names("InPlaceOrRecreate")}


async def create(client: KubeClient) -> None:
    """Create all workloads, each with two replicas and a VPA."""
    await client.create(NAMESPACES.as_dicts(), {"metadata": {"name": NAMESPACE}})
    for mode, policy in _MODES.items():
        for name, (cpu, memory) in zip(names(mode), _USAGES, strict=True):
            made = template(
                name,
                requests=LARGE,
                usage={"cpu": cpu, "memory": memory},
                extra_containers=[SIDECAR],
            )
            controller = pods.deployment(name, made)
            await client.create(DEPLOYMENTS.as_dicts(), controller, namespace=NAMESPACE)
            vpa = autoscaler(name, mode, resourcePolicy=policy)
            await client.create(VPAS.as_dicts(), vpa, namespace=NAMESPACE)


async def new_pod(client: KubeClient) -> Object:
    """Return a pod of :data:`NEW_POD`, as its controller would create it."""
    owner = await client.get(DEPLOYMENTS.as_dicts(), NEW_POD, namespace=NAMESPACE)
    return pods.new_pod(owner)

"""A custom kind for tests of owners and targets that the components have no types for."""

from typing import Any

from common.kube.client import KubeClient
from common.kube.endpoints import Endpoint
from workloads import DEFINITIONS

GROUP = "example.com"
_SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".spec.selector",
}
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def robots(group: str = GROUP) -> Endpoint[dict[str, Any]]:
    """Return the endpoint of the custom kind."""
    return Endpoint(group, "v1", "robots", "Robot", dict[str, Any])


ROBOTS = robots()


async def define_robots(client: KubeClient, group: str = GROUP, *, scale: bool = True) -> str:
    """Create its definition, with or without ``/scale``; return the definition's name."""
    name = f"robots.{group}"
    definition = {
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "robots", "singular": "robot", "kind": "Robot"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _ANYTHING},
                    "subresources": {"status": {}, **({"scale": _SCALE} if scale else {})},
                }
            ],
        },
    }
    await client.create(DEFINITIONS, definition)
    return name


def robot(name: str, group: str = GROUP, **spec: Any) -> dict[str, Any]:
    """Return the manifest of one object."""
    return {
        "apiVersion": f"{group}/v1",
        "kind": "Robot",
        "metadata": {"name": name},
        "spec": spec,
    }

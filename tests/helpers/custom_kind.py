"""A custom kind, for tests of owners and targets that our components know nothing of."""

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
    """All of them, of one group."""
    return Endpoint(group, "v1", "robots", "Robot", dict[str, Any])


ROBOTS = robots()


async def define_robots(client: KubeClient, group: str = GROUP, *, scale: bool = True) -> str:
    """Have the API server serve them, with ``/scale`` or without; the definition's name."""
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
    """The manifest of one."""
    return {
        "apiVersion": f"{group}/v1",
        "kind": "Robot",
        "metadata": {"name": name},
        "spec": spec,
    }

"""A custom kind with ``/scale``, for tests of owners that our components know nothing of."""

from typing import Any

from common.kube.client import KubeClient
from common.kube.endpoints import Endpoint
from workloads import DEFINITIONS

ROBOTS: Endpoint[dict[str, Any]] = Endpoint("example.com", "v1", "robots", "Robot", dict[str, Any])
_SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".spec.selector",
}
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_DEFINITION = {
    "metadata": {"name": "robots.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "robots", "singular": "robot", "kind": "Robot"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": _ANYTHING},
                "subresources": {"status": {}, "scale": _SCALE},
            }
        ],
    },
}


async def define_robots(client: KubeClient) -> None:
    """Have the API server serve them."""
    await client.create(DEFINITIONS, _DEFINITION)


def robot(name: str, **spec: Any) -> dict[str, Any]:
    """The manifest of one."""
    return {
        "apiVersion": "example.com/v1",
        "kind": "Robot",
        "metadata": {"name": name},
        "spec": spec,
    }

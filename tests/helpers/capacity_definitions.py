"""The kinds of autoscalers, as clusters define them."""

from typing import Any

from common.kube.endpoints import Endpoint
from updater.capacity.request_objects import GROUP

BUFFERS: Endpoint[dict[str, Any]] = Endpoint(
    GROUP, "v1beta1", "capacitybuffers", "CapacityBuffer", dict[str, Any]
)
REQUESTS: Endpoint[dict[str, Any]] = Endpoint(
    GROUP, "v1", "provisioningrequests", "ProvisioningRequest", dict[str, Any]
)
NODE_POOLS: Endpoint[dict[str, Any]] = Endpoint(
    "karpenter.sh", "v1", "nodepools", "NodePool", dict[str, Any], namespaced=False
)
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_VERSIONS = {
    BUFFERS.kind: ("v1alpha1", "v1beta1"),
    REQUESTS.kind: ("v1beta1", "v1"),
    NODE_POOLS.kind: ("v1",),
}


def capacity_definition(endpoint: Endpoint[dict[str, Any]]) -> dict[str, Any]:
    """Return the CustomResourceDefinition, with a schema that accepts any field."""
    names = _VERSIONS[endpoint.kind]
    # The group is protected: an annotation names the approval of its definitions.
    approval = "https://github.com/kubernetes/autoscaler"
    return {
        "metadata": {
            "name": f"{endpoint.resource}.{endpoint.group}",
            "annotations": {"api-approved.kubernetes.io": approval},
        },
        "spec": {
            "group": endpoint.group,
            "scope": "Namespaced" if endpoint.namespaced else "Cluster",
            "names": {
                "plural": endpoint.resource,
                "singular": endpoint.kind.lower(),
                "kind": endpoint.kind,
            },
            "versions": [
                {
                    "name": name,
                    "served": True,
                    "storage": name == names[-1],
                    "schema": {"openAPIV3Schema": _ANYTHING},
                    "subresources": {"status": {}},
                }
                for name in names
            ],
        },
    }

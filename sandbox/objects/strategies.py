"""What a write through one endpoint may touch, and what is set for a new object.

Source: the ``PrepareForCreate`` and ``PrepareForUpdate`` of k8s.io/kubernetes
pkg/registry/*/strategy.go.
"""

from collections.abc import Mapping
from random import Random
from typing import Any

from sandbox.objects.pod_resources import qos_class
from sandbox.objects.resources import Resource

_KEEPS_STATUS_ON_CREATE = frozenset({"nodes"})
_METADATA_THROUGH_STATUS = frozenset({"pods", "nodes"})
_TOLERATED_SECONDS = 300
# Counts that are written even when they are zero.
_FIRST_STATUS: Mapping[str, Mapping[str, int]] = {
    "daemonsets.apps": {
        "currentNumberScheduled": 0,
        "desiredNumberScheduled": 0,
        "numberMisscheduled": 0,
        "numberReady": 0,
    },
    "poddisruptionbudgets.policy": {
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "disruptionsAllowed": 0,
        "expectedPods": 0,
    },
    "replicasets.apps": {"replicas": 0},
    "replicationcontrollers": {"replicas": 0},
    "statefulsets.apps": {"availableReplicas": 0, "replicas": 0},
}
_NODE_TROUBLE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def prepare_create(resource: Resource, obj: dict[str, Any], rng: Random) -> None:
    """Set, in place, the status that a new object starts with."""
    key = resource.group_resource
    if resource.has_status and key not in _KEEPS_STATUS_ON_CREATE:
        obj.pop("status", None)
    if key == "pods":
        _tolerate_node_trouble(obj["spec"])
        obj["status"] = {"phase": "Pending", "qosClass": str(qos_class(obj))}
    elif key == "namespaces":
        obj["status"] = {"phase": "Active"}
    elif key == "services":
        _allocate_address(obj["spec"], rng)
        obj["status"] = {"loadBalancer": {}}
    elif not resource.custom and resource.has_status:
        obj.setdefault("status", dict(_FIRST_STATUS.get(key, {})))


def _tolerate_node_trouble(spec: dict[str, Any]) -> None:
    """What the admission plugin DefaultTolerationSeconds adds."""
    tolerations = spec.setdefault("tolerations", [])
    for key in _NODE_TROUBLE:
        if not any(
            one.get("key") in (None, "", key) and one.get("effect") in (None, "", "NoExecute")
            for one in tolerations
        ):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _TOLERATED_SECONDS,
                }
            )


def _allocate_address(spec: dict[str, Any], rng: Random) -> None:
    if spec["type"] == "ExternalName":
        return
    if not spec.get("clusterIP"):
        spec["clusterIP"] = f"10.96.{rng.randrange(256)}.{rng.randrange(1, 255)}"
    spec["clusterIPs"] = [spec["clusterIP"]]
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def prepare_update(
    resource: Resource, subresource: str, old: Mapping[str, Any], new: dict[str, Any]
) -> dict[str, Any]:
    """What is left of ``new`` behind the main endpoint or ``/status``; both are consumed.

    The main endpoint leaves the status of a resource with ``/status`` alone; ``/status`` takes
    nothing but the status, for pods and nodes also labels, annotations and finalizers.
    """
    if subresource != "status":
        if resource.has_status:
            _take(new, old, "status")
        return new
    kept = dict(old)
    _take(kept, new, "status")
    if resource.group_resource in _METADATA_THROUGH_STATUS:
        meta = dict(new["metadata"])
        _take(meta, old["metadata"], "ownerReferences")
        kept["metadata"] = meta
    else:
        kept["metadata"] = dict(old["metadata"])
    return kept


def _take(target: dict[str, Any], source: Mapping[str, Any], name: str) -> None:
    if name in source:
        target[name] = source[name]
    else:
        target.pop(name, None)

"""Fields that a write through an endpoint may change, and fields of a new object.

Source: the ``PrepareForCreate`` and ``PrepareForUpdate`` of k8s.io/kubernetes
pkg/registry/*/strategy.go.
"""

from collections.abc import Mapping
from typing import Any

from sandbox.objects.metadata import copy_fields
from sandbox.objects.pod_resources import qos_class
from sandbox.objects.resizing import MIRROR_ANNOTATION
from sandbox.objects.resources import PODS, Resource

_KEEPS_STATUS_ON_CREATE = frozenset({"nodes"})
# The metadata that a write to ``/status`` keeps.
_METADATA_THROUGH_STATUS = {
    "deployments.apps": ("ownerReferences", "labels"),
    "nodes": ("ownerReferences",),
    "pods": ("ownerReferences",),
}
_TOLERATED_SECONDS = 300
# Counts that are written even if they are zero.
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
    "statefulsets.apps": {"availableReplicas": 0, "replicas": 0},
}
_NODE_TROUBLE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def prepare_create(resource: Resource, obj: dict[str, Any]) -> None:
    """Set the first status of a new object, in place."""
    key = resource.group_resource
    if resource.has_status and key not in _KEEPS_STATUS_ON_CREATE:
        obj.pop("status", None)
    if key == "pods":
        _default_account(obj)
        _tolerate_node_trouble(obj["spec"])
        obj["spec"].setdefault("priority", 0)  # there are no priority classes
        obj["spec"].setdefault("preemptionPolicy", "PreemptLowerPriority")
        obj["status"] = {"phase": "Pending", "qosClass": str(qos_class(obj))}
    elif key == "namespaces":
        obj["status"] = {"phase": "Active"}
    elif not resource.custom and resource.has_status:
        obj.setdefault("status", dict(_FIRST_STATUS.get(key, {})))


def prepare_identified(resource: Resource, obj: dict[str, Any]) -> None:
    """Let a new Job select the pods of its template by its own UID, in place."""
    if resource.group_resource == "jobs.batch":
        key, uid = "batch.kubernetes.io/controller-uid", obj["metadata"]["uid"]
        template = obj["spec"].setdefault("template", {})
        template.setdefault("metadata", {}).setdefault("labels", {})[key] = uid
        obj["spec"]["selector"] = {"matchLabels": {key: uid}}


def _default_account(pod: dict[str, Any]) -> None:
    """Set the account as the admission plugin ServiceAccount does, but not for mirror pods."""
    if MIRROR_ANNOTATION not in (pod["metadata"].get("annotations") or {}):
        spec = pod["spec"]
        if not spec.get("serviceAccountName"):
            spec["serviceAccountName"] = spec["serviceAccount"] = "default"


def _complete_status(status: dict[str, Any]) -> None:
    """Complete a pod's status as Go writes it: conditions with both times, no empty lists."""
    for name in [name for name, value in status.items() if value in (None, [])]:
        del status[name]
    for condition in status.get("conditions") or ():
        condition.setdefault("lastProbeTime", None)
        condition.setdefault("lastTransitionTime", None)


def _tolerate_node_trouble(spec: dict[str, Any]) -> None:
    """Add the tolerations of the admission plugin DefaultTolerationSeconds."""
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


def prepare_update(
    resource: Resource, subresource: str, old: Mapping[str, Any], new: dict[str, Any]
) -> dict[str, Any]:
    """Return the part of ``new`` that the endpoint may write; both objects are consumed.

    The main endpoint keeps the status of a resource with ``/status``. ``/status`` writes only the
    status, and for a few kinds also annotations, finalizers and most labels.
    """
    if subresource != "status":
        if resource is PODS and new.get("spec") != old.get("spec"):
            _tolerate_node_trouble(new["spec"])
        if resource.has_status:
            copy_fields(new, old, "status")
        return new
    kept = dict(old)
    if resource is PODS and new.get("status"):
        _complete_status(new["status"])
    if not resource.custom and resource.group_resource in _FIRST_STATUS:
        new["status"] = {**_FIRST_STATUS[resource.group_resource], **(new.get("status") or {})}
    copy_fields(kept, new, "status")
    if resource.group_resource in _METADATA_THROUGH_STATUS:
        meta = dict(new["metadata"])
        copy_fields(meta, old["metadata"], *_METADATA_THROUGH_STATUS[resource.group_resource])
        kept["metadata"] = meta
    else:
        kept["metadata"] = dict(old["metadata"])
    return kept

"""What a write through one endpoint may touch, and what is set for a new object.

Source: the ``PrepareForCreate`` and ``PrepareForUpdate`` of k8s.io/kubernetes
pkg/registry/*/strategy.go.
"""

from collections.abc import Mapping
from random import Random
from typing import Any

from sandbox.objects.pod_resources import qos_class
from sandbox.objects.resizing import MIRROR_ANNOTATION
from sandbox.objects.resources import PODS, Resource
from sandbox.objects.rules.jobs import select_own_pods
from sandbox.objects.service_addresses import allocate_address, keep_address
from sandbox.objects.taking import take

_KEEPS_STATUS_ON_CREATE = frozenset({"nodes"})
# What of the metadata ``/status`` leaves as it is.
_METADATA_THROUGH_STATUS = {
    "deployments.apps": ("ownerReferences", "labels"),
    "nodes": ("ownerReferences",),
    "pods": ("ownerReferences",),
}
_TOLERATED_SECONDS = 300
CLAIM_PROTECTION = "kubernetes.io/pvc-protection"  # until no pod uses the claim
_NAMESPACE_FINALIZER = "kubernetes"
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
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
    if key == "daemonsets.apps":
        _count_templates(obj["metadata"], max(_template_generation(obj), 1))
    if key == "pods":
        _default_account(obj)
        _tolerate_node_trouble(obj["spec"])
        obj["status"] = {"phase": "Pending", "qosClass": str(qos_class(obj))}
    elif key == "namespaces":
        finalizers = obj["spec"].setdefault("finalizers", [])
        if _NAMESPACE_FINALIZER not in finalizers:
            finalizers.append(_NAMESPACE_FINALIZER)
        obj["status"] = {"phase": "Active"}
    elif key == "services":
        allocate_address(obj["spec"], rng)
        obj["status"] = {"loadBalancer": {}}
    elif key == "persistentvolumeclaims":
        _protect(obj["metadata"])
        obj["status"] = {"phase": "Pending"}
    elif key == "leases.coordination.k8s.io":
        _drop_candidacy({}, obj["spec"])
    elif not resource.custom and resource.has_status:
        obj.setdefault("status", dict(_FIRST_STATUS.get(key, {})))


def prepare_identified(resource: Resource, obj: dict[str, Any]) -> None:
    """Set, in place, what a new object gets of its own name and UID."""
    if resource.group_resource == "jobs.batch":
        select_own_pods(obj)
    elif resource.group_resource == "pods":
        _gate(obj)


def _default_account(pod: dict[str, Any]) -> None:
    """What the admission plugin ServiceAccount begins with; the pods of kubelets get none."""
    if MIRROR_ANNOTATION not in (pod["metadata"].get("annotations") or {}):
        spec = pod["spec"]
        if not spec.get("serviceAccountName"):
            spec["serviceAccountName"] = spec["serviceAccount"] = "default"


def _gate(pod: dict[str, Any]) -> None:
    """Say in the status of a new pod why no scheduler looks at it."""
    if pod["spec"].get("schedulingGates"):
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": pod["metadata"]["creationTimestamp"],
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        pod["status"]["conditions"] = [condition]


def _keep_admitted(old: Mapping[str, Any], new: dict[str, Any]) -> None:
    """What the plugins Priority and DefaultTolerationSeconds make of an updated spec."""
    for name in ("priority", "preemptionPolicy"):
        if new.get(name) is None and name in old:
            new[name] = old[name]
    _tolerate_node_trouble(new)


def _complete_status(status: dict[str, Any]) -> None:
    """Write a pod's status as Go does: conditions with both times, no empty lists."""
    for name in [name for name, value in status.items() if value in (None, [])]:
        del status[name]
    for condition in status.get("conditions") or ():
        condition.setdefault("lastProbeTime", None)
        condition.setdefault("lastTransitionTime", None)


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


def _protect(meta: dict[str, Any]) -> None:
    """What the admission plugin StorageObjectInUseProtection adds."""
    finalizers = meta.setdefault("finalizers", [])
    if CLAIM_PROTECTION not in finalizers:
        finalizers.append(CLAIM_PROTECTION)


def _drop_candidacy(old: Mapping[str, Any], new: dict[str, Any]) -> None:
    """Drop, in place, what only counts behind the feature gate CoordinatedLeaderElection."""
    for name in ("strategy", "preferredHolder"):
        if name not in old:
            new.pop(name, None)


def prepare_update(
    resource: Resource, subresource: str, old: Mapping[str, Any], new: dict[str, Any]
) -> dict[str, Any]:
    """What is left of ``new`` behind the main endpoint or ``/status``; both are consumed.

    The main endpoint leaves the status of a resource with ``/status`` alone; ``/status`` takes
    nothing but the status, for a few kinds also annotations, finalizers and most often labels.
    """
    if subresource != "status":
        if resource is PODS and new.get("spec") != old.get("spec"):
            _keep_admitted(old["spec"], new["spec"])
        if resource.has_status:
            take(new, old, "status")
        if resource.group_resource == "daemonsets.apps":
            changed = new["spec"].get("template") != old["spec"].get("template")
            _count_templates(new["metadata"], _template_generation(old) + changed)
        elif resource.group_resource == "services":
            keep_address(old["spec"], new["spec"])
        elif resource.group_resource == "leases.coordination.k8s.io":
            _drop_candidacy(old["spec"], new["spec"])
        return new
    kept = dict(old)
    if resource is PODS and new.get("status"):
        _complete_status(new["status"])
    if not resource.custom and resource.group_resource in _FIRST_STATUS:
        new["status"] = {**_FIRST_STATUS[resource.group_resource], **(new.get("status") or {})}
    take(kept, new, "status")
    if resource.group_resource in _METADATA_THROUGH_STATUS:
        meta = dict(new["metadata"])
        take(meta, old["metadata"], *_METADATA_THROUGH_STATUS[resource.group_resource])
        kept["metadata"] = meta
    else:
        kept["metadata"] = dict(old["metadata"])
    return kept


def _template_generation(daemon_set: Mapping[str, Any]) -> int:
    annotations = daemon_set["metadata"].get("annotations") or {}
    text = annotations.get(_TEMPLATE_GENERATION, "0")
    return int(text) if text.isdecimal() else 0


def _count_templates(meta: dict[str, Any], generation: int) -> None:
    """Write, in place, which template of a DaemonSet this is; nobody else may."""
    annotations = {**(meta.get("annotations") or {}), _TEMPLATE_GENERATION: str(generation)}
    meta["annotations"] = annotations

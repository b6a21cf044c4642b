"""Pods of controllers: creation from a template, and their states.

Source: k8s.io/kubernetes pkg/controller/controller_utils.go, pkg/api/v1/pod/util.go.
"""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from common.api.core import Pod, PodSpec
from common.api.meta import OwnerReference
from common.kube.endpoints import Endpoint

Json = Mapping[str, Any]

TEMPLATE_HASH = "pod-template-hash"
REVISION_HASH = "controller-revision-hash"

_SAFE_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: no words by accident
_HASH_LENGTH = 10
_EARLIEST = datetime.min.replace(tzinfo=UTC)
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


class OwnedPodSpec(PodSpec, frozen=True, kw_only=True):
    """A spec with the node affinity of DaemonSet pods."""

    affinity: dict[str, Any] | None = None


class OwnedPod(Pod, frozen=True, kw_only=True):
    """A pod with the fields that controllers read."""

    spec: OwnedPodSpec = OwnedPodSpec()


OWNED_PODS = Endpoint("", "v1", "pods", "Pod", OwnedPod)


def owner_reference(owner: Json, *, api_version: str, kind: str) -> dict[str, Any]:
    """Return the reference of a managing controller."""
    meta = owner["metadata"]
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def template_hash(template: Json) -> str:
    """Return a short hash of a pod template, independent of the order of keys."""
    digest = hashlib.sha256(msgspec.json.encode(template, order="deterministic")).digest()
    return "".join(_SAFE_LETTERS[byte % len(_SAFE_LETTERS)] for byte in digest[:_HASH_LENGTH])


def pod_from_template(
    template: Json,
    owner: dict[str, Any],
    *,
    name: str = "",
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a new pod of ``owner``, an owner reference. The server generates a missing name."""
    meta = template.get("metadata") or {}
    made: dict[str, Any] = {"name": name} if name else {"generateName": f"{owner['name']}-"}
    all_labels = {**(meta.get("labels") or {}), **(labels or {})}
    if all_labels:
        made["labels"] = all_labels
    if meta.get("annotations"):
        made["annotations"] = dict(meta["annotations"])
    if meta.get("finalizers"):
        made["finalizers"] = list(meta["finalizers"])
    made["ownerReferences"] = [owner]
    return {"metadata": made, "spec": dict(template["spec"])}


def controller_of(pod: Pod) -> OwnerReference | None:
    """Return the reference of the controller that manages the pod."""
    for owner in pod.metadata.owner_references or ():
        if owner.controller:
            return owner
    return None


def is_finished(pod: Pod) -> bool:
    """Return True if all containers have ended permanently."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_active(pod: Pod) -> bool:
    """Return True if the pod counts as one of its controller's replicas."""
    return not is_finished(pod) and pod.metadata.deletion_timestamp is None


def is_ready(pod: Pod) -> bool:
    """Return True while the pod's condition Ready is true."""
    return any(
        condition.type == "Ready" and condition.status == "True"
        for condition in pod.status.conditions or ()
    )


def to_delete(pods: Iterable[Pod], count: int) -> list[Pod]:
    """Return the ``count`` pods to delete first.

    Unscheduled pods come first, then the order is by phase, not ready before ready, restarted
    before not restarted, young before old. Source: ``ActivePodsWithRanks``.
    """
    return sorted(pods, key=_rank)[:count]


def _rank(pod: Pod) -> tuple[bool, int, bool, int, float, str]:
    restarts = max((one.restart_count for one in pod.status.container_statuses or ()), default=0)
    created = pod.metadata.creation_timestamp or _EARLIEST
    return (
        bool(pod.spec.node_name),
        _PHASES.get(pod.status.phase, 0),
        is_ready(pod),
        -restarts,
        -created.timestamp() if created > _EARLIEST else 0.0,
        pod.metadata.name,
    )

"""What controllers make of pods: new ones from a template, and which of them count.

Source: k8s.io/kubernetes pkg/controller/controller_utils.go, pkg/api/v1/pod/util.go.
"""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
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
_DAWN = datetime.min.replace(tzinfo=UTC)
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


class OwnedPodSpec(PodSpec, frozen=True, kw_only=True):
    """A spec that also says for which node the pod is meant."""

    affinity: dict[str, Any] | None = None


class OwnedPod(Pod, frozen=True, kw_only=True):
    """A pod as controllers see it."""

    spec: OwnedPodSpec = OwnedPodSpec()


OWNED_PODS = Endpoint("", "v1", "pods", "Pod", OwnedPod)


def owner_reference(owner: Json, *, api_version: str, kind: str) -> dict[str, Any]:
    """The reference of a managing controller."""
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
    """A short name for a pod template; equal templates have equal hashes."""
    digest = hashlib.sha256(msgspec.json.encode(template, order="deterministic")).digest()
    return "".join(_SAFE_LETTERS[byte % len(_SAFE_LETTERS)] for byte in digest[:_HASH_LENGTH])


def pod_from_template(
    template: Json,
    owner: dict[str, Any],
    *,
    name: str = "",
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A new pod of ``owner``, an owner reference; without ``name`` the server makes one."""
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
    """The reference of the controller that manages the pod."""
    for owner in pod.metadata.owner_references or ():
        if owner.controller:
            return owner
    return None


def is_finished(pod: Pod) -> bool:
    """Whether all its containers have ended for good."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_active(pod: Pod) -> bool:
    """Whether the pod counts as one of its controller's replicas."""
    return not is_finished(pod) and pod.metadata.deletion_timestamp is None


def ready_since(pod: Pod) -> datetime | None:
    """When the pod became ready; None while it isn't."""
    for condition in pod.status.conditions or ():
        if condition.type == "Ready" and condition.status == "True":
            return condition.last_transition_time or _DAWN
    return None


def available_in(pod: Pod, min_ready: int, now: datetime) -> timedelta | None:
    """How long until a ready pod counts as available: zero when it does, None if not ready."""
    since = ready_since(pod)
    if since is None:
        return None
    return (
        max(since + timedelta(seconds=min_ready) - now, timedelta(0))
        if min_ready
        else (timedelta(0))
    )


def to_delete(pods: Iterable[Pod], count: int) -> list[Pod]:
    """The ``count`` pods that are missed least.

    Unscheduled ones first, then by phase, not ready before ready, restarted before not, young
    before old. Source: ``ActivePodsWithRanks``.
    """
    return sorted(pods, key=_worth)[:count]


def _worth(pod: Pod) -> tuple[bool, int, bool, int, float, str]:
    restarts = max((one.restart_count for one in pod.status.container_statuses or ()), default=0)
    created = pod.metadata.creation_timestamp or _DAWN
    return (
        bool(pod.spec.node_name),
        _PHASES.get(pod.status.phase, 0),
        ready_since(pod) is not None,
        -restarts,
        -created.timestamp() if created > _DAWN else 0.0,
        pod.metadata.name,
    )

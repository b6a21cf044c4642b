"""The kinds that make pods, and where each keeps the template of them."""

from collections.abc import Mapping
from typing import Any, Final

TEMPLATES: Final[Mapping[str, str]] = {
    "CronJob": "spec.jobTemplate.spec.template",
    "DaemonSet": "spec.template",
    "Deployment": "spec.template",
    "Job": "spec.template",
    "ReplicaSet": "spec.template",
    "ReplicationController": "spec.template",
    "StatefulSet": "spec.template",
}
"""The path of the template, by kind."""


def template_of(kind: str, obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """The template that an object of one of these kinds has; empty where it has none."""
    found = obj
    for name in TEMPLATES[kind].split("."):
        found = found.get(name) or {}
    return found


def pod_spec_of(kind: str, obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """The spec that the pods of an object are judged by.

    Each claim of a StatefulSet is a volume of its pods, in place of one that the template calls
    the same.

    Source: ``volumesToAddForTemplates``, k8s.io/kubernetes pkg/apis/apps/validation/validation.go.
    """
    spec: Mapping[str, Any] = template_of(kind, obj).get("spec") or {}
    claims = (obj.get("spec") or {}).get("volumeClaimTemplates") if kind == "StatefulSet" else None
    if not claims:
        return spec
    names = dict.fromkeys((one.get("metadata") or {}).get("name", "") for one in claims)
    added = [{"name": name, "persistentVolumeClaim": {"claimName": "claim"}} for name in names]
    kept = [one for one in spec.get("volumes") or () if one.get("name") not in names]
    return {**spec, "volumes": [*added, *kept]}

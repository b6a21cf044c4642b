"""The scale subresource: ``autoscaling/v1`` Scale over workloads and custom resources.

Source: k8s.io/kubernetes pkg/registry/apps/*/storage, k8s.io/apiextensions-apiserver
pkg/registry/customresource/etcd.go.
"""

from collections.abc import Mapping
from typing import Any

from sandbox.errors import internal
from sandbox.objects.crds import CustomVersion, ScalePaths
from sandbox.objects.json_paths import find
from sandbox.objects.label_selectors import selector_of
from sandbox.objects.resources import Resource

SCALE = Resource(group="autoscaling", plural="scales", kind="Scale", subresources=())

_WORKLOAD = ScalePaths(
    spec_replicas=".spec.replicas", status_replicas=".status.replicas", selector=".spec.selector"
)
_COPIED = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def paths_of(custom: CustomVersion | None) -> ScalePaths:
    """Where the object keeps its numbers."""
    return custom.scale if custom is not None and custom.scale is not None else _WORKLOAD


def scale_of(obj: Mapping[str, Any], paths: ScalePaths, *, custom: bool) -> dict[str, Any]:
    """The Scale of an object. Of a workload zero replicas are left out, as Go leaves them out.

    Raises:
        ApiError: 500, a custom resource has no number where its definition points to.
    """
    replicas = find(obj, paths.spec_replicas)
    if custom and replicas is None:
        raise internal(f'the spec replicas field "{paths.spec_replicas}" does not exist')
    status: dict[str, Any] = {"replicas": find(obj, paths.status_replicas) or 0}
    selector = find(obj, paths.selector) if paths.selector else None
    text = selector if isinstance(selector, str) else _selector_text(obj, selector)
    if text:
        status["selector"] = text
    meta = obj["metadata"]
    return {
        "kind": SCALE.kind,
        "apiVersion": SCALE.api_version,
        "metadata": {name: meta[name] for name in _COPIED if name in meta},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _selector_text(obj: Mapping[str, Any], selector: Mapping[str, Any] | None) -> str:
    if not selector:
        return ""
    if obj.get("kind") == "ReplicationController":
        return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    return str(selector_of(selector))

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
    """Return the paths of the replica counts of an object."""
    return custom.scale if custom is not None and custom.scale is not None else _WORKLOAD


def scale_of(obj: Mapping[str, Any], paths: ScalePaths, *, custom: bool) -> dict[str, Any]:
    """Return the Scale of an object. Zero replicas of a workload are left out, as in Go.

    Raises:
        ApiError: 500, a custom resource has no number at the path of its definition.
    """
    replicas = find(obj, paths.spec_replicas)
    if custom and replicas is None:
        raise internal(f'the spec replicas field "{paths.spec_replicas}" does not exist')
    status: dict[str, Any] = {"replicas": find(obj, paths.status_replicas) or 0}
    selector = find(obj, paths.selector) if paths.selector else None
    if selector:
        text = selector if isinstance(selector, str) else str(selector_of(selector))
        status["selector"] = text
    meta = obj["metadata"]
    return {
        "kind": SCALE.kind,
        "apiVersion": SCALE.api_version,
        "metadata": {name: meta[name] for name in _COPIED if name in meta},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }

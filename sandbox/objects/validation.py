"""Rules that an object must satisfy before it is stored.

Built-in kinds: names, labels, the amounts of pods, and selectors and templates of workloads. Custom
resources: their schema. Everything else of built-in kinds is stored as it is. The rules of a resize
are in :mod:`sandbox.objects.resizing`. Source: k8s.io/kubernetes pkg/apis/*/validation.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from common.errors import Cause
from sandbox.errors import (
    field_forbidden,
    field_invalid,
    field_required,
    invalid,
)
from sandbox.objects import schema_validation
from sandbox.objects.label_selectors import selector_of
from sandbox.objects.metadata import copy_fields
from sandbox.objects.registry import Registry
from sandbox.objects.resizing import resize_causes, same_spec
from sandbox.objects.resources import PODS, Resource
from sandbox.objects.rules.amounts import pod_causes
from sandbox.objects.rules.metadata import metadata_causes, name_causes
from sandbox.version import KubernetesVersion

Json = Mapping[str, Any]

_WORKLOADS = frozenset({"DaemonSet", "Deployment", "Job", "ReplicaSet", "StatefulSet"})
_POD_UPDATES = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
    "(allow it to be set to 1 if it was previously negative)"
)


class Validation:
    """The rules of one API server."""

    def __init__(self, registry: Registry, version: KubernetesVersion) -> None:
        self._registry = registry
        self._version = version

    def check_new(self, resource: Resource, obj: Json) -> None:
        """Check a new object.

        Raises:
            ApiError: 422 with every broken rule.
        """
        name = obj["metadata"].get("name", "")
        causes = [*name_causes(resource, name), *metadata_causes(obj["metadata"])]
        if resource.custom:
            causes += self._schema_causes(resource, obj)
        elif resource is PODS:
            causes += pod_causes(obj, self._version)
        elif resource.kind in _WORKLOADS:
            causes += _workload_causes(obj)
        if causes:
            raise invalid(resource.kind, name, causes, group=resource.group)

    def check_changed(self, resource: Resource, subresource: str, old: Json, new: Json) -> None:
        """Check an update against the previous object.

        Raises:
            ApiError: 422 with every broken rule.
        """
        causes = list(metadata_causes(new["metadata"]))
        if resource.custom:
            causes += self._schema_causes(resource, new, old, subresource)
        elif resource is PODS and subresource == "resize":
            causes += resize_causes(old, new, self._version)
        elif resource is PODS and not subresource and old.get("spec") != new.get("spec"):
            causes += [*pod_causes(new, self._version), *_pod_update_causes(old, new)]
        elif resource.kind in _WORKLOADS:
            causes += _workload_causes(new)
        if causes:
            raise invalid(resource.kind, new["metadata"]["name"], causes, group=resource.group)

    def _schema_causes(
        self, resource: Resource, obj: Json, old: Json | None = None, part: str = ""
    ) -> list[Cause]:
        custom = self._registry.custom(resource)
        if custom is None:
            return []
        nil = "null" if self._version.minor >= 35 else '"null"'  # 1.34 isn't recorded
        return schema_validation.check(obj, custom.schema, nil=nil, old=old, part=part)


def _pod_update_causes(old: Json, new: Json) -> Iterator[Cause]:
    """Check that only images, tolerations, scheduling gates and the deadline change."""
    allowed, wanted = dict(old["spec"]), new["spec"]
    for kind in ("containers", "initContainers"):
        before, after = old["spec"].get(kind) or (), wanted.get(kind) or ()
        if before and len(before) == len(after):
            allowed[kind] = [
                {**one, "image": other.get("image")}
                for one, other in zip(before, after, strict=True)
            ]
    copy_fields(allowed, wanted, "activeDeadlineSeconds", "tolerations", "schedulingGates")
    if not same_spec(allowed, wanted):
        yield field_forbidden("spec", _POD_UPDATES)


def _workload_causes(workload: Json) -> Iterator[Cause]:
    """Check that a workload has a selector, and a template with containers and selected labels."""
    spec = workload.get("spec") or {}
    selector, template = spec.get("selector"), spec.get("template") or {}
    if not selector:
        yield field_required("spec.selector")
    if not (template.get("spec") or {}).get("containers"):
        yield field_required("spec.template.spec.containers")
    labels = (template.get("metadata") or {}).get("labels") or {}
    if selector and not selector_of(selector).matches(labels):
        text = "`selector` does not match template `labels`"
        yield field_invalid("spec.template.metadata.labels", labels, text)

"""The rules that an object must keep before it is stored.

Built-in kinds: names, and what clients trip over (pods, workloads, events, leases); custom
resources: their schema. What a resize may do is in :mod:`sandbox.objects.resizing`. Source:
k8s.io/kubernetes pkg/apis/*/validation.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from common.errors import Cause
from sandbox.errors import (
    field_duplicate,
    field_invalid,
    field_not_supported,
    field_required,
    invalid,
)
from sandbox.objects import crds, structural_schema
from sandbox.objects.metadata_rules import metadata_causes
from sandbox.objects.pod_rules import pod_resource_causes
from sandbox.objects.policy_rules import budget_causes, limit_range_causes, quota_causes
from sandbox.objects.registry import Registry
from sandbox.objects.resizing import validate_pod_update, validate_resize
from sandbox.objects.resources import Resource
from sandbox.objects.workload_rules import restart_causes, selector_causes
from sandbox.version import KubernetesVersion

Json = Mapping[str, Any]

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LONGEST_NAME = 253
_FREE_NAMES = frozenset({"rbac.authorization.k8s.io"})  # their names may hold colons
_TEMPLATES = frozenset(
    {"DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"}
)
_RESTART_POLICIES = ("Always", "OnFailure", "Never")


class Validation:
    """The rules of one API server."""

    def __init__(self, registry: Registry, version: KubernetesVersion) -> None:
        self._registry = registry
        self._version = version

    def check_new(self, resource: Resource, obj: Json) -> None:
        """Check an object that is to be created.

        Raises:
            ApiError: 422 with every broken rule.
        """
        name = obj["metadata"].get("name", "")
        causes = [*_name_causes(resource, name), *metadata_causes(obj["metadata"])]
        if resource.custom:
            causes += self._schema_causes(resource, obj)
        else:
            causes += _NEW.get(resource.kind, _no_rules)(obj)
            if resource.kind == "Pod":
                causes += pod_resource_causes(obj, self._version)
            elif resource.kind in _TEMPLATES:
                causes += self._template_causes(obj)
        if causes:
            raise invalid(resource.kind, name, causes, group=resource.group)

    def check_changed(self, resource: Resource, subresource: str, old: Json, new: Json) -> None:
        """Check an update against what was there.

        Raises:
            ApiError: 422 with every broken rule.
        """
        if resource.kind == "Pod" and not resource.custom:
            if subresource == "resize":
                validate_resize(old, new, self._version)
            elif not subresource and old.get("spec") != new.get("spec"):
                validate_pod_update(old, new, self._version)
            return
        if resource.custom:
            causes = self._schema_causes(resource, new)
        elif subresource:
            return
        else:
            causes = list(_CHANGED.get(resource.kind, _no_change_rules)(old, new))
            if resource.kind in _TEMPLATES:
                causes += self._template_causes(new)
        if causes:
            raise invalid(resource.kind, new["metadata"]["name"], causes, group=resource.group)

    def _template_causes(self, obj: Json) -> list[Cause]:
        """What is wrong with the amounts in a controller's template."""
        template = (obj.get("spec") or {}).get("template") or {}
        return [
            Cause(reason=one.reason, message=one.message, field=f"spec.template.{one.field}")
            for one in pod_resource_causes(template, self._version)
        ]

    def _schema_causes(self, resource: Resource, obj: Json) -> list[Cause]:
        custom = self._registry.custom(resource)
        if custom is None:
            return []
        nil = "null" if self._version.minor >= 35 else '"null"'  # 1.34 isn't recorded
        return structural_schema.check(obj, custom.schema, nil=nil)


def _name_causes(resource: Resource, name: str) -> Iterator[Cause]:
    if not name:
        yield field_required("metadata.name", "name or generateName is required")
    elif resource.group not in _FREE_NAMES and (
        len(name) > _LONGEST_NAME or _SUBDOMAIN.fullmatch(name) is None
    ):
        yield field_invalid("metadata.name", name, _SUBDOMAIN_RULE)


def _no_rules(_obj: Json) -> Iterator[Cause]:
    return iter(())


def _no_change_rules(_old: Json, _new: Json) -> Iterator[Cause]:
    return iter(())


def _new_pod(pod: Json) -> Iterator[Cause]:
    yield from _pod_spec(pod.get("spec") or {}, "spec")


def _new_workload(obj: Json) -> Iterator[Cause]:
    spec = obj.get("spec") or {}
    yield from selector_causes(str(obj.get("kind", "")), spec)
    template = spec.get("template") or {}
    yield from _template_spec(template)
    yield from restart_causes(spec)


def _new_old_workload(obj: Json) -> Iterator[Cause]:
    """A Job makes its own selector, and a ReplicationController may lack one."""
    template = (obj.get("spec") or {}).get("template") or {}
    yield from _template_spec(template)


def _template_spec(template: Json) -> Iterator[Cause]:
    yield from metadata_causes(template.get("metadata") or {}, "spec.template.metadata")
    yield from _pod_spec(template.get("spec") or {}, "spec.template.spec")


def _pod_spec(spec: Json, path: str) -> Iterator[Cause]:
    if not spec.get("containers"):
        yield field_required(f"{path}.containers")
    policy = spec.get("restartPolicy")
    if policy is not None and policy not in _RESTART_POLICIES:
        yield field_not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES)
    seen: set[str] = set()
    for part in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(part) or ()):
            below = f"{path}.{part}[{index}]"
            name = container.get("name", "")
            if not name:
                yield field_required(f"{below}.name")
            elif name in seen:
                yield field_duplicate(f"{below}.name", name)
            seen.add(name)
            if not container.get("image"):
                yield field_required(f"{below}.image")


def _new_event(event: Json) -> Iterator[Cause]:
    namespace = event["metadata"].get("namespace", "")
    about = (event.get("involvedObject") or {}).get("namespace", "")
    if about != namespace and not (about == "" and namespace == "default"):
        yield field_invalid("involvedObject.namespace", about, "does not match event.namespace")


def _new_lease(lease: Json) -> Iterator[Cause]:
    spec = lease.get("spec") or {}
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield field_invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if transitions is not None and transitions < 0:
        text = "must be greater than or equal to 0"
        yield field_invalid("spec.leaseTransitions", transitions, text)


def _changed_workload(old: Json, new: Json) -> Iterator[Cause]:
    before = (old.get("spec") or {}).get("selector")
    after = (new.get("spec") or {}).get("selector")
    if before != after:
        yield field_invalid("spec.selector", after, "field is immutable")
    else:
        yield from _new_workload(new)


_NEW: Mapping[str, Callable[[Json], Iterator[Cause]]] = {
    "CustomResourceDefinition": crds.violations,
    "DaemonSet": _new_workload,
    "Deployment": _new_workload,
    "Event": _new_event,
    "Job": _new_old_workload,
    "Lease": _new_lease,
    "LimitRange": limit_range_causes,
    "Pod": _new_pod,
    "PodDisruptionBudget": budget_causes,
    "ReplicaSet": _new_workload,
    "ReplicationController": _new_old_workload,
    "ResourceQuota": quota_causes,
    "StatefulSet": _new_workload,
}
_CHANGED: Mapping[str, Callable[[Json, Json], Iterator[Cause]]] = {
    "CustomResourceDefinition": lambda _old, new: crds.violations(new),
    "DaemonSet": _changed_workload,
    "Deployment": _changed_workload,
    "Job": lambda _old, new: _new_old_workload(new),
    "Lease": lambda _old, new: _new_lease(new),
    "LimitRange": lambda _old, new: limit_range_causes(new),
    "PodDisruptionBudget": lambda _old, new: budget_causes(new),
    "ReplicaSet": _changed_workload,
    "ReplicationController": lambda _old, new: _new_old_workload(new),
    "ResourceQuota": lambda _old, new: quota_causes(new),
    "StatefulSet": _changed_workload,
}

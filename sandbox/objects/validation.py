"""The rules that an object must keep before it is stored.

Built-in kinds: names, and what clients trip over (pods, workloads, events, leases); custom
resources: their schema. What a resize may do is in :mod:`sandbox.objects.resizing`. Source:
k8s.io/kubernetes pkg/apis/*/validation.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from common.errors import Cause
from sandbox.errors import field_invalid, field_required, fields_invalid, invalid
from sandbox.objects import structural_schema
from sandbox.objects.access_resources import RBAC
from sandbox.objects.registry import Registry
from sandbox.objects.resizing import resize_causes
from sandbox.objects.resources import EVENTS, Resource
from sandbox.objects.rules import definitions
from sandbox.objects.rules.access import binding_causes, changed_binding_causes, role_causes
from sandbox.objects.rules.claims import changed_claim_causes, claim_causes
from sandbox.objects.rules.data import (
    changed_config_map_causes,
    changed_secret_causes,
    config_map_causes,
    secret_causes,
)
from sandbox.objects.rules.dns_names import (
    label_problems,
    old_label_problems,
    segment_problems,
    subdomain_problems,
)
from sandbox.objects.rules.events import changed_event_causes, event_causes
from sandbox.objects.rules.jobs import cron_job_causes, job_causes, job_change_causes
from sandbox.objects.rules.metadata import (
    annotation_causes,
    changed_metadata_causes,
    label_causes,
    metadata_causes,
    namespace_causes,
)
from sandbox.objects.rules.numbers import negative_causes
from sandbox.objects.rules.plain import (
    changed_priority_causes,
    changed_revision_causes,
    priority_causes,
    revision_causes,
)
from sandbox.objects.rules.pod_specs import creation_causes, pod_causes, spec_causes
from sandbox.objects.rules.pod_updates import update_causes
from sandbox.objects.rules.policies import budget_causes, limit_range_causes, quota_causes
from sandbox.objects.rules.services import changed_service_causes, service_causes
from sandbox.objects.rules.webhooks import webhook_causes
from sandbox.objects.rules.workloads import workload_causes, workload_change_causes
from sandbox.objects.templates import TEMPLATES, pod_spec_of, template_of
from sandbox.version import KubernetesVersion

Json = Mapping[str, Any]

_HOST_NAMES = frozenset({"Namespace", "Service", "StatefulSet"})  # names that hosts get
_FREE_NAMES = frozenset({RBAC})  # groups whose names may hold colons


class Validation:
    """The rules of one API server."""

    def __init__(self, registry: Registry, version: KubernetesVersion) -> None:
        self._registry = registry
        self._version = version

    def check_new(self, resource: Resource, obj: Json, *, group: str | None = None) -> None:
        """Check an object that is to be created.

        ``group`` is that of the request, where it isn't the resource's own.

        Raises:
            ApiError: 422 with every broken rule.
        """
        name = obj["metadata"].get("name", "")
        causes = [
            *_name_causes(resource, name, self._version, group),
            *metadata_causes(obj["metadata"], custom=resource.custom),
        ]
        if resource.custom:
            causes += self._schema_causes(resource, obj)
        elif resource is EVENTS:
            causes += event_causes(obj, group=group or "")
        else:
            if rules := _NEW.get(resource.kind):
                causes += rules(obj)
            if resource.kind == "Pod":
                causes += [*pod_causes(obj, self._version), *creation_causes(obj)]
            elif resource.kind in TEMPLATES:
                causes += self._workload_causes(resource.kind, None, obj)
        if causes:
            raise invalid(resource.kind, name, causes, group=resource.group)

    def check_changed(
        self,
        resource: Resource,
        subresource: str,
        old: Json,
        new: Json,
        *,
        group: str | None = None,
    ) -> None:
        """Check an update against what was there; ``group`` as in :meth:`check_new`.

        Raises:
            ApiError: 422 with every broken rule.
        """
        causes = list(
            changed_metadata_causes(
                old["metadata"], new["metadata"], kind=resource.kind, custom=resource.custom
            )
        )
        if resource.kind == "Pod" and not resource.custom:
            if subresource == "resize":
                causes += resize_causes(old, new, self._version)
            elif not subresource and old.get("spec") != new.get("spec"):
                causes += update_causes(old, new, self._version)
        elif resource.custom:
            causes += self._schema_causes(resource, new, old, subresource)
        elif subresource:
            pass
        elif resource is EVENTS:
            causes += changed_event_causes(old, new, group=group or "")
        else:
            if rules := _ALWAYS.get(resource.kind):
                causes += rules(new)
            elif change_rules := _CHANGED.get(resource.kind):
                causes += change_rules(old, new)
            if resource.kind in TEMPLATES:
                causes += self._workload_causes(resource.kind, old, new)
        if causes:
            raise invalid(resource.kind, new["metadata"]["name"], causes, group=resource.group)

    def _workload_causes(self, kind: str, old: Json | None, new: Json) -> Iterator[Cause]:
        """What is wrong with an object that makes pods; ``old`` is None for a new one."""
        template = self._template_causes(kind, new)
        if kind == "CronJob":
            return cron_job_causes(new, template, old)
        if kind == "Job":
            return (
                job_causes(new, template) if old is None else job_change_causes(old, new, template)
            )
        if old is None:
            return workload_causes(kind, new, template)
        return workload_change_causes(kind, old, new, template)

    def _template_causes(self, kind: str, obj: Json) -> list[Cause]:
        """What is wrong with the pods to be, and with the amounts that they ask for."""
        path, template = TEMPLATES[kind], template_of(kind, obj)
        meta = template.get("metadata") or {}
        return [
            *label_causes(meta.get("labels"), f"{path}.labels"),
            *annotation_causes(meta.get("annotations"), f"{path}.annotations"),
            *spec_causes(pod_spec_of(kind, obj), f"{path}.spec", self._version),
        ]

    def _schema_causes(
        self, resource: Resource, obj: Json, old: Json | None = None, part: str = ""
    ) -> list[Cause]:
        custom = self._registry.custom(resource)
        if custom is None:
            return []
        nil = "null" if self._version.minor >= 35 else '"null"'  # 1.34 isn't recorded
        return structural_schema.check(obj, custom.schema, nil=nil, old=old, part=part)


def _name_causes(
    resource: Resource, name: str, version: KubernetesVersion, group: str | None
) -> Iterator[Cause]:
    if not name:
        yield field_required("metadata.name", "name or generateName is required")
        return
    problems = label_problems if resource.kind in _HOST_NAMES else subdomain_problems
    if resource.kind == "Service" and version.minor < 36:
        problems = old_label_problems
    elif resource.group in _FREE_NAMES or (resource is EVENTS and not group):
        problems = segment_problems
    yield from fields_invalid("metadata.name", name, problems(name))


def _lease_causes(lease: Json) -> Iterator[Cause]:
    spec = lease.get("spec") or {}
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield field_invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    yield from negative_causes(spec, "spec", "leaseTransitions")


# What an object keeps whenever it is written …
_ALWAYS: Mapping[str, Callable[[Json], Iterator[Cause]]] = {
    "ClusterRole": role_causes,
    "Lease": _lease_causes,
    "LimitRange": limit_range_causes,
    "MutatingWebhookConfiguration": webhook_causes,
    "PodDisruptionBudget": budget_causes,
    "ResourceQuota": quota_causes,
    "Role": role_causes,
    "ValidatingWebhookConfiguration": webhook_causes,
}
# … when it is created …
_NEW: Mapping[str, Callable[[Json], Iterator[Cause]]] = {
    **_ALWAYS,
    "ClusterRoleBinding": binding_causes,
    "ConfigMap": config_map_causes,
    "ControllerRevision": revision_causes,
    "CustomResourceDefinition": definitions.new_causes,
    "Namespace": namespace_causes,
    "PersistentVolumeClaim": claim_causes,
    "PriorityClass": priority_causes,
    "RoleBinding": binding_causes,
    "Secret": secret_causes,
    "Service": service_causes,
}
# … and when it is changed, where that depends on what it was.
_CHANGED: Mapping[str, Callable[[Json, Json], Iterator[Cause]]] = {
    "ClusterRoleBinding": changed_binding_causes,
    "ConfigMap": changed_config_map_causes,
    "ControllerRevision": changed_revision_causes,
    "CustomResourceDefinition": definitions.changed_causes,
    "PersistentVolumeClaim": changed_claim_causes,
    "PriorityClass": changed_priority_causes,
    "RoleBinding": changed_binding_causes,
    "Secret": changed_secret_causes,
    "Service": changed_service_causes,
}

"""What roles and bindings must say.

Source: k8s.io/kubernetes pkg/apis/rbac/validation/validation.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from common.errors import Cause
from sandbox.errors import field_invalid, field_not_supported, field_required, fields_invalid
from sandbox.objects.access_resources import CLUSTER_ROLE_BINDINGS, RBAC, ROLES
from sandbox.objects.rules.dns_names import segment_problems, subdomain_problems

Json = Mapping[str, Any]

_SUBJECTS = ("ServiceAccount", "User", "Group")


def role_causes(role: Json) -> Iterator[Cause]:
    """The rules of a Role or a ClusterRole."""
    for index, rule in enumerate(role.get("rules") or ()):
        yield from _rule_causes(rule, f"rules[{index}]", namespaced=role["kind"] == ROLES.kind)
    aggregation = role.get("aggregationRule")
    if aggregation is not None and not aggregation.get("clusterRoleSelectors"):
        text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        yield field_required("aggregationRule.clusterRoleSelectors", text)


def _rule_causes(rule: Json, path: str, *, namespaced: bool) -> Iterator[Cause]:
    if not rule.get("verbs"):
        yield field_required(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if urls:
        place = f"{path}.nonResourceURLs"
        if namespaced:
            yield field_invalid(place, urls, "namespaced rules cannot apply to non-resource URLs")
        if any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            yield field_invalid(place, urls, text)
        return
    for name, what in (("apiGroups", "api group"), ("resources", "resource")):
        if not rule.get(name):
            text = f"resource rules must supply at least one {what}"
            yield field_required(f"{path}.{name}", text)


def binding_causes(binding: Json) -> Iterator[Cause]:
    """The rules of a RoleBinding or a ClusterRoleBinding."""
    everywhere = binding["kind"] == CLUSTER_ROLE_BINDINGS.kind
    reference = binding.get("roleRef") or {}
    group, kind, name = (reference.get(one) or "" for one in ("apiGroup", "kind", "name"))
    if group != RBAC:
        yield field_not_supported("roleRef.apiGroup", group, (RBAC,))
    kinds = ("ClusterRole",) if everywhere else ("Role", "ClusterRole")
    if kind not in kinds:
        yield field_not_supported("roleRef.kind", kind, kinds)
    if not name:
        yield field_required("roleRef.name")
    else:
        yield from fields_invalid("roleRef.name", name, segment_problems(name))
    for index, subject in enumerate(binding.get("subjects") or ()):
        yield from _subject_causes(subject, f"subjects[{index}]", everywhere=everywhere)


def changed_binding_causes(old: Json, new: Json) -> Iterator[Cause]:
    """The same for a change; the role stays what it is."""
    yield from binding_causes(new)
    if (old.get("roleRef") or {}) != (new.get("roleRef") or {}):
        reference = new.get("roleRef") or {}
        names = {"APIGroup": "apiGroup", "Kind": "kind", "Name": "name"}  # in Go, in JSON
        shown = {name: reference.get(field) or "" for name, field in names.items()}
        yield field_invalid("roleRef", shown, "cannot change roleRef")


def _subject_causes(subject: Json, path: str, *, everywhere: bool) -> Iterator[Cause]:
    kind, name, group = (subject.get(one) or "" for one in ("kind", "name", "apiGroup"))
    if not name:
        yield field_required(f"{path}.name")
    if kind == "ServiceAccount":
        if name:
            yield from fields_invalid(f"{path}.name", name, subdomain_problems(name))
        if group:
            yield field_not_supported(f"{path}.apiGroup", group, ("",))
        if everywhere and not subject.get("namespace"):
            yield field_required(f"{path}.namespace")
    elif kind not in _SUBJECTS:
        yield field_not_supported(f"{path}.kind", kind, _SUBJECTS)
    elif group != RBAC:
        yield field_not_supported(f"{path}.apiGroup", group, (RBAC,))

"""The roles and bindings that a new cluster already holds, as far as this server has use for them.

Source: k8s.io/kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go; the rules
of admin, edit and view are those of Kubernetes 1.36 for the kinds that are served here.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sandbox.objects.access_resources import (
    AUTHENTICATION,
    AUTHORIZATION,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    RBAC,
)
from sandbox.objects.resources import Resource

Json = dict[str, Any]
Words = Sequence[str]

PARTS = "sandbox:parts"
"""The binding that lets the sandbox's own parts do everything."""

_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_ANNOTATIONS = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
_AUTHENTICATED = "system:authenticated"
_HEALTH = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*")

_CREATE = ("create",)
_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_SCALED = ("deployments", "replicasets", "statefulsets")


def _rule(groups: Words, resources: Words, verbs: Words) -> Json:
    return {"apiGroups": list(groups), "resources": sorted(resources), "verbs": list(verbs)}


def _urls(paths: Iterable[str]) -> Json:
    return {"nonResourceURLs": sorted(paths), "verbs": ["get"]}


def _with(names: Words, *subresources: str) -> list[str]:
    return [*names, *(f"{name}/{below}" for name in names for below in subresources)]


_VIEW = (
    _rule(
        ("",),
        [
            *_with(("persistentvolumeclaims", "services"), "status"),
            *_with(("replicationcontrollers",), "scale"),
            *("configmaps", "endpoints", "pods", "serviceaccounts"),
        ],
        _READ,
    ),
    _rule(
        ("",),
        [
            *("limitranges", "namespaces/status", "pods/log", "pods/status"),
            *("replicationcontrollers/status", "resourcequotas", "resourcequotas/status"),
        ],
        _READ,
    ),
    _rule(("",), ("namespaces",), _READ),
    _rule(("", "events.k8s.io"), ("events",), _READ),
    _rule(("discovery.k8s.io",), ("endpointslices",), _READ),
    _rule(
        ("apps",),
        [
            "controllerrevisions",
            *_with(("daemonsets",), "status"),
            *_with(_SCALED, "scale", "status"),
        ],
        _READ,
    ),
    _rule(("batch",), _with(("cronjobs", "jobs"), "status"), _READ),
    _rule(("policy",), _with(("poddisruptionbudgets",), "status"), _READ),
)
_EDIT = (
    _rule(("",), ("secrets",), _READ),
    _rule(("",), ("serviceaccounts",), ("impersonate",)),
    _rule(("",), ("pods",), _WRITE),
    _rule(("",), ("pods/eviction",), _CREATE),
    _rule(
        ("",),
        [
            *_with(("replicationcontrollers",), "scale"),
            *("configmaps", "persistentvolumeclaims", "secrets", "serviceaccounts", "services"),
        ],
        _WRITE,
    ),
    _rule(("",), ("serviceaccounts/token",), _CREATE),
    _rule(("", "events.k8s.io"), ("events",), _WRITE),
    _rule(("apps",), ["daemonsets", *_with(_SCALED, "scale")], _WRITE),
    _rule(("batch",), ("cronjobs", "jobs"), _WRITE),
    _rule(("policy",), ("poddisruptionbudgets",), _WRITE),
    _rule(("coordination.k8s.io",), ("leases",), (*_READ, *_WRITE)),
)
_ADMIN = (
    _rule((AUTHORIZATION,), ("localsubjectaccessreviews",), _CREATE),
    _rule((RBAC,), ("rolebindings", "roles"), (*_READ, *_WRITE)),
)

_ROLES: dict[str, tuple[Json, ...]] = {
    "cluster-admin": (_rule("*", "*", "*"), {"nonResourceURLs": ["*"], "verbs": ["*"]}),
    "system:auth-delegator": (
        _rule((AUTHENTICATION,), ("tokenreviews",), _CREATE),
        _rule((AUTHORIZATION,), ("subjectaccessreviews",), _CREATE),
    ),
    "system:basic-user": (
        _rule((AUTHORIZATION,), ("selfsubjectaccessreviews", "selfsubjectrulesreviews"), _CREATE),
        _rule((AUTHENTICATION,), ("selfsubjectreviews",), _CREATE),
    ),
    "system:discovery": (_urls((*_HEALTH, *_DISCOVERY)),),
    "system:public-info-viewer": (_urls(_HEALTH),),
}
_PARTS_OF = {"view": _VIEW, "edit": _EDIT, "admin": _ADMIN}
_INTO = {"view": "edit", "edit": "admin"}  # whose rules the next role takes over


def bootstrap_roles(controllers: Iterable[str]) -> Iterator[tuple[Resource, Json]]:
    """The roles and bindings; ``controllers`` are accounts in kube-system with every right.

    The aggregated roles come with the rules that the aggregation leads to.
    """
    for name, rules in _ROLES.items():
        yield CLUSTER_ROLES, _role(name, rules)
    gathered: tuple[Json, ...] = ()
    for name, rules in _PARTS_OF.items():
        label = f"{RBAC}/aggregate-to-{name}"
        yield CLUSTER_ROLES, _role(f"system:aggregate-to-{name}", rules, {label: "true"})
        into = {f"{RBAC}/aggregate-to-{_INTO[name]}": "true"} if name in _INTO else {}
        gathered = (*rules, *gathered)
        role = _role(name, gathered, into)
        role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}
        yield CLUSTER_ROLES, role
    public = [_group(_AUTHENTICATED), _group("system:unauthenticated")]
    yield _binding("cluster-admin", "cluster-admin", [_group("system:masters")])
    yield _binding("system:basic-user", "system:basic-user", [_group(_AUTHENTICATED)])
    yield _binding("system:discovery", "system:discovery", [_group(_AUTHENTICATED)])
    yield _binding("system:public-info-viewer", "system:public-info-viewer", public)
    accounts = [
        {"kind": "ServiceAccount", "namespace": "kube-system", "name": name} for name in controllers
    ]
    users = [_user("system:kube-controller-manager"), _user("system:kube-scheduler")]
    yield _binding(PARTS, "cluster-admin", [_group("system:nodes"), *users, *accounts])


def _role(name: str, rules: Iterable[Json], labels: Json | None = None) -> Json:
    return {"metadata": _metadata(name, labels), "rules": [dict(rule) for rule in rules]}


def _binding(name: str, role: str, subjects: list[Json]) -> tuple[Resource, Json]:
    reference = {"apiGroup": RBAC, "kind": CLUSTER_ROLES.kind, "name": role}
    body = {"metadata": _metadata(name, None), "roleRef": reference, "subjects": subjects}
    return CLUSTER_ROLE_BINDINGS, body


def _metadata(name: str, labels: Json | None) -> Json:
    return {
        "name": name,
        "labels": {**_LABELS, **(labels or {})},
        "annotations": dict(_ANNOTATIONS),
    }


def _group(name: str) -> Json:
    return {"apiGroup": RBAC, "kind": "Group", "name": name}


def _user(name: str) -> Json:
    return {"apiGroup": RBAC, "kind": "User", "name": name}

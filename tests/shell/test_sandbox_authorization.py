"""RBAC on the sandbox's API server: rules, bindings, and the sentences of a refusal."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from sandbox_client import Answer, Api, api_server, pod

ROLES = "/apis/rbac.authorization.k8s.io/v1"
PODS = "/api/v1/namespaces/golden/pods"
WEAK = "system:serviceaccount:golden:weak"


class Weak:
    """An API server, and a service account to which rules are given."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.token = api.server.authenticator.issue(WEAK)

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        return await self.api(method, path, body, authorization=f"Bearer {self.token}", **headers)

    async def may(self, rule: dict[str, Any], *, namespace: str = "") -> None:
        """Bind a ClusterRole with one rule, in a namespace or in the whole cluster."""
        await self.role("tested", [rule])
        await self.bind("tested", namespace=namespace)

    async def role(self, name: str, rules: list[dict[str, Any]], **fields: Any) -> None:
        labels = fields.pop("labels", {})
        body = {"metadata": {"name": name, "labels": labels}, "rules": rules, **fields}
        await self.api.make(f"{ROLES}/clusterroles", body)

    async def bind(self, role: str, *, namespace: str = "", kind: str = "ClusterRole") -> None:
        path = f"{ROLES}/namespaces/{namespace}/rolebindings" if namespace else None
        body = {
            "metadata": {"name": f"to-{role}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{"kind": "ServiceAccount", "namespace": "golden", "name": "weak"}],
        }
        await self.api.make(path or f"{ROLES}/clusterrolebindings", body)


@pytest.fixture
async def weak() -> AsyncIterator[Weak]:
    async with api_server() as api:
        await api.make(PODS, pod())
        yield Weak(api)


def rule(verbs: str, resources: str, *, group: str = "", **fields: Any) -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "resources": resources.split(),
        "verbs": verbs.split(),
        **fields,
    }


REFUSALS = {
    "a list in the whole cluster": (
        "GET",
        "/api/v1/pods",
        (
            'pods is forbidden: User "{}" cannot list resource "pods" in API group "" '
            "at the cluster scope"
        ),
        {"kind": "pods"},
    ),
    "a watch in a namespace": (
        "GET",
        f"{PODS}?watch=1",
        (
            'pods is forbidden: User "{}" cannot watch resource "pods" in API group "" '
            'in the namespace "golden"'
        ),
        {"kind": "pods"},
    ),
    "a list of one name": (
        "GET",
        f"{PODS}?fieldSelector=metadata.name%3Dweb",
        (
            'pods "web" is forbidden: User "{}" cannot list resource "pods" in API group "" '
            'in the namespace "golden"'
        ),
        {"name": "web", "kind": "pods"},
    ),
    "a resize, before its body is read": (
        "PATCH",
        f"{PODS}/web/resize",
        (
            'pods "web" is forbidden: User "{}" cannot patch resource "pods/resize" '
            'in API group "" in the namespace "golden"'
        ),
        {"name": "web", "kind": "pods"},
    ),
    "an eviction": (
        "POST",
        f"{PODS}/web/eviction",
        (
            'pods "web" is forbidden: User "{}" cannot create resource "pods/eviction" '
            'in API group "" in the namespace "golden"'
        ),
        {"name": "web", "kind": "pods"},
    ),
    "a deletion of all": (
        "DELETE",
        PODS,
        (
            'pods is forbidden: User "{}" cannot deletecollection resource "pods" in API group "" '
            'in the namespace "golden"'
        ),
        {"kind": "pods"},
    ),
    "a scale of another group": (
        "PATCH",
        "/apis/apps/v1/namespaces/golden/deployments/x/scale",
        (
            'deployments.apps "x" is forbidden: User "{}" cannot patch resource '
            '"deployments/scale" in API group "apps" in the namespace "golden"'
        ),
        {"name": "x", "group": "apps", "kind": "deployments"},
    ),
    "a namespace, which is within itself": (
        "GET",
        "/api/v1/namespaces/golden",
        (
            'namespaces "golden" is forbidden: User "{}" cannot get resource "namespaces" in API '
            'group "" in the namespace "golden"'
        ),
        {"name": "golden", "kind": "namespaces"},
    ),
    "a kind that nobody serves": (
        "GET",
        "/apis/nope.test/v1/foos/x",
        (
            'foos.nope.test "x" is forbidden: User "{}" cannot get resource "foos" in API group '
            '"nope.test" at the cluster scope'
        ),
        {"name": "x", "group": "nope.test", "kind": "foos"},
    ),
    "a path outside of the API": (
        "GET",
        "/metrics",
        'forbidden: User "{}" cannot get path "/metrics"',
        {},
    ),
    "a method on such a path": (
        "POST",
        "/version",
        'forbidden: User "{}" cannot post path "/version"',
        {},
    ),
}


@pytest.mark.parametrize(
    ("method", "path", "message", "details"), REFUSALS.values(), ids=REFUSALS.keys()
)
async def test_refused(
    weak: Weak, method: str, path: str, message: str, details: dict[str, str]
) -> None:
    answer = await weak(method, path, b"{")
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message.format(WEAK),
        "reason": "Forbidden",
        "details": details,
        "code": 403,
    }


GRANTED = {
    "the verb and the resource": (rule("get", "pods"), ("GET", f"{PODS}/web"), 200),
    "another verb": (rule("list", "pods"), ("GET", f"{PODS}/web"), 403),
    "every verb": (rule("*", "pods"), ("GET", f"{PODS}/web"), 200),
    "another group": (rule("get", "pods", group="apps"), ("GET", f"{PODS}/web"), 403),
    "every group": (rule("get", "pods", group="*"), ("GET", f"{PODS}/web"), 200),
    "a resource without its subresources": (rule("get", "pods"), ("GET", f"{PODS}/web/log"), 403),
    "a subresource": (rule("get", "pods/log"), ("GET", f"{PODS}/web/log"), 204),
    "a subresource of every resource": (rule("get", "*/log"), ("GET", f"{PODS}/web/log"), 204),
    "another subresource of every resource": (
        rule("get", "*/scale"),
        ("GET", f"{PODS}/web/log"),
        403,
    ),
    "every resource with its subresources": (rule("get", "*"), ("GET", f"{PODS}/web/log"), 204),
    "its name": (rule("get", "pods", resourceNames=["web"]), ("GET", f"{PODS}/web"), 200),
    "another name": (rule("get", "pods", resourceNames=["x"]), ("GET", f"{PODS}/web"), 403),
    "a name, for a list": (rule("list", "pods", resourceNames=["web"]), ("GET", PODS), 403),
    "a name, for a list of it": (
        rule("list", "pods", resourceNames=["web"]),
        ("GET", f"{PODS}?fieldSelector=metadata.name=web"),
        200,
    ),
    "a path": (
        {"nonResourceURLs": ["/sandbox/audit"], "verbs": ["get"]},
        ("GET", "/sandbox/audit"),
        200,
    ),
    "the beginning of a path": (
        {"nonResourceURLs": ["/sandbox/*"], "verbs": ["get"]},
        ("GET", "/sandbox/audit"),
        200,
    ),
    "another path": (
        {"nonResourceURLs": ["/sandbox"], "verbs": ["get"]},
        ("GET", "/sandbox/audit"),
        403,
    ),
}


@pytest.mark.parametrize(("given", "asked", "status"), GRANTED.values(), ids=GRANTED.keys())
async def test_a_rule_of(
    weak: Weak, given: dict[str, Any], asked: tuple[str, str], status: int
) -> None:
    await weak.may(given)
    assert (await weak(*asked)).status == status


async def test_a_role_binding_holds_in_its_namespace(weak: Weak) -> None:
    await weak.may(rule("list", "pods"), namespace="golden")
    assert (await weak("GET", PODS)).status == 200
    assert (await weak("GET", "/api/v1/namespaces/default/pods")).status == 403
    assert (await weak("GET", "/api/v1/pods")).status == 403


async def test_a_role_of_the_namespace(weak: Weak) -> None:
    role = {"metadata": {"name": "reader"}, "rules": [rule("list", "pods")]}
    await weak.api.make(f"{ROLES}/namespaces/golden/roles", role)
    await weak.bind("reader", namespace="golden", kind="Role")
    assert (await weak("GET", PODS)).status == 200


async def test_changes_of_roles_and_bindings_count_at_once(weak: Weak) -> None:
    assert (await weak("GET", PODS)).status == 403
    await weak.may(rule("list", "pods"))
    assert (await weak("GET", PODS)).status == 200
    await weak.api.merge(f"{ROLES}/clusterroles/tested", {"rules": []})
    assert (await weak("GET", PODS)).status == 403
    await weak.api.merge(f"{ROLES}/clusterroles/tested", {"rules": [rule("list", "pods")]})
    assert (await weak("GET", PODS)).status == 200
    await weak.api("DELETE", f"{ROLES}/clusterrolebindings/to-tested")
    assert (await weak("GET", PODS)).status == 403


async def test_roles_that_are_not_there_are_named(weak: Weak) -> None:
    await weak.bind("lost", namespace="golden")
    message = (await weak("GET", PODS)).json["message"]
    assert message.endswith(': RBAC: clusterrole.rbac.authorization.k8s.io "lost" not found')
    await weak.bind("gone")
    message = (await weak("GET", PODS)).json["message"]
    assert message.endswith(
        ': RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, '
        'clusterrole.rbac.authorization.k8s.io "lost" not found]'
    )


async def test_roles_are_aggregated_by_their_labels(weak: Weak) -> None:
    selector = {"clusterRoleSelectors": [{"matchLabels": {"into": "monitoring"}}]}
    await weak.role("monitoring", [], aggregationRule=selector)
    await weak.bind("monitoring")
    await weak.role("other", [rule("list", "pods")], labels={"into": "other"})
    assert (await weak("GET", PODS)).status == 403
    await weak.role("part", [rule("list", "pods")], labels={"into": "monitoring"})
    assert (await weak("GET", PODS)).status == 200


BOOTSTRAP = {
    "view reads pods": ("view", "GET", PODS, 200),
    "view reads no secrets": ("view", "GET", "/api/v1/namespaces/golden/secrets", 403),
    "view evicts nobody": ("view", "POST", f"{PODS}/web/eviction", 403),
    "edit evicts": ("edit", "POST", f"{PODS}/web/eviction", 201),
    "edit resizes nothing": ("edit", "PATCH", f"{PODS}/web/resize", 403),
    "edit reads what view reads": ("edit", "GET", PODS, 200),
    "edit reads no roles": ("edit", "GET", f"{ROLES}/namespaces/golden/roles", 403),
    "admin reads roles": ("admin", "GET", f"{ROLES}/namespaces/golden/roles", 200),
    "admin resizes nothing": ("admin", "PATCH", f"{PODS}/web/resize", 403),
    "cluster-admin does everything": ("cluster-admin", "GET", "/api/v1/nodes", 200),
}


@pytest.mark.parametrize(("role", "method", "path", "status"), BOOTSTRAP.values(), ids=BOOTSTRAP)
async def test_bootstrap_roles(weak: Weak, role: str, method: str, path: str, status: int) -> None:
    await weak.bind(role)
    assert (await weak(method, path, {"metadata": {"name": "web"}})).status == status


async def test_users_without_any_binding_read_what_is_public(weak: Weak) -> None:
    for path in ("/apis", "/api/v1", "/apis/apps/v1", "/openapi/v3", "/version"):
        assert (await weak("GET", path)).status == 200


async def test_anonymous_callers_read_health_and_version_only(weak: Weak) -> None:
    for path in ("/healthz", "/livez", "/readyz", "/version"):
        assert (await weak.api("GET", path, authorization="")).status == 200
    refused = await weak.api("GET", "/", authorization="")
    assert refused.status == 403
    assert refused.json["message"] == 'forbidden: User "system:anonymous" cannot get path "/"'
    assert (await weak.api("GET", PODS, authorization="")).status == 403


async def test_refusals_are_in_the_audit_log(weak: Weak) -> None:
    await weak("GET", f"{PODS}?watch=1")
    (noted,) = weak.api.server.audit.find({"user": WEAK})
    assert (noted.verb, noted.code) == ("watch", 403)


async def test_the_body_of_a_refused_request_may_be_anything(weak: Weak) -> None:
    refused = await weak("POST", PODS, b"\x00", content_type="application/vnd.kubernetes.protobuf")
    assert refused.status == 403
    assert msgspec.json.decode(refused.body)["reason"] == "Forbidden"

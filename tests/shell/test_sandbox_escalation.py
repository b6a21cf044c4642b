"""Nobody gives away rights that he doesn't have: roles and bindings on the sandbox."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from sandbox_client import Answer, Api, api_server

RBAC = "rbac.authorization.k8s.io"
BASE = f"/apis/{RBAC}/v1"
ROLES = f"{BASE}/namespaces/golden/roles"
BINDINGS = f"{BASE}/namespaces/golden/rolebindings"
CLUSTER_ROLES = f"{BASE}/clusterroles"
USER = "jane"


class Jane:
    """Somebody with one ClusterRole, who writes roles."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.token = api.server.authenticator.issue(USER)

    async def __call__(self, method: str, path: str, body: Any) -> Answer:
        return await self.api(
            method,
            path,
            body,
            authorization=f"Bearer {self.token}",
            content_type="application/merge-patch+json"
            if method == "PATCH"
            else "application/json",
        )

    async def holds(self, *rules: dict[str, Any]) -> None:
        writes = rule("create update patch", "roles clusterroles rolebindings", group=RBAC)
        await self.api.make(CLUSTER_ROLES, role("held", writes, *rules))
        bound = binding("held", kind="ClusterRole")
        await self.api.make(f"{BASE}/clusterrolebindings", bound)


def rule(verbs: str, resources: str, *, group: str = "", **more: Any) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split(), **more}


def role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules)}


def binding(name: str, *, kind: str = "Role") -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "roleRef": {"kind": kind, "name": name},
        "subjects": [{"kind": "User", "name": USER}],
    }


@pytest.fixture
async def jane() -> AsyncIterator[Jane]:
    async with api_server() as api:
        yield Jane(api)


WANTED = rule("get list", "pods pods/log")
HELD = {
    "the rule itself": [WANTED],
    "every verb": [rule("*", "pods pods/log")],
    "every resource": [rule("get list", "*")],
    "every group": [rule("get list", "pods pods/log", group="*")],
    "the subresource of everything": [rule("get list", "pods */log")],
    "several rules together": [rule("get", "pods pods/log"), rule("list", "pods pods/log")],
    "the right to escalate": [rule("escalate", "roles", group=RBAC)],
}


@pytest.mark.parametrize("held", HELD.values(), ids=HELD)
async def test_a_role_may_be_written_by_who_holds(jane: Jane, held: list[dict[str, Any]]) -> None:
    await jane.holds(*held)
    assert (await jane("POST", ROLES, role("given", WANTED))).status == 201


async def test_a_refusal_names_what_is_missing(jane: Jane) -> None:
    await jane.holds(rule("get", "pods"), rule("get", "secrets", resourceNames=["mine"]))
    more = [
        rule("get list watch", "pods"),
        rule("get", "secrets", resourceNames=["mine", "yours"]),
        rule("get", "secrets"),
    ]
    refused = await jane("POST", ROLES, role("given", *more))
    assert refused.status == 403
    assert refused.json["details"] == {"name": "given", "group": RBAC, "kind": "roles"}
    assert refused.json["message"] == (
        f'roles.{RBAC} "given" is forbidden: user "jane" (groups=["system:authenticated"]) is '
        "attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}\n'
        '{APIGroups:[""], Resources:["secrets"], ResourceNames:["yours"], Verbs:["get"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'
    )


async def test_paths_count_too(jane: Jane) -> None:
    await jane.holds({"nonResourceURLs": ["/logs/*"], "verbs": ["get"]})
    below = {"nonResourceURLs": ["/logs/a"], "verbs": ["get"]}
    assert (await jane("POST", CLUSTER_ROLES, role("below", below))).status == 201
    beside = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    refused = await jane("POST", CLUSTER_ROLES, role("beside", beside))
    assert '{NonResourceURLs:["/metrics"], Verbs:["get"]}' in refused.json["message"]


async def test_a_change_counts_unless_it_is_one_of_the_garbage_collector(jane: Jane) -> None:
    await jane.api.make(ROLES, role("given", WANTED))
    await jane.holds()
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert (await jane("PATCH", f"{ROLES}/given", labels)).status == 403
    finalizers = {"metadata": {"finalizers": ["example.test/kept"]}}
    assert (await jane("PATCH", f"{ROLES}/given", finalizers)).status == 200


async def test_a_binding_takes_the_rules_of_its_role(jane: Jane) -> None:
    await jane.api.make(ROLES, role("given", WANTED))
    await jane.holds(rule("bind", "roles", group=RBAC, resourceNames=["other"]))
    refused = await jane("POST", BINDINGS, binding("given"))
    assert refused.json["details"] == {"name": "given", "group": RBAC, "kind": "rolebindings"}
    missing = await jane("POST", BINDINGS, binding("nowhere"))
    assert missing.status == 404
    assert missing.json["details"]["kind"] == "rolebindings"  # as a real server tells it
    made = await jane("POST", BINDINGS, binding("other"))  # allowed to bind it, even before it is
    assert made.status == 201
    assert made.json["roleRef"]["apiGroup"] == RBAC
    assert made.json["subjects"] == [{"kind": "User", "apiGroup": RBAC, "name": USER}]


REFUSED = {
    "a path in a namespace": (
        ROLES,
        role("r", {"nonResourceURLs": ["/x"], "verbs": ["get"]}),
        "rules[0].nonResourceURLs",
    ),
    "a rule without resources": (
        ROLES,
        role("r", {"apiGroups": [""], "verbs": ["get"]}),
        "rules[0].resources",
    ),
    "a name that no URL can have": (ROLES, role("a/b"), "metadata.name"),
    "nothing to aggregate": (
        CLUSTER_ROLES,
        {**role("r"), "aggregationRule": {}},
        "aggregationRule.clusterRoleSelectors",
    ),
    "a role for the whole cluster": (
        f"{BASE}/clusterrolebindings",
        binding("r", kind="Role"),
        "roleRef.kind",
    ),
    "an account of no namespace": (
        f"{BASE}/clusterrolebindings",
        {
            **binding("r", kind="ClusterRole"),
            "subjects": [{"kind": "ServiceAccount", "name": "x"}],
        },
        "subjects[0].namespace",
    ),
    "a subject of another kind": (
        BINDINGS,
        {**binding("r"), "subjects": [{"kind": "Robot", "name": "x"}]},
        "subjects[0].kind",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_roles_and_bindings_that_say_nonsense(jane: Jane, name: str) -> None:
    path, body, field = REFUSED[name]
    refused = await jane.api("POST", path, body)
    assert refused.status == 422
    assert [cause["field"] for cause in refused.json["details"]["causes"]] == [field]

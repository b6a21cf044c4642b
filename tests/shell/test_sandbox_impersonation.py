"""Requests on the sandbox of one user who wants to be taken for another (``kubectl --as``)."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from sandbox_client import Answer, Api, api_server

RBAC = "/apis/rbac.authorization.k8s.io/v1"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
MAPS = "/api/v1/namespaces/golden/configmaps"
ROBOT = "system:serviceaccount:golden:robot"
AUTHENTICATION = "authentication.k8s.io"


class Robot:
    """A service account that speaks for others."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.token = api.server.authenticator.issue(ROBOT)

    async def __call__(self, path: str, **headers: str) -> Answer:
        return await self.api("GET", path, authorization=f"Bearer {self.token}", **headers)

    async def may(self, name: str, *rules: dict[str, Any]) -> None:
        await self.api.make(
            f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": list(rules)}
        )
        await self.api.make(
            f"{RBAC}/clusterrolebindings",
            {
                "metadata": {"name": name},
                "roleRef": {"kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "ServiceAccount", "namespace": "golden", "name": "robot"}],
            },
        )


def rule(verb: str, resource: str, *names: str, group: str = "") -> dict[str, Any]:
    named = {"resourceNames": list(names)} if names else {}
    return {"apiGroups": [group], "resources": [resource], "verbs": [verb], **named}


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with api_server() as found:
        yield found


@pytest.fixture
async def robot(api: Api) -> Robot:
    return Robot(api)


@pytest.mark.parametrize(
    ("headers", "username", "groups"),
    [
        ({"impersonate_user": "jane"}, "jane", ["system:authenticated"]),
        (
            {"impersonate_user": "jane", "impersonate_group": "a,b"},
            "jane",
            ["a", "b", "system:authenticated"],
        ),
        (
            {"impersonate_user": ROBOT},
            ROBOT,
            ["system:serviceaccounts", "system:serviceaccounts:golden", "system:authenticated"],
        ),
        (
            {"impersonate_user": "system:node:n1"},
            "system:node:n1",
            ["system:nodes", "system:authenticated"],
        ),
    ],
    ids=["a user", "with groups", "a service account", "a node"],
)
async def test_an_administrator_is_taken_for(
    api: Api, headers: dict[str, str], username: str, groups: list[str]
) -> None:
    answer = await api("POST", WHO, {}, **headers)
    assert answer.json["status"]["userInfo"] == {"username": username, "groups": groups}


async def test_an_administrator_is_taken_for_nobody(api: Api) -> None:
    answer = await api("POST", WHO, {}, impersonate_user="system:anonymous")
    assert answer.status == 403
    assert 'User "system:anonymous"' in answer.json["message"]


async def test_groups_without_a_user(api: Api) -> None:
    answer = await api("POST", WHO, {}, impersonate_group="dev", impersonate_extra_scopes="x")
    assert answer.status == 400
    assert answer.json["message"] == (
        'requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"dev"}, '
        'Extra:map[string][]string{"scopes":[]string{"x"}}} without impersonating a user name'
    )


# As recorded from 1.36.3, of a user without any such right.
REFUSALS = {
    "a user": (MAPS, {"impersonate_user": "jane"}, "user-info:list", 'resource "configmaps"'),
    "a user with groups": (
        MAPS,
        {"impersonate_user": "jane", "impersonate_group": "dev"},
        "user-info:list",
        'resource "configmaps"',
    ),
    "a service account": (
        MAPS,
        {"impersonate_user": "system:serviceaccount:golden:x"},
        "serviceaccount:list",
        'resource "configmaps"',
    ),
    "a node": (
        f"{MAPS}/c",
        {"impersonate_user": "system:node:n1"},
        "arbitrary-node:get",
        'resource "configmaps"',
    ),
    "a path": ("/metrics", {"impersonate_user": "jane"}, "user-info:get", 'path "/metrics"'),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_refusal_names_the_narrowest_right(robot: Robot, name: str) -> None:
    path, headers, verb, what = REFUSALS[name]
    refused = await robot(path, **headers)
    assert refused.status == 403
    assert f'User "{ROBOT}" cannot impersonate-on:{verb} {what}' in refused.json["message"]


async def test_the_old_verb_still_does_and_is_named_when_it_did_last(robot: Robot) -> None:
    await robot.may("old", rule("impersonate", "users", "alice"))
    as_alice = await robot(MAPS, impersonate_user="alice")
    assert 'User "alice" cannot list' in as_alice.json["message"]
    as_bob = await robot(MAPS, impersonate_user="bob")
    assert as_bob.json["message"] == (
        f'users "bob" is forbidden: User "{ROBOT}" cannot impersonate resource "users" in API '
        'group "" at the cluster scope'
    )
    with_group = await robot(MAPS, impersonate_user="alice", impersonate_group="dev")
    assert with_group.json["details"] == {"name": "dev", "kind": "groups"}


async def test_a_narrow_right_is_for_one_user_and_one_verb(robot: Robot) -> None:
    await robot.may(
        "narrow",
        rule("impersonate:user-info", "users", "bob", group=AUTHENTICATION),
        rule("impersonate-on:user-info:list", "configmaps"),
    )
    as_bob = await robot(MAPS, impersonate_user="bob")
    assert 'User "bob" cannot list' in as_bob.json["message"]
    other_verb = await robot(f"{MAPS}/x", impersonate_user="bob")
    assert "cannot impersonate-on:user-info:get" in other_verb.json["message"]
    with_group = await robot(MAPS, impersonate_user="bob", impersonate_group="dev")
    assert with_group.json["message"] == (
        f'groups.{AUTHENTICATION} "dev" is forbidden: User "{ROBOT}" cannot '
        f'impersonate:user-info resource "groups" in API group "{AUTHENTICATION}" at the '
        "cluster scope"
    )
    masters = await robot(MAPS, impersonate_user="bob", impersonate_group="system:masters")
    assert "impersonating the system:masters group is not allowed" in masters.json["message"]


async def test_many_groups_may_be_allowed_by_one_rule(robot: Robot) -> None:
    await robot.may(
        "many",
        rule("impersonate:user-info", "users", "bob", group=AUTHENTICATION),
        rule("impersonate:user-info", "groups", "*", group=AUTHENTICATION),
        rule("impersonate-on:user-info:list", "configmaps"),
    )
    few = await robot(MAPS, impersonate_user="bob", impersonate_group="a,b,c")
    assert "cannot impersonate:user-info" in few.json["message"]
    many = await robot(MAPS, impersonate_user="bob", impersonate_group="a,b,c,d")
    assert 'User "bob" cannot list' in many.json["message"]


async def test_before_1_36_there_is_only_the_old_verb() -> None:
    async with api_server(35) as api:
        refused = await Robot(api)(MAPS, impersonate_user="jane")
        assert refused.json["message"] == (
            f'users "jane" is forbidden: User "{ROBOT}" cannot impersonate resource "users" in '
            'API group "" at the cluster scope'
        )
        assert (await api("POST", WHO, {}, impersonate_group="a")).status == 400

"""Least privilege, judged by what was really called: the audit log of the whole run."""

from collections.abc import Iterable

import pytest

from common.kube.endpoints import Permission
from e2e.installation import ADMISSION, COMPONENTS, RECOMMENDER, SYSTEM, UPDATER
from e2e.world import World
from granted import bound_roles, granted
from sandbox.apiserver.audit import Entry

pytestmark = pytest.mark.last

# What is granted, and no case makes a component need: whose, what, and when it is needed.
UNUSED: tuple[tuple[str, Permission, str], ...] = (
    (
        RECOMMENDER,
        ("coordination.k8s.io", "leases", "get", "vpa-recommender"),
        "the Helm chart's name of the Lease",
    ),
    (
        RECOMMENDER,
        ("coordination.k8s.io", "leases", "update", "vpa-recommender"),
        "the Helm chart's name of the Lease",
    ),
    (
        UPDATER,
        ("coordination.k8s.io", "leases", "get", "vpa-updater-lease"),
        "the Helm chart's name of the Lease",
    ),
    (
        UPDATER,
        ("coordination.k8s.io", "leases", "update", "vpa-updater-lease"),
        "the Helm chart's name of the Lease",
    ),
    *(
        (account, ("*", "*/scale", "get", ""), "the target is a custom resource")
        for account in COMPONENTS
    ),
    (
        RECOMMENDER,
        ("autoscaling.k8s.io", "verticalpodautoscalercheckpoints", "delete", ""),
        "a checkpoint is collected ten minutes after its VPA is gone",
    ),
    (
        RECOMMENDER,
        ("autoscaling.k8s.io", "verticalpodautoscalers", "get", ""),
        "a checkpoint is collected ten minutes after its VPA is gone",
    ),
    (
        UPDATER,
        ("", "events", "patch", ""),
        "the same is told again",
    ),
)


def _covers(permission: Permission, call: Entry) -> bool:
    """Whether RBAC would let a call pass because of one permission."""
    group, resource, verb, name = permission
    asked = f"{call.resource}/{call.subresource}" if call.subresource else call.resource
    return (
        group in ("*", call.group)
        and resource in (asked, f"*/{call.subresource}")
        and verb == call.verb
        and name in ("", call.name)
    )


def _for_itself(call: Entry) -> bool:
    """Whether a 403 may come from admission plugins: quotas and capacities refuse so."""
    return call.subresource in ("eviction", "resize")


def _calls(world: World, account: str) -> list[Entry]:
    user = f"system:serviceaccount:{SYSTEM}:{account}"
    return [call for call in world.calls if call.user == user]


def _told(calls: Iterable[Entry]) -> list[str]:
    return sorted(
        f"{call.verb} {call.group}/{call.resource}/{call.subresource} {call.name}: {call.code}"
        for call in calls
    )


@pytest.mark.parametrize("account", COMPONENTS)
async def test_an_account_is_never_denied_anything(world: World, account: str) -> None:
    world.note_calls()
    calls = _calls(world, account)
    assert calls
    assert _told(call for call in calls if call.code == 403 and not _for_itself(call)) == []


@pytest.mark.parametrize("account", COMPONENTS)
async def test_an_account_calls_only_what_its_own_roles_allow(world: World, account: str) -> None:
    """Not what the roles of every account allow, such as discovery."""
    may = granted(bound_roles(account))
    beyond = [
        call
        for call in _calls(world, account)
        if call.resource and not any(_covers(one, call) for one in may)
    ]
    assert _told(beyond) == []


@pytest.mark.parametrize("account", COMPONENTS)
async def test_an_account_was_granted_nothing_that_is_not_needed(
    world: World, account: str
) -> None:
    calls = _calls(world, account)
    excused = {permission for whose, permission, _ in UNUSED if whose == account}
    unused = {
        one
        for one in granted(bound_roles(account))
        if not any(_covers(one, call) for call in calls)
    }
    assert sorted(unused - excused) == []


def test_only_what_is_granted_is_excused() -> None:
    for account, permission, _ in UNUSED:
        assert permission in granted(bound_roles(account))
    assert {account for account, *_ in UNUSED} <= {RECOMMENDER, UPDATER, ADMISSION}

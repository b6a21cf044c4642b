"""Least privilege, judged by what was really called: the audit log of the whole run."""

from collections.abc import Iterable

import pytest

from common.kube.endpoints import Permission
from e2e.installation import ACCOUNTS, SYSTEM
from e2e.world import World
from role_rules import DRY_RUN, bound_roles, granted
from sandbox.apiserver.audit import Entry

pytestmark = pytest.mark.last


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


def _sort(call: Entry) -> tuple[str, ...]:
    """What roles decide by, as far as ours do."""
    name = call.name if call.resource == "leases" else ""
    return (call.verb, call.group, call.resource, call.subresource, name)


def _calls(world: World, account: str) -> list[Entry]:
    user = f"system:serviceaccount:{SYSTEM}:{account}"
    return [call for call in world.calls if call.user == user]


def _told(calls: Iterable[Entry]) -> list[str]:
    return sorted(
        f"{call.verb} {call.group}/{call.resource}/{call.subresource} {call.name}: {call.code}"
        for call in calls
    )


@pytest.mark.parametrize("account", ACCOUNTS)
async def test_an_account_is_never_denied_anything(world: World, account: str) -> None:
    """Apart from the moment in which an API server starts, and has not read its roles yet.

    It denies its own controller manager then. What is denied for good was never allowed.
    """
    world.note_calls()
    calls = _calls(world, account)
    assert calls
    allowed = {_sort(call) for call in calls if not call.denied}
    assert _told(call for call in calls if call.denied and _sort(call) not in allowed) == []


@pytest.mark.parametrize("account", ACCOUNTS)
async def test_an_account_calls_only_what_its_own_roles_allow(world: World, account: str) -> None:
    """Not what the roles of every account allow, such as discovery.

    Some cases install the component for dry runs.
    """
    may = granted(bound_roles(account)) | granted(bound_roles(account, folder=DRY_RUN))
    beyond = [
        call
        for call in _calls(world, account)
        if call.resource and not any(_covers(one, call) for one in may)
    ]
    assert _told(beyond) == []


@pytest.mark.parametrize("account", ACCOUNTS)
async def test_an_account_was_granted_nothing_that_is_not_needed(
    world: World, account: str
) -> None:
    """A case that needs it comes with every permission that the manifests grant."""
    calls = _calls(world, account)
    unused = {
        one
        for one in granted(bound_roles(account))
        if not any(_covers(one, call) for call in calls)
    }
    assert sorted(unused) == []

"""Least privilege: compares the roles with the audited calls of the whole run."""

from collections.abc import Iterable

import pytest

from common.kube.endpoints import Permission
from e2e.cluster import Cluster
from e2e.installation import COMPONENTS, SYSTEM
from role_rules import DRY_RUN, NAMESPACE_VPAS, bound_roles, granted
from sandbox.apiserver.audit import Entry

pytestmark = pytest.mark.last


def _covers(permission: Permission, call: Entry) -> bool:
    """Return True if one permission is enough for a call to be authorized."""
    group, resource, verb, name = permission
    requested = f"{call.resource}/{call.subresource}" if call.subresource else call.resource
    return (
        group in ("*", call.group)
        and resource in (requested, f"*/{call.subresource}")
        and verb == call.verb
        and name in ("", call.name)
    )


def _without_names(call: Entry) -> tuple[str, ...]:
    """Return the part of a call by which our roles allow it; only Leases have names there."""
    name = call.name if call.resource == "leases" else ""
    return (call.verb, call.group, call.resource, call.subresource, name)


def _calls(cluster: Cluster, account: str) -> list[Entry]:
    user = f"system:serviceaccount:{SYSTEM}:{account}"
    return [call for call in cluster.calls if call.user == user]


def _lines(calls: Iterable[Entry]) -> list[str]:
    return sorted(
        f"{call.verb} {call.group}/{call.resource}/{call.subresource} {call.name}: {call.code}"
        for call in calls
    )


@pytest.mark.parametrize("account", COMPONENTS)
async def test_an_account_is_never_denied_anything(cluster: Cluster, account: str) -> None:
    """Except while an API server starts and hasn't read its roles yet.

    It denies all accounts then. A call without a permission is never allowed.
    """
    cluster.record_calls()
    calls = _calls(cluster, account)
    assert calls
    allowed = {_without_names(call) for call in calls if not call.denied}
    assert (
        _lines(call for call in calls if call.denied and _without_names(call) not in allowed) == []
    )


@pytest.mark.parametrize("account", COMPONENTS)
async def test_an_account_calls_only_what_its_own_roles_allow(
    cluster: Cluster, account: str
) -> None:
    """Except discovery, which the roles of every account allow.

    Some cases install an optional component.
    """
    may = granted(bound_roles(account))
    for folder in (DRY_RUN, NAMESPACE_VPAS):
        may |= granted(bound_roles(account, folder=folder))
    beyond = [
        call
        for call in _calls(cluster, account)
        if call.resource and not any(_covers(one, call) for one in may)
    ]
    assert _lines(beyond) == []


@pytest.mark.parametrize("account", COMPONENTS)
async def test_an_account_was_granted_nothing_that_is_not_needed(
    cluster: Cluster, account: str
) -> None:
    """Some case needs each permission that the manifests grant."""
    calls = _calls(cluster, account)
    unused = {
        one
        for one in granted(bound_roles(account))
        if not any(_covers(one, call) for call in calls)
    }
    assert sorted(unused) == []

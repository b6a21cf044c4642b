"""Each service account may do what its component declares that it calls, and nothing else."""

from collections.abc import Iterable

import pytest

import admission.access
import recommender.access
import updater.access
from common.kube.endpoints import LEASES, Access, Permission
from granted import bound_roles, granted, objects


def declared(access: Iterable[Access]) -> set[Permission]:
    return {permission for one in access for permission in one.permissions()}


@pytest.mark.parametrize(
    ("account", "access"),
    [
        ("vpa-recommender", recommender.access.ACCESS),
        ("vpa-updater", updater.access.ACCESS),
        ("vpa-admission-controller", admission.access.ACCESS),
    ],
)
def test_an_account_may_do_what_its_component_calls(
    account: str, access: tuple[Access, ...]
) -> None:
    may, does = granted(bound_roles(account)), declared(access)
    assert (sorted(does - may), sorted(may - does)) == ([], []), "(missing, excess)"


def test_roles_of_one_namespace_are_about_leases_alone() -> None:
    """Everything else is followed in all namespaces, so it would not be enough."""
    for permission in granted(objects("Role")):
        assert permission[:2] == (LEASES.group, LEASES.resource)


def test_what_can_be_bound_to_a_name_is() -> None:
    """Leases and webhooks of others are none of our business."""
    sensitive = {"leases", "mutatingwebhookconfigurations"}
    for _, resource, verb, name in granted(objects("ClusterRole", "Role")):
        assert name or verb == "create" or resource not in sensitive

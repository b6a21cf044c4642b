"""Each service account may do what its component declares that it calls, and nothing else."""

from collections.abc import Iterable

import pytest

import admission.access
import certs.access
import recommender.access
import updater.access
from common.kube.endpoints import LEASES, SECRETS, Access, Permission
from granted import bound_roles, granted, objects


def declared(access: Iterable[Access]) -> set[Permission]:
    return {permission for one in access for permission in one.permissions()}


@pytest.mark.parametrize(
    ("account", "access"),
    [
        ("vpa-recommender", recommender.access.ACCESS),
        ("vpa-updater", updater.access.ACCESS),
        ("vpa-admission-controller", admission.access.ACCESS),
        ("vpa-certs", certs.access.ACCESS),
    ],
)
def test_an_account_may_do_what_its_component_calls(
    account: str, access: tuple[Access, ...]
) -> None:
    may, does = granted(bound_roles(account)), declared(access)
    assert (sorted(does - may), sorted(may - does)) == ([], []), "(missing, excess)"


def test_roles_of_one_namespace_are_about_leases_and_the_secret_alone() -> None:
    """Everything else is followed in all namespaces, so it would not be enough."""
    own = {(LEASES.group, LEASES.resource), (SECRETS.group, SECRETS.resource)}
    assert {permission[:2] for permission in granted(objects("Role"))} == own


def test_nobody_may_read_secrets_of_every_namespace() -> None:
    assert not [each for each in granted(objects("ClusterRole")) if each[1] == SECRETS.resource]


def test_what_can_be_bound_to_a_name_is() -> None:
    """Leases, webhooks and Secrets of others are none of our business."""
    sensitive = {"leases", "mutatingwebhookconfigurations", "secrets"}
    for _, resource, verb, name in granted(objects("ClusterRole", "Role")):
        assert name or verb == "create" or resource not in sensitive

"""Each service account may do what its component declares that it calls, and nothing else."""

from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

import admission.access
import recommender.access
import updater.access
from common.kube.endpoints import LEASES, Access, Permission

RBAC = Path(__file__).parents[2] / "deploy" / "rbac"


def objects(*kinds: str) -> list[dict[str, Any]]:
    found = [
        item
        for path in sorted(RBAC.glob("*.yaml"))
        for item in yaml.safe_load_all(path.read_text())
    ]
    return [item for item in found if item["kind"] in kinds]


def bound_roles(account: str) -> Iterator[dict[str, Any]]:
    """The roles that are bound to a service account."""
    roles = {
        (item["kind"], item["metadata"]["name"]): item for item in objects("ClusterRole", "Role")
    }
    for binding in objects("ClusterRoleBinding", "RoleBinding"):
        reference = binding["roleRef"]
        for subject in binding["subjects"]:
            if (subject["kind"], subject["name"]) == ("ServiceAccount", account):
                yield roles[reference["kind"], reference["name"]]


def granted(roles: Iterable[dict[str, Any]]) -> set[Permission]:
    return {
        permission
        for role in roles
        for rule in role["rules"]
        for permission in product(
            rule["apiGroups"],
            rule["resources"],
            rule["verbs"],
            rule.get("resourceNames", [""]),
        )
    }


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

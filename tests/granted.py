"""What the manifests' roles allow, permission by permission."""

from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from common.kube.endpoints import Permission

RBAC = Path(__file__).parents[1] / "deploy" / "rbac"


def objects(*kinds: str) -> list[dict[str, Any]]:
    """All objects of these kinds in deploy/rbac."""
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
    """Every single permission of some roles."""
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

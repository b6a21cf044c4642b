"""The permissions that the roles of the manifests grant."""

from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from common.kube.endpoints import Permission

DEPLOY = Path(__file__).parents[2] / "deploy"
RBAC = DEPLOY / "rbac"
DRY_RUN = DEPLOY / "components" / "dry-run-preflight"
NAMESPACE_VPAS = DEPLOY / "components" / "namespace-vpas"


def objects(*kinds: str, folder: Path = RBAC) -> list[dict[str, Any]]:
    """Return all objects of these kinds in a folder, by default deploy/rbac."""
    found = [
        item
        for path in sorted(folder.glob("*.yaml"))
        for item in yaml.safe_load_all(path.read_text())
    ]
    return [item for item in found if item["kind"] in kinds]


def bound_roles(account: str, *, folder: Path = RBAC) -> Iterator[dict[str, Any]]:
    """Yield the roles of a folder that are bound to a service account."""
    roles = {
        (item["kind"], item["metadata"]["name"]): item
        for item in objects("ClusterRole", "Role", folder=folder)
    }
    for binding in objects("ClusterRoleBinding", "RoleBinding", folder=folder):
        reference = binding["roleRef"]
        for subject in binding["subjects"]:
            if (subject["kind"], subject["name"]) == ("ServiceAccount", account):
                yield roles[reference["kind"], reference["name"]]


def granted(roles: Iterable[dict[str, Any]]) -> set[Permission]:
    """Return every single permission of the roles."""
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

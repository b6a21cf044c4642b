"""The part of OpenAPI v3 that kubectl reads before it sends an object.

kubectl looks for PATCH operations with the kind and the parameters ``fieldValidation`` and
``dryRun``. With them it leaves validation to the server. There are no schemas.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sandbox.objects.resources import Resource

_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation", "force", "pretty")
]


def index(groups: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return ``/openapi/v3``, which lists the documents of all group versions."""
    roots = [root_of(group, version) for group, versions in groups.items() for version in versions]
    return {"paths": {root: {"serverRelativeURL": f"/openapi/v3/{root}"} for root in roots}}


def root_of(group: str, version: str) -> str:
    """Return ``api/v1`` or ``apis/apps/v1``."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


def document(resources: Iterable[Resource]) -> dict[str, Any]:
    """Return the document of the group version that has these resources."""
    paths: dict[str, Any] = {}
    for resource in resources:
        group, version = resource.group, resource.version
        inside = "/namespaces/{namespace}" if resource.namespaced else ""
        patch = {
            "parameters": _PARAMETERS,
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": {
                "group": group,
                "version": version,
                "kind": resource.kind,
            },
        }
        path = f"/{root_of(group, version)}{inside}/{resource.plural}/{{name}}"
        paths[path] = {"patch": patch}
    info = {"title": "Kubernetes", "version": "v1"}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}}

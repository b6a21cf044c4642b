"""The parts of OpenAPI v3 that kubectl reads.

Before it validates on the server's side, kubectl looks for PATCH operations with the kind and
the parameters ``fieldValidation`` and ``dryRun``. Schemas are there for custom resources only.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from sandbox.objects.crds import CustomVersion
from sandbox.objects.resources import Resource

_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation", "force", "pretty")
]
_PATCHES = {
    "application/json-patch+json": {"schema": {"type": "object"}},
    "application/merge-patch+json": {"schema": {"type": "object"}},
}
_STRATEGIC = {"application/strategic-merge-patch+json": {"schema": {"type": "object"}}}
_METHODS = {"get": "get", "patch": "patch", "put": "update", "delete": "delete"}


def index(groups: Mapping[str, Sequence[str]], documents: Mapping[str, bytes]) -> dict[str, Any]:
    """``/openapi/v3``: where the document of each group version is."""
    paths = {}
    for group, versions in groups.items():
        for version in versions:
            root = root_of(group, version)
            digest = sha256(documents.get(root, b"")).hexdigest()
            paths[root] = {"serverRelativeURL": f"/openapi/v3/{root}?hash={digest}"}
    return {"paths": paths}


def root_of(group: str, version: str) -> str:
    """``api/v1``, ``apis/apps/v1``."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


def document(
    group: str, version: str, served: Iterable[tuple[Resource, CustomVersion | None]]
) -> bytes:
    """The document of one group version, encoded."""
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for resource, custom in served:
        kind = {"group": group, "version": version, "kind": resource.kind}
        base = f"/{root_of(group, version)}"
        if resource.namespaced:
            base += "/namespaces/{namespace}"
        base += f"/{resource.plural}"
        if "create" in resource.verbs:
            paths[base] = {"post": _operation("post", kind, custom)}
        paths[base + "/{name}"] = {
            method: _operation(method, kind, custom)
            for method, verb in _METHODS.items()
            if verb in resource.verbs
        }
        if custom is not None:
            name = f"{'.'.join(reversed(group.split('.')))}.{version}.{resource.kind}"
            schemas[name] = {**custom.schema, "x-kubernetes-group-version-kind": [kind]}
    return msgspec.json.encode(
        {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": f"{group or 'core'}/{version}"},
            "paths": paths,
            "components": {"schemas": schemas},
        }
    )


def _operation(method: str, kind: Mapping[str, str], custom: CustomVersion | None) -> Any:
    operation: dict[str, Any] = {
        "parameters": _PARAMETERS,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": method,
        "x-kubernetes-group-version-kind": kind,
    }
    if method == "patch":
        content = _PATCHES if custom is not None else {**_PATCHES, **_STRATEGIC}
        operation["requestBody"] = {"content": content, "required": True}
    return operation

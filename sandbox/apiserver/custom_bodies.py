"""Bodies of custom resources: what they are must stand in them, unlike in those of other kinds.

Source: k8s.io/apimachinery pkg/apis/meta/v1/unstructured, k8s.io/apiserver
pkg/endpoints/handlers/create.go, k8s.io/apiextensions-apiserver
pkg/registry/customresource/validator.go.
"""

from collections.abc import Mapping
from typing import Any

from sandbox.errors import bad_request, field_invalid, internal, invalid
from sandbox.objects.resources import Resource

_QUOTED = 30  # bytes of a body that isn't understood


def check_named_type(body: bytes, obj: Mapping[str, Any], resource: Resource) -> None:
    """Refuse an object without kind or version, or of another version.

    Raises:
        ApiError: 400.
    """
    if not obj.get("kind"):
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): Object 'Kind' "
            f"is missing in '{body.decode(errors='replace')}' ({summary(body)})"
        )
    version = obj.get("apiVersion") or ""
    if version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({resource.api_version})"
        )


def check_type(obj: Mapping[str, Any], resource: Resource) -> None:
    """Refuse an object of another kind, or that a patch gives another version.

    Raises:
        ApiError: 422; 500 for a patch that takes the version away.
    """
    meta = obj.get("metadata")
    name = meta.get("name") or "" if isinstance(meta, dict) else ""
    kind, version = obj.get("kind") or "", obj.get("apiVersion") or ""
    if not version:
        text = "Object 'apiVersion' is missing in 'object has no apiVersion field'"
        raise internal(text)
    causes = []
    if kind != resource.kind:
        causes.append(field_invalid("kind", kind, f"must be {resource.kind}"))
    if version != resource.api_version:
        causes.append(field_invalid("apiVersion", version, f"must be {resource.api_version}"))
    if causes:
        raise invalid(kind, name, causes, group=version.partition("/")[0])


def summary(body: bytes) -> str:
    """The beginning of a body, as a refusal shows it: in hexadecimal unless it is JSON."""
    if not body:
        return "<empty>"
    shown = body[:_QUOTED]
    text = shown.decode(errors="replace") if body.startswith(b"{") else shown.hex()
    return f"{text} ..." if len(body) > _QUOTED else text

"""Application of a PATCH request to an object."""

import enum
from collections.abc import Sequence
from typing import Any, Final

import jsonpatch
import jsonpointer
import msgspec

from sandbox.errors import (
    ApiError,
    bad_request,
    unprocessable_patch,
    unsupported_media_type,
)
from sandbox.objects.resources import Resource
from sandbox.patching.merge_keys import fields_of
from sandbox.patching.strategic import strategic_merge

MAX_OPERATIONS: Final = 10_000


class ContentType(enum.StrEnum):
    """Content types of a PATCH."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class OperationError(ValueError):
    """An operation can't be applied."""


def apply_operations(target: Any, operations: Sequence[Any]) -> dict[str, Any]:
    """Return ``target`` after all operations. It is consumed, even after an error.

    Raises:
        OperationError: an operation doesn't fit, or the result isn't a map.
    """
    try:
        # The Go library of an API server reads a missing value as null.
        complete = [{"value": None, **operation} for operation in operations]
        target = jsonpatch.JsonPatch(complete).apply(target, in_place=True)
    except (
        jsonpatch.JsonPatchException,
        jsonpointer.JsonPointerException,
        TypeError,  # an operation that is no map, or a path into a scalar
    ) as error:
        raise OperationError(str(error)) from error
    if not isinstance(target, dict):
        raise OperationError("the result is no map")
    return target


def apply_patch(
    content_type: str,
    current: dict[str, Any],
    body: bytes,
    *,
    resource: Resource,
) -> dict[str, Any]:
    """Return ``current`` with the patch applied; ``current`` is not changed.

    Nothing is shared between ``current`` and the result. A custom resource has no strategic merge
    patch. Server-side apply is refused, because the server keeps no owners of fields.

    Raises:
        ApiError: 400 for an invalid body, 413 for too many operations, 415 for another content
            type, 422 for a patch that doesn't fit the object.

    Source: k8s.io/apiserver pkg/endpoints/handlers/patch.go; kubernetes-resize.md 1.1.
    """
    kind = content_type.partition(";")[0].strip()
    if kind == ContentType.JSON:
        return _json_patch(current, body)
    if kind == ContentType.MERGE:
        merged = _merge(copied(current), _decoded_map(body, "error decoding patch: "))
        return merged if isinstance(merged, dict) else {}
    if kind == ContentType.STRATEGIC and not resource.custom:
        fields = fields_of(resource.group, resource.kind)
        return strategic_merge(copied(current), _decoded_map(body), fields)
    raise _unsupported(resource)


def _json_patch(current: dict[str, Any], body: bytes) -> dict[str, Any]:
    try:
        operations = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from error
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: not a list of operations")
    if len(operations) > MAX_OPERATIONS:
        raise ApiError(
            413,
            "RequestEntityTooLarge",
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{MAX_OPERATIONS}, got {len(operations)}",
        )
    try:
        return apply_operations(copied(current), operations)
    except OperationError as error:
        raise unprocessable_patch() from error


def _merge(target: Any, patch: Any) -> Any:
    """Apply a merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    result = target if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merge(result.get(name), value)
    return result


def _decoded_map(body: bytes, prefix: str = "") -> dict[str, Any]:
    try:
        patch = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"{prefix}{error}") from error
    if not isinstance(patch, dict):
        raise bad_request(f"{prefix}not an object")
    return patch


def copied(value: dict[str, Any]) -> dict[str, Any]:
    """Return a deep copy, three times as fast as ``copy.deepcopy``."""
    copy: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return copy


def _unsupported(resource: Resource) -> ApiError:
    accepted = [ContentType.JSON, ContentType.MERGE]
    if not resource.custom:
        accepted.append(ContentType.STRATEGIC)
    return unsupported_media_type(accepted)

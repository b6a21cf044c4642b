"""From a PATCH request to the changed object."""

import enum
from typing import Any, Final

import msgspec

from common.quantity import QuantityError
from sandbox.errors import (
    ApiError,
    bad_request,
    field_invalid,
    unprocessable_patch,
    unsupported_media_type,
)
from sandbox.objects.pod_resources import complete_pod_resources
from sandbox.objects.resources import Resource
from sandbox.patching.merge_keys import fields_of
from sandbox.patching.operations import OperationError, apply_operations
from sandbox.patching.strategic import StrategicPatchError, strategic_merge

MAX_OPERATIONS: Final = 10_000


class ContentType(enum.StrEnum):
    """What a PATCH body can be."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


def apply_patch(
    content_type: str,
    current: dict[str, Any],
    body: bytes,
    *,
    resource: Resource,
) -> dict[str, Any]:
    """Return ``current`` with the patch applied; ``current`` itself stays as it is.

    Nothing is shared between ``current`` and the result. A custom resource knows no strategic
    merge patch. Server-side apply is refused: it needs an owner for every field, which this
    server doesn't keep.

    Raises:
        ApiError: 400 for a body that is no patch, 413 for too many operations, 415 for
            another content type, 422 for a patch that does not fit the object.

    Source: k8s.io/apiserver pkg/endpoints/handlers/patch.go; kubernetes-resize.md 1.1.
    """
    kind = content_type.partition(";")[0].strip()
    if kind == ContentType.JSON:
        return _json_patch(current, body)
    if kind == ContentType.MERGE:
        merged = _merge(copied(current), _decoded_map(body, "error decoding patch: "))
        return merged if isinstance(merged, dict) else {}
    if kind == ContentType.STRATEGIC and not resource.custom:
        return _strategic_patch(current, body, resource)
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


def _strategic_patch(current: dict[str, Any], body: bytes, resource: Resource) -> dict[str, Any]:
    patch = _decoded_map(body)
    if resource.group_resource == "pods":
        _check_quantities(patch, body)
    try:
        return strategic_merge(copied(current), patch, fields_of(resource.group, resource.kind))
    except StrategicPatchError as error:
        reason = {400: "BadRequest", 422: "Invalid"}.get(error.status, "InternalError")
        raise ApiError(error.status, reason, str(error)) from error


def _check_quantities(patch: dict[str, Any], body: bytes) -> None:
    """Refuse a pod's resources that are no quantities.

    Only here the answer is about the patch: the server decodes the patched object without
    its name. Source: ``applyPatchToObject``.
    """
    try:
        complete_pod_resources(msgspec.json.decode(body) if patch.get("spec") else {})
    except QuantityError as error:
        cause = field_invalid("patch", patch, error.problem)
        text = f' "" is invalid: {cause.field}: {cause.message}'
        raise ApiError(422, "Invalid", text, causes=(cause,), details={}) from error
    except (AttributeError, TypeError):
        return  # no pod at all: whoever decodes the patched object says so


def _merge(target: Any, patch: Any) -> Any:
    """RFC 7396."""
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
    """A deep copy, three times as fast as ``copy.deepcopy``."""
    copy: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return copy


def _unsupported(resource: Resource) -> ApiError:
    accepted = [ContentType.JSON, ContentType.MERGE]
    if not resource.custom:
        accepted.append(ContentType.STRATEGIC)
    return unsupported_media_type(accepted)

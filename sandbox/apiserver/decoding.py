"""Decoding of request bodies.

Bodies are JSON. The fields of built-in kinds are stored as they are, including unknown ones. Only
the types of metadata are checked.
"""

from typing import Any

import msgspec

from sandbox import errors
from sandbox.apiserver.answers import JSON
from sandbox.apiserver.requests import Place, Request
from sandbox.objects import crds, defaults, structural_schema
from sandbox.objects.crds import CustomVersion
from sandbox.objects.metadata import tidy, tidy_metadata
from sandbox.objects.resources import Resource

Json = dict[str, Any]

_COMPLETED = ("", "resize")  # the endpoints that accept a spec
_QUOTED = 30  # bytes of an invalid body that the error shows


class _Owner(msgspec.Struct, rename="camel"):
    """The types of an owner reference."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class _Metadata(msgspec.Struct, rename="camel"):
    """The types of the metadata that the server reads."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[_Owner] | None = None


def read_body(request: Request, resource: Resource) -> Json:
    """Decode a body. Null is an empty object.

    Raises:
        ApiError: 400 for a value that isn't an object, 415 for another content type.
    """
    try:
        return _decoded(request)
    except ValueError as error:
        shown = request.body[:_QUOTED].decode(errors="replace")
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): "
            f"couldn't get version/kind; json parse error: {error} ({shown})"
        ) from error


def read_options(request: Request) -> Json:
    """Decode the optional body of a DELETE.

    Raises:
        ApiError: 400 and 415, as :func:`read_body`.
    """
    if not request.body:
        return {}
    try:
        return _decoded(request)
    except ValueError as error:
        raise errors.bad_request(str(error)) from error


def _decoded(request: Request) -> Json:
    if request.content_type not in ("", JSON):
        raise errors.unsupported_media_type((JSON,))
    decoded = msgspec.json.decode(request.body)
    if decoded is None:
        return {}
    if not isinstance(decoded, dict):
        raise ValueError(f"not an object: {type(decoded).__name__}")  # noqa: TRY004 - of a client
    return decoded


def checked_metadata(obj: Json, resource: Resource, place: Place) -> Json:
    """Return the metadata of ``obj``, and set its kind, version and namespace if they are missing.

    Raises:
        ApiError: 400, one of them differs from the URL's.
    """
    check_type_meta(obj, resource)
    obj["kind"], obj["apiVersion"] = resource.kind, resource.api_version
    meta = obj.get("metadata")
    if meta is None:
        meta = obj["metadata"] = {}
    try:
        msgspec.convert(meta, _Metadata)
    except msgspec.ValidationError as error:
        raise errors.cannot_be_handled(resource, f"metadata: {error}") from error
    namespace = meta.get("namespace")
    if namespace and namespace != place.namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if place.namespace:
        meta["namespace"] = place.namespace
    else:
        meta.pop("namespace", None)
    return meta


def check_type_meta(obj: Json, resource: Resource) -> None:
    """Refuse an object of another kind or version.

    Raises:
        ApiError: 400.
    """
    api_version = obj.get("apiVersion") or resource.api_version
    kind = obj.get("kind") or resource.kind
    if api_version != resource.api_version:
        raise errors.bad_request(
            f"the API version in the data ({api_version}) does not match the expected API "
            f"version ({resource.api_version})"
        )
    if kind != resource.kind:
        raise errors.cannot_be_handled(resource, f"it is of kind {kind}")


def check_name(meta: Json, place: Place) -> None:
    """Check that the body names the object of the URL.

    Raises:
        ApiError: 400, it has another name or none.
    """
    name = meta.get("name") or ""
    if not name:
        raise errors.bad_request(
            f"the name of the object ({place.name} based on URL) was undeterminable: "
            "name must be provided"
        )
    if name != place.name:
        raise errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({place.name})"
        )


def complete(
    obj: Json,
    resource: Resource,
    custom: CustomVersion | None,
    *,
    subresource: str,
    completes: bool = True,
) -> None:
    """Complete ``obj`` in place, in the form in which it is stored.

    ``completes`` False skips defaults, because none can be missing.

    Raises:
        ApiError: 400, a value is invalid.
    """
    if custom is not None:
        structural_schema.prune(obj, custom.schema)
        tidy_metadata(obj)
        structural_schema.drop_nulls(obj, custom.schema)
        structural_schema.fill_defaults(obj, custom.schema)
        return
    tidy(obj)
    if completes and subresource in _COMPLETED:
        for name in obj.keys() - {"metadata", "status"}:
            _drop_nulls(obj[name])
        defaults.fill(resource, obj)
    if crds.is_definition(resource):
        crds.fill_defaults(obj)


def _drop_nulls(value: Any) -> None:
    """Remove, in place, the nulls that Go's decoder treats as unset."""
    if isinstance(value, dict):
        for name in [name for name, item in value.items() if item is None]:
            del value[name]
        for item in value.values():
            _drop_nulls(item)
    elif isinstance(value, list):
        for item in value:
            _drop_nulls(item)

"""From a request's body to an object that is understood."""

from typing import Any

import msgspec
import yaml

from sandbox import errors
from sandbox.apiserver.custom_bodies import check_named_type, check_type
from sandbox.apiserver.requests import Place, Request
from sandbox.objects import byte_fields, crds, defaults, fields, micro_times, structural_schema
from sandbox.objects.crds import CustomVersion
from sandbox.objects.metadata import tidy, tidy_metadata
from sandbox.objects.resources import Resource
from sandbox.objects.shapes import check_metadata, check_shape

Json = dict[str, Any]

_JSON = "application/json"
_YAML = "application/yaml"
_COMPLETED = ("", "resize")  # the endpoints through which a spec comes in


def read_body(request: Request, resource: Resource) -> Json:
    """Decode a body, in JSON or YAML.

    Raises:
        ApiError: 400 for what isn't an object, 415 for another content type.
    """
    if request.content_type not in ("", _JSON, _YAML):
        raise errors.unsupported_media_type((_JSON, _YAML))
    try:
        decoded = (
            yaml.safe_load(request.body)
            if request.content_type == _YAML
            else msgspec.json.decode(request.body)
        )
    except (msgspec.DecodeError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise errors.bad_request(f"the object provided is unrecognized: {error}") from error
    if not isinstance(decoded, dict):
        raise errors.cannot_be_handled(resource, "the body is no object")
    return decoded


def read_object(request: Request, resource: Resource) -> Json:
    """Decode an object that is to be stored; a custom resource must say what it is.

    Raises:
        ApiError: 400 and 415, as :func:`read_body`; 400 for a custom resource without its kind or
            its version.
    """
    obj = read_body(request, resource)
    if resource.custom:
        check_named_type(request.body, obj, resource)
    return obj


def checked_metadata(obj: Json, resource: Resource, place: Place) -> Json:
    """The metadata of ``obj``, which gets kind, version and namespace where it has none.

    Raises:
        ApiError: 400, one of them is another than the URL's.
    """
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if resource.custom:
        check_type(obj, resource)
    elif api_version and api_version != resource.api_version:
        raise errors.bad_request(
            f"the API version in the data ({api_version}) does not match the expected API "
            f"version ({resource.api_version})"
        )
    elif kind and kind != resource.kind:
        raise errors.cannot_be_handled(resource, f'unexpected kind "{kind}"')
    obj["kind"], obj["apiVersion"] = resource.kind, resource.api_version
    meta = obj.get("metadata")
    if meta is None:
        meta = obj["metadata"] = {}
    check_metadata(resource, meta)
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


def check_name(meta: Json, place: Place) -> None:
    """The body must name the object that the URL names.

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


def drop_unknown(
    obj: Json,
    resource: Resource,
    custom: CustomVersion | None,
    old: Json | None,
    *,
    minor: int,
) -> list[str]:
    """Remove, in place, the fields that the kind doesn't have; returns where they were.

    ``old`` is the stored object of a built-in kind: what equals it isn't looked at.
    """
    if custom is None:
        return fields.drop_unknown(resource, obj, old, minor=minor)
    in_metadata = fields.drop_unknown_metadata(obj, minor=minor)
    return in_metadata + sorted(structural_schema.prune(obj, custom.schema))


def understand(
    obj: Json,
    resource: Resource,
    custom: CustomVersion | None,
    *,
    subresource: str,
    completes: bool = True,
) -> None:
    """Complete ``obj`` in place, in the shape in which it is stored.

    ``completes`` False says that nothing can be missing.

    Raises:
        ApiError: 400, a value can't be read.
    """
    if custom is not None:
        tidy_metadata(obj)
        structural_schema.drop_nulls(obj, custom.schema)
        structural_schema.fill_defaults(obj, custom.schema)
        return
    tidy(obj)
    check_shape(resource, obj)
    if completes and subresource in _COMPLETED:
        for name in obj.keys() - {"metadata", "status"}:
            _drop_nulls(obj[name])
        defaults.fill(resource, obj)
    byte_fields.check(resource, obj)
    micro_times.normalize(resource, obj)
    if crds.is_definition(resource):
        crds.fill_defaults(obj)


def _drop_nulls(value: Any) -> None:
    """Remove, in place, what Go's decoder would take for unset."""
    if isinstance(value, dict):
        for name in [name for name, item in value.items() if item is None]:
            del value[name]
        for item in value.values():
            _drop_nulls(item)
    elif isinstance(value, list):
        for item in value:
            _drop_nulls(item)

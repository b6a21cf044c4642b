"""From a request's body to an object that is understood."""

from typing import Any

import msgspec
import yaml

from sandbox import errors
from sandbox.apiserver.custom_bodies import check_named_type, check_type, summary
from sandbox.apiserver.negotiation import PROTOBUF
from sandbox.apiserver.requests import Place, Request
from sandbox.objects import byte_fields, crds, defaults, fields, micro_times, structural_schema
from sandbox.objects.crds import CustomVersion
from sandbox.objects.go_decoding import syntax_problem, type_meta_problem
from sandbox.objects.metadata import tidy, tidy_metadata
from sandbox.objects.resources import Resource
from sandbox.objects.shapes import check_metadata, check_shape

Json = dict[str, Any]

_JSON = "application/json"
_YAML = "application/yaml"
_COMPLETED = ("", "resize")  # the endpoints through which a spec comes in


def read_body(request: Request, resource: Resource) -> Json:
    """Decode a body, in JSON or YAML; null is an object without anything.

    Raises:
        ApiError: 400 for what isn't an object, 415 for another content type.
    """
    try:
        return _decoded(request)
    except _UnreadableError as error:
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): {error} "
            f"({summary(request.body)})"
        ) from error


def read_options(request: Request) -> Json:
    """Decode the body of a DELETE, which may lack one.

    Raises:
        ApiError: 400 and 415, as :func:`read_body`.
    """
    if not request.body:
        return {}
    try:
        return _decoded(request)
    except _UnreadableError as error:
        raise errors.bad_request(str(error)) from error


class _UnreadableError(ValueError):
    """Kind and version can't be read; it says why."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"couldn't get version/kind; json parse error: {problem}")


def _decoded(request: Request) -> Json:
    if request.content_type not in ("", _JSON, _YAML):
        # A real server reads it, too; who has sent it shouldn't be told to send it.
        others = () if request.content_type == PROTOBUF else (PROTOBUF,)
        raise errors.unsupported_media_type((_JSON, _YAML, *others))
    try:
        decoded = (
            yaml.safe_load(request.body)
            if request.content_type == _YAML
            else msgspec.json.decode(request.body)
        )
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise _UnreadableError(str(error)) from error
    except msgspec.DecodeError as error:
        raise _UnreadableError(syntax_problem(request.body) or str(error)) from error
    if decoded is None:
        return {}
    if not isinstance(decoded, dict):
        raise _UnreadableError(type_meta_problem(decoded))
    problem = type_meta_problem(decoded)
    if problem:
        raise _UnreadableError(problem)
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

    A custom resource keeps the type that it names, for :func:`understand` to look at.

    Raises:
        ApiError: 400, one of them is another than the URL's.
    """
    if not resource.custom:
        check_type_meta(obj, resource)
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


def check_type_meta(obj: Json, resource: Resource) -> None:
    """Refuse an object of a built-in kind that says it is of another kind or version.

    Raises:
        ApiError: 400.

    Source: ``transformDecodeError``, k8s.io/apiserver pkg/endpoints/handlers/rest.go.
    """
    api_version = obj.get("apiVersion") or resource.api_version
    kind = obj.get("kind") or resource.kind
    if (api_version, kind) == (resource.api_version, resource.kind):
        return
    version = api_version.rpartition("/")[2]
    known = fields.type_of_kind(fields.kind_key(api_version, kind)) is not None
    if known and kind == resource.kind:
        raise errors.bad_request(
            f"the API version in the data ({api_version}) does not match the expected API "
            f"version ({resource.api_version})"
        )
    if known:
        ours = f"{resource.group.partition('.')[0] or 'core'}.{resource.kind}"
        text = f"converting ({version}.{kind}) to ({ours}): unknown conversion"
    else:
        text = (
            f'no kind "{kind}" is registered for version "{api_version}" in scheme '
            '"pkg/runtime/scheme.go:111"'
        )
    raise errors.bad_request(
        f'{kind} in version "{version}" cannot be handled as a {resource.kind}: {text}'
    )


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
        ApiError: 400, a value can't be read; 422, a custom resource is of another type.
    """
    if custom is not None:
        check_type(obj, resource)
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

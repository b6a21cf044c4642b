"""The shape of every built-in kind: what a body must look like to be stored.

The types of the fields are those of ``fields.json``. Each becomes a class when the first object
brings it, as decoding into classes is what costs least; fields that aren't recorded are passed
over. A value of another type is a 400, as it is for Go's decoder.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Final

import msgspec

from sandbox.errors import cannot_be_handled
from sandbox.objects import fields
from sandbox.objects.resources import Resource
from sandbox.objects.schema_keywords import LIST_KEYS, LIST_TYPE, RULES

_METADATA: Final = "ObjectMeta"
_OF_EVERY_KIND: Final = ("apiVersion", "kind", "metadata")  # looked at before
_SCALARS: Final[Mapping[str, Any]] = {
    "any": Any,
    "boolean": bool,
    "bytes": str,
    "int32": Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)],
    "int64": Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)],
    "number": float,
    "string": str,
    "time": str,
}
_NUMBERS_OR_TEXTS: Final = frozenset(
    {"maxSurge", "maxUnavailable", "minAvailable", "port", "targetPort"}
)
_AMOUNTS: Final = dict[str, str | int | float]
# Everything is optional for Go's decoder. These are not, as others here rely on them; a real server
# leaves that to rules, or to nobody.
_NEEDED: Final[Mapping[str, frozenset[str]]] = {
    "ContainerStatus": frozenset({"name"}),
    "CustomResourceColumnDefinition": frozenset({"jsonPath", "name", "type"}),
    "CustomResourceDefinitionVersion": frozenset({"name", "served", "storage"}),
    "CustomResourceSubresourceScale": frozenset({"specReplicasPath", "statusReplicasPath"}),
    "LabelSelectorRequirement": frozenset({"key", "operator"}),
    "NodeAddress": frozenset({"address", "type"}),
    "SelectableField": frozenset({"jsonPath"}),
}


class _Schema(msgspec.Struct, rename="camel", kw_only=True):
    """``JSONSchemaProps``, which holds itself, also where it may be something else."""

    type: str | None = None
    format: str | None = None
    description: str | None = None
    properties: "dict[str, _Schema] | None" = None
    additional_properties: "_Schema | bool | None" = None
    items: "_Schema | None" = None
    required: list[str] | None = None
    enum: list[Any] | None = None
    pattern: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool | None = None
    exclusive_maximum: bool | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    max_properties: int | None = None
    nullable: bool | None = None
    all_of: "list[_Schema] | None" = None
    any_of: "list[_Schema] | None" = None
    one_of: "list[_Schema] | None" = None
    not_: "_Schema | None" = msgspec.field(default=None, name="not")
    list_type: str | None = msgspec.field(default=None, name=LIST_TYPE)
    list_keys: list[str] | None = msgspec.field(default=None, name=LIST_KEYS)
    rules: list[dict[str, Any]] | None = msgspec.field(default=None, name=RULES)


def check_shape(resource: Resource, obj: Mapping[str, Any]) -> None:
    """Check the types of all fields of a built-in kind, ``metadata`` aside.

    Raises:
        ApiError: 400 with the place of the first value that has another type.
    """
    if resource.custom:
        return
    type_ = fields.type_of_kind(fields.kind_key(resource.api_version, resource.kind))
    if type_ is None:
        return
    try:
        msgspec.convert(obj, _kind(type_))
    except msgspec.ValidationError as error:
        raise cannot_be_handled(resource, str(error)) from error


def check_metadata(resource: Resource, meta: Any) -> None:
    """Check the types of an object's metadata.

    Raises:
        ApiError: 400.
    """
    try:
        msgspec.convert(meta, _shape(_METADATA))
    except msgspec.ValidationError as error:
        raise cannot_be_handled(resource, f"metadata: {error}") from error


@cache
def _kind(name: str) -> Any:
    return _class(name, fields.types_of(name).keys() - _OF_EVERY_KIND)


@cache
def _shape(name: str) -> Any:
    """A recorded type as a class."""
    return _Schema if name == "JSONSchemaProps" else _class(name, fields.types_of(name))


def _class(name: str, wanted: Iterable[str]) -> type[msgspec.Struct]:
    """A class of some fields; what JSON calls them may be no name in Python."""
    types, needed = fields.types_of(name), _NEEDED.get(name, frozenset())
    if name.endswith("Condition"):
        needed |= types.keys() & {"type"}
    names = {f"field_{index}": field for index, field in enumerate(sorted(wanted))}
    return msgspec.defstruct(
        name,
        [
            (ours, _type(field, types[field]))
            if field in needed
            else (ours, _type(field, types[field]) | None, None)
            for ours, field in names.items()
        ],
        rename=names,
        kw_only=True,
    )


def _type(field: str, held: str) -> Any:
    if held == "{any":
        return _AMOUNTS
    if held == "any" and field in _NUMBERS_OR_TEXTS:
        return int | str
    if held.startswith("["):
        return list[_type(field, held[1:])]  # type: ignore[misc]  # a type that is made at run time
    if held.startswith("{"):
        return dict[str, _type(field, held[1:])]  # type: ignore[misc]  # as above
    return _shape(held) if fields.has_fields(held) else _SCALARS[held]

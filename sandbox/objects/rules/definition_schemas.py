"""What the schema in a definition may say.

Rules in CEL aren't compiled. Source: ``ValidateCustomResourceDefinitionOpenAPISchema``,
k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from common.errors import Cause
from sandbox.errors import field_forbidden, field_invalid, field_not_supported, field_required
from sandbox.objects.rules import definition_structure
from sandbox.objects.schema_keywords import (
    EMBEDDED,
    LIST_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    OF_EVERY_OBJECT,
    PRESERVE,
    RULES,
    Schema,
)

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED = (
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
)
_REASONS = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)
_AT_ROOT = {  # beside a status, by their names in Go, in its order
    "Description": "description",
    "Type": "type",
    "Format": "format",
    "Title": "title",
    "Maximum": "maximum",
    "ExclusiveMaximum": "exclusiveMaximum",
    "Minimum": "minimum",
    "ExclusiveMinimum": "exclusiveMinimum",
    "MaxLength": "maxLength",
    "MinLength": "minLength",
    "Pattern": "pattern",
    "MaxItems": "maxItems",
    "MinItems": "minItems",
    "UniqueItems": "uniqueItems",
    "MultipleOf": "multipleOf",
    "Required": "required",
    "Items": "items",
    "Properties": "properties",
    "ExternalDocs": "externalDocs",
    "Example": "example",
    "XPreserveUnknownFields": PRESERVE,
    "XValidations": RULES,
}


def causes(schema: Schema, path: str, *, has_status: bool) -> Iterator[Cause]:
    """What is wrong with the schema of a version."""
    if has_status:
        yield from _beside_status(schema, path)
    if schema.get("nullable"):
        yield field_forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    yield from definition_structure.causes(schema, path)
    yield from _checked(schema, path, root=True)


def _beside_status(schema: Schema, path: str) -> Iterator[Cause]:
    if schema.get("type") not in (None, "", "object"):
        text = (
            'only "object" is allowed as the type at the root of the schema if the status '
            "subresource is enabled"
        )
        yield field_invalid(f"{path}.type", schema["type"], text)
    elif any(value and name not in _AT_ROOT.values() for name, value in schema.items()):
        text = (
            f"only [{' '.join(_AT_ROOT)}] fields are allowed at the root of the schema if the "
            "status subresource is enabled"
        )
        yield field_invalid(path, schema, text)


def _checked(
    schema: Schema, path: str, *, root: bool = False, meta: bool = False, forbids: str = ""
) -> Iterator[Cause]:
    """``meta`` says that this is of an object's metadata, ``forbids`` why there's no default."""
    yield from _own(schema, path, meta=meta, forbids=forbids)
    additional, properties = schema.get("additionalProperties"), schema.get("properties") or {}
    if additional is not None and properties and additional is not True:
        text = "additionalProperties and properties are mutual exclusive"
        yield field_forbidden(f"{path}.additionalProperties", text)
    if isinstance(additional, Mapping):
        reason = "inside additionalProperties applying to object metadata" if meta else forbids
        yield from _checked(additional, f"{path}.additionalProperties", meta=meta, forbids=reason)
    for name, below in properties.items():
        inside = (root or bool(schema.get(EMBEDDED))) and name in OF_EVERY_OBJECT
        yield from _checked(
            below,
            f"{path}.properties[{name}]",
            meta=meta or inside,
            forbids=f"in top-level {name}" if inside and root else forbids,
        )
    if schema.get("not") is not None:
        yield from _checked(schema["not"], f"{path}.not", meta=meta, forbids=forbids)
    for junctor in ("allOf", "oneOf", "anyOf"):
        for index, option in enumerate(schema.get(junctor) or ()):
            yield from _checked(option, f"{path}.{junctor}[{index}]", meta=meta, forbids=forbids)
    if isinstance(schema.get("items"), Mapping):
        yield from _checked(schema["items"], f"{path}.items", meta=meta, forbids=forbids)
    yield from _collections(schema, path)
    for index, rule in enumerate(schema.get(RULES) or ()):
        yield from _rule(rule, f"{path}.{RULES}[{index}]")


def _own(schema: Schema, path: str, *, meta: bool, forbids: str) -> Iterator[Cause]:
    type_ = schema.get("type") or ""
    if type_ and type_ not in _TYPES:
        yield field_not_supported(f"{path}.type", type_, _TYPES)
    if forbids and schema.get("default") is not None:
        yield field_forbidden(f"{path}.default", f"must not be set {forbids}")
    for name in _UNSUPPORTED:
        if schema.get(name):
            yield field_forbidden(f"{path}.{name}", f"{name} is not supported")
    if type_ == "null":
        text = "type cannot be set to null, use nullable as an alternative"
        yield field_forbidden(f"{path}.type", text)
    if meta and schema.get(EMBEDDED):
        text = "must not be used inside of resource meta"
        yield field_forbidden(f"{path}.{EMBEDDED}", text)
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield field_forbidden(f"{path}.uniqueItems", text)


def _collections(schema: Schema, path: str) -> Iterator[Cause]:
    if schema.get(PRESERVE) is False:
        yield field_invalid(f"{path}.{PRESERVE}", False, "must be true or undefined")
    list_type, map_type = schema.get(LIST_TYPE), schema.get(MAP_TYPE)
    if map_type is not None:
        yield from _has_type(schema, path, "object", MAP_TYPE)
        if map_type not in ("atomic", "granular"):
            yield field_not_supported(f"{path}.{MAP_TYPE}", map_type, ("atomic", "granular"))
    if list_type is not None:
        yield from _has_type(schema, path, "array", LIST_TYPE)
        items = schema.get("items") or {}
        if schema.get("type") == "array" and list_type == "set":
            yield from _in_set(items, f"{path}.items")
        if list_type not in ("atomic", "set", "map"):
            known = ("atomic", "set", "map")
            yield field_not_supported(f"{path}.{LIST_TYPE}", list_type, known)
    if schema.get(LIST_KEYS) and list_type != "map":
        text, place = f"must be map if {LIST_KEYS} is non-empty", f"{path}.{LIST_TYPE}"
        yield (
            field_required(place, text)
            if list_type is None
            else field_invalid(place, list_type, text)
        )
    if list_type == "map":
        yield from _list_map(schema, path)
    if list_type in ("set", "map") and (schema.get("items") or {}).get("nullable"):
        text = f"cannot be nullable when {LIST_TYPE} is {list_type}"
        yield field_forbidden(f"{path}.items.nullable", text)
    if list_type == "map":
        yield from _keys(schema, path)


def _has_type(schema: Schema, path: str, wanted: str, extension: str) -> Iterator[Cause]:
    type_, text = schema.get("type") or "", f"must be {wanted} if {extension} is specified"
    if not type_:
        yield field_required(f"{path}.type", text)
    elif type_ != wanted:
        yield field_invalid(f"{path}.type", type_, text)


def _in_set(items: Schema, path: str) -> Iterator[Cause]:
    list_type = items.get(LIST_TYPE)
    text = f"must be atomic as item of a list with {LIST_TYPE}=set"
    if items.get("type") == "array" and list_type not in (None, "atomic"):
        yield field_invalid(f"{path}.{LIST_TYPE}", list_type, text)
    if items.get("type") == "object" and items.get(MAP_TYPE) != "atomic":
        yield field_invalid(f"{path}.{MAP_TYPE}", list_type, text)


def _list_map(schema: Schema, path: str) -> Iterator[Cause]:
    keys, items = schema.get(LIST_KEYS) or [], schema.get("items")
    if not keys:
        text = f"must not be empty if {LIST_TYPE} is map"
        yield field_required(f"{path}.{LIST_KEYS}", text)
    if items is None:
        yield field_required(f"{path}.items", f"must have a schema if {LIST_TYPE} is map")
        return
    if items.get("type") != "object":
        text = f"must be object if parent array's {LIST_TYPE} is map"
        yield field_invalid(f"{path}.items.type", items.get("type") or "", text)
        return
    for index, key in enumerate(keys):
        field = (items.get("properties") or {}).get(key)
        if field is None:
            text = "entries must all be names of item properties"
            yield field_invalid(f"{path}.{LIST_KEYS}", keys, text)
        elif field.get("type") in ("array", "object"):
            text = f"must be a scalar type if parent array's {LIST_TYPE} is map"
            yield field_invalid(f"{path}.items.properties[{key}].type", items["type"], text)
        if key in keys[:index]:
            yield field_invalid(f"{path}.{LIST_KEYS}", keys, "must not contain duplicate entries")


def _keys(schema: Schema, path: str) -> Iterator[Cause]:
    items = schema.get("items") or {}
    for key in schema.get(LIST_KEYS) or ():
        field = (items.get("properties") or {}).get(key)
        if field is None:
            continue
        place, told = f"{path}.items.properties[{key}]", f"this property is in {LIST_KEYS}, so it"
        if key not in (items.get("required") or ()) and field.get("default") is None:
            text = f"{told} must have a default or be a required property"
            yield field_required(f"{place}.default", text)
        if field.get("nullable"):
            yield field_forbidden(f"{place}.nullable", f"{told} cannot be nullable")


def _rule(rule: Mapping[str, Any], path: str) -> Iterator[Cause]:
    text, message = rule.get("rule") or "", rule.get("message") or ""
    if not text.strip():
        yield field_required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield field_invalid(f"{path}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield field_invalid(f"{path}.message", message, "must not contain line breaks")
    elif "\n" in text.strip() and not message:
        why = "message must be specified if rule contains line breaks"
        yield field_required(f"{path}.message", why)
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        yield field_not_supported(f"{path}.reason", reason, _REASONS)

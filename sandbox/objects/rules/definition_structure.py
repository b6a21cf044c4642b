"""Whether the schema of a definition is structural: every field has a type, and only one.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/{validation,complete}.go and
schema/defaulting/validation.go.
"""

from collections.abc import Iterator, Mapping

import msgspec

from common.errors import Cause
from sandbox.errors import field_forbidden, field_invalid, field_required
from sandbox.objects import go_patterns, schema_validation
from sandbox.objects.schema_keywords import (
    EMBEDDED,
    INT_OR_STRING,
    LIST_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    OF_EVERY_OBJECT,
    PRESERVE,
    RULES,
    Schema,
)
from sandbox.objects.structural_schema import prune

_JUNCTORS = ("anyOf", "allOf", "oneOf")
_EITHER = [{"type": "integer"}, {"type": "string"}]
_TYPE_MISSING = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_NOT_NESTED = {  # what may stand outside of the junctors only
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    PRESERVE: "must be false to be structural",
    EMBEDDED: "must be false to be structural",
    INT_OR_STRING: "must be false to be structural",
    LIST_KEYS: "must be empty to be structural",
    LIST_TYPE: "must be undefined to be structural",
    MAP_TYPE: "must be undefined to be structural",
    RULES: "must be empty to be structural",
}


def causes(schema: Schema, path: str) -> list[Cause]:
    """What isn't structural; in the order of the sentences. Then the defaults are looked at."""
    found = [*_invariants(schema, "root", path), *_completeness(schema, schema, path, path)]
    if found:
        return sorted(found, key=lambda one: f"{one.field}: {one.message}")
    return list(_defaults(schema, path, root=True))


def _invariants(schema: Schema, level: str, path: str) -> Iterator[Cause]:
    type_, items = schema.get("type") or "", schema.get("items")
    if type_ == "array" and items is None:
        yield field_required(f"{path}.items", "must be specified")
    if items is not None:
        yield from _invariants(items, "item", f"{path}.items")
    properties = schema.get("properties") or {}
    for name, below in properties.items():
        yield from _invariants(below, "field", f"{path}.properties[{name}]")
    additional = schema.get("additionalProperties")
    if additional is not None and level == "root":
        yield field_forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(additional, Mapping):
        yield from _invariants(additional, "field", f"{path}.additionalProperties")
    yield from _extensions(schema, path)
    yield from _values(
        schema,
        path,
        either=schema.get("anyOf") == _EITHER,
        first=bool(schema.get("allOf")) and schema["allOf"][0].get("anyOf") == _EITHER,
    )
    yield from _type_causes(schema, type_, level, path)
    if level == "root" or schema.get(EMBEDDED):
        for name in ("kind", "apiVersion"):
            if name in properties and properties[name].get("type") != "string":
                place = f"{path}.properties[{name}].type"
                yield field_invalid(place, properties[name].get("type") or "", "must be string")
        if "metadata" in properties:
            yield from _metadata(properties["metadata"], level, f"{path}.properties[metadata]")


def _extensions(schema: Schema, path: str) -> Iterator[Cause]:
    for name in (PRESERVE, EMBEDDED):
        if schema.get(INT_OR_STRING) and schema.get(name):
            text = f"must be false if {INT_OR_STRING} is true"
            yield field_invalid(f"{path}.{name}", True, text)


def _type_causes(schema: Schema, type_: str, level: str, path: str) -> Iterator[Cause]:
    embedded = schema.get(EMBEDDED)
    if embedded and type_ != "object":
        text = f"must be object if {EMBEDDED} is true"
        yield (
            field_invalid(f"{path}.type", type_, text)
            if type_
            else field_required(f"{path}.type", text)
        )
    elif not type_ and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        yield field_required(f"{path}.type", _TYPE_MISSING[level])
    if embedded and schema.get("additionalProperties") is not None:
        text = f"must not be used if {EMBEDDED} is set"
        yield field_forbidden(f"{path}.additionalProperties", text)
    if level == "root" and type_ and type_ != "object":
        yield field_invalid(f"{path}.type", type_, "must be object at the root")
    if embedded and not schema.get(PRESERVE) and not schema.get("properties"):
        text = f"must not be empty if {EMBEDDED} is true without {PRESERVE}"
        yield field_required(f"{path}.properties", text)


def _metadata(schema: Schema, level: str, path: str) -> Iterator[Cause]:
    if schema.get("type") != "object":
        yield field_invalid(f"{path}.type", schema.get("type") or "", "must be object")
    if level != "root":
        return
    told = {name for name, value in schema.items() if value} - {"type", "default"}
    if set(schema.get("properties") or ()) <= {"name", "generateName"}:
        told.discard("properties")
    if told:
        text = (
            "must not specify anything other than name and generateName, but metadata is "
            "implicitly specified"
        )
        yield field_forbidden(path, text)


def _values(
    schema: Schema, path: str, *, either: bool = False, first: bool = False
) -> Iterator[Cause]:
    """The rules of values; ``either`` and ``first`` excuse what says that a type may be two."""
    for name in _JUNCTORS:
        if name == "anyOf" and either:
            continue
        for index, option in enumerate(schema.get(name) or ()):
            excused = name == "allOf" and first and index == 0
            yield from _nested(option, f"{path}.{name}[{index}]", either=excused)
    if schema.get("not") is not None:
        yield from _nested(schema["not"], f"{path}.not")
    pattern = schema.get("pattern")
    wrong = go_patterns.problem(pattern) if pattern else ""
    if wrong:
        text = f"must be a valid regular expression, but isn't: error parsing regexp: {wrong}"
        yield field_invalid(f"{path}.pattern", pattern, text)


def _nested(schema: Schema, path: str, *, either: bool = False) -> Iterator[Cause]:
    yield from _values(schema, path, either=either)
    if schema.get("items") is not None:
        yield from _nested(schema["items"], f"{path}.items")
    properties = schema.get("properties") or {}
    for name, below in properties.items():
        yield from _nested(below, f"{path}.properties[{name}]")
    for name, text in _NOT_NESTED.items():
        if schema.get(name) or (name in ("default", "additionalProperties") and name in schema):
            yield field_forbidden(f"{path}.{name}", text)
    if "metadata" in properties:
        text = "must not be specified in a nested context"
        yield field_forbidden(f"{path}.properties[metadata]", text)


def _completeness(values: Schema, schema: Schema, path: str, at: str) -> Iterator[Cause]:
    """What the junctors in ``values`` speak of must stand in ``schema``, too."""
    for name in ("not", *_JUNCTORS):
        options = [values["not"]] if name == "not" and values.get("not") else values.get(name) or ()
        for index, option in enumerate(options if isinstance(options, list) else ()):
            place = f"{at}.not" if name == "not" else f"{at}.{name}[{index}]"
            yield from _nested_completeness(option, schema, path, place)


def _nested_completeness(
    values: Schema, schema: Schema | None, path: str, at: str
) -> Iterator[Cause]:
    if schema is None:
        yield field_required(path, f"because it is defined in {at}")
        return
    yield from _completeness(values, schema, path, at)
    if values.get("items") is not None:
        items = schema.get("items")
        yield from _nested_completeness(values["items"], items, f"{path}.items", f"{at}.items")
    known = schema.get("properties") or {}
    for name, below in (values.get("properties") or {}).items():
        place, source = f"{path}.properties[{name}]", f"{at}.properties[{name}]"
        yield from _nested_completeness(below, known.get(name), place, source)


def _defaults(
    schema: Schema, path: str, *, root: bool = False, in_metadata: bool = False
) -> Iterator[Cause]:
    """Defaults must be what the schema takes; those of metadata aren't looked at."""
    embedded = root or bool(schema.get(EMBEDDED))
    default = schema.get("default")
    if default is not None and not in_metadata:
        pruned = msgspec.json.decode(msgspec.json.encode(default))
        if prune(pruned, schema, root=embedded):
            yield field_invalid(f"{path}.default", default, "must not have unknown fields")
        yield from schema_validation.violations(default, schema, place=f"{path}.default")
    if schema.get("items") is not None:
        yield from _defaults(schema["items"], f"{path}.items", in_metadata=in_metadata)
    for name, below in (schema.get("properties") or {}).items():
        inside = (in_metadata and not embedded) or (embedded and name in OF_EVERY_OBJECT)
        yield from _defaults(below, f"{path}.properties[{name}]", in_metadata=inside)

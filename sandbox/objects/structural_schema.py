"""Structural schemas of custom resources: what is dropped, filled in and refused.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/{schema,validation}. Not evaluated: CEL
rules other than the form that :mod:`sandbox.objects.presence_rules` knows, and the formats beyond
numbers and times.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from common.errors import Cause
from sandbox.errors import (
    field_duplicate,
    field_invalid,
    field_not_supported,
    field_required,
    field_type_invalid,
)
from sandbox.objects import presence_rules

Schema = Mapping[str, Any]

_ROOT_FIELDS = ("apiVersion", "kind", "metadata")
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_BOUNDS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_BLOCKING = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)


def prune(value: Any, schema: Schema, path: str = "", *, root: bool = True) -> list[str]:
    """Remove, in place, what the schema doesn't know; returns the removed paths."""
    removed: list[str] = []
    if isinstance(value, dict):
        properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
        for name in tuple(value):
            below = f"{path}.{name}" if path else name
            if root and name in _ROOT_FIELDS:
                continue
            if name in properties:
                removed += prune(value[name], properties[name], below, root=False)
            elif isinstance(additional, Mapping):
                removed += prune(value[name], additional, below, root=False)
            elif not (additional is True or schema.get(_PRESERVE)):
                del value[name]
                removed.append(below)
    elif isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            removed += prune(item, schema["items"], f"{path}[{index}]", root=False)
    return removed


def fill_defaults(value: Any, schema: Schema) -> None:
    """Set, in place, the defaults of what is missing, also within what was just set."""
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for name, below in properties.items():
            absent = name not in value or (value[name] is None and not below.get("nullable"))
            if absent and "default" in below:
                value[name] = msgspec.json.decode(msgspec.json.encode(below["default"]))
            if name in value:
                fill_defaults(value[name], below)
        additional = schema.get("additionalProperties")
        if isinstance(additional, Mapping):
            for name in value.keys() - properties.keys():
                fill_defaults(value[name], additional)
    elif isinstance(value, list) and "items" in schema:
        for item in value:
            fill_defaults(item, schema["items"])


def check(value: Any, schema: Schema, *, nil: str) -> list[Cause]:
    """Every rule that ``value`` breaks, in the order of the schema.

    Rules in CEL are looked at only when the shape is right; where they aren't, a last cause
    says so, and writes the missing value as ``nil`` (it differs between minors).
    """
    causes = list(_violations(value, schema, "", root=True))
    if not _has_rules(schema):
        return causes
    if any(cause.reason in _BLOCKING for cause in causes):
        text = (
            "some validation rules were not checked because the object was invalid; "
            "correct the existing errors to complete validation"
        )
        message = f"Invalid value: {nil}: {text}"
        return [*causes, Cause(reason="FieldValueInvalid", message=message, field="<nil>")]
    return [*causes, *_rule_violations(value, schema, "")]


def _violations(value: Any, schema: Schema, path: str, *, root: bool = False) -> Iterator[Cause]:
    wrong_type = _wrong_type(value, schema, path)
    if wrong_type is not None:
        yield wrong_type
        return
    if value is None:
        return
    if "enum" in schema and value not in schema["enum"]:
        yield field_not_supported(path, value, schema["enum"])
    if isinstance(value, dict):
        yield from _in_map(value, schema, path, root=root)
    elif isinstance(value, list):
        yield from _in_list(value, schema, path)
    elif isinstance(value, str):
        yield from _in_text(value, schema, path)
    elif not isinstance(value, bool):
        yield from _in_number(value, schema, path)
    yield from _in_combinations(value, schema, path)


def _in_map(value: Mapping[str, Any], schema: Schema, path: str, *, root: bool) -> Iterator[Cause]:
    for name in schema.get("required", ()):
        if name not in value:
            yield field_required(f"{path}.{name}" if path else name)
    size = len(value)
    if size > schema.get("maxProperties", size):
        yield _too_many(path, size, schema["maxProperties"])
    properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
    for name, item in value.items():
        if root and name in _ROOT_FIELDS:
            continue
        below = properties.get(name, additional)
        if isinstance(below, Mapping):
            yield from _violations(item, below, f"{path}.{name}" if path else name)


def _in_list(value: Sequence[Any], schema: Schema, path: str) -> Iterator[Cause]:
    size = len(value)
    if size > schema.get("maxItems", size):
        yield _too_many(path, size, schema["maxItems"])
    if size < schema.get("minItems", 0):
        yield field_invalid(
            path, size, f"{path} in body should have at least {schema['minItems']} items"
        )
    if "items" in schema:
        for index, item in enumerate(value):
            yield from _violations(item, schema["items"], f"{path}[{index}]")
    kind = schema.get("x-kubernetes-list-type")
    if kind in ("map", "set"):
        keys = schema.get("x-kubernetes-list-map-keys", ())
        seen: list[Any] = []
        for index, item in enumerate(value):
            identity = item
            if kind == "map":
                identity = {key: item.get(key) for key in keys} if isinstance(item, dict) else item
            if identity in seen:
                yield field_duplicate(f"{path}[{index}]", identity)
            seen.append(identity)


def _in_text(value: str, schema: Schema, path: str) -> Iterator[Cause]:
    if len(value) > schema.get("maxLength", len(value)):
        message = f"Too long: may not be more than {schema['maxLength']} bytes"
        yield Cause(reason="FieldValueTooLong", message=message, field=path)
    if len(value) < schema.get("minLength", 0):
        text = f"{path} in body should be at least {schema['minLength']} chars long"
        yield field_invalid(path, value, text)
    if "pattern" in schema and _pattern(schema["pattern"]).search(value) is None:
        yield field_invalid(path, value, f"{path} in body should match '{schema['pattern']}'")
    if schema.get("format") == "date-time" and not _is_time(value):
        text = f'{path} in body must be of type date-time: "{value}"'
        yield field_type_invalid(path, value, text)


def _in_number(value: float, schema: Schema, path: str) -> Iterator[Cause]:
    low, high = _BOUNDS.get(schema.get("format", ""), (value, value))
    if not low <= value <= high:
        text = f"{path} in body must be of type {schema['format']}: {value}"
        yield field_type_invalid(path, value, text)
    minimum, maximum = schema.get("minimum"), schema.get("maximum")
    if minimum is not None and (value <= minimum if _exclusive(schema, "M") else value < minimum):
        bound = "than" if _exclusive(schema, "M") else "than or equal to"
        yield field_invalid(path, value, f"{path} in body should be greater {bound} {minimum}")
    if maximum is not None and (value >= maximum if _exclusive(schema, "X") else value > maximum):
        bound = "than" if _exclusive(schema, "X") else "than or equal to"
        yield field_invalid(path, value, f"{path} in body should be less {bound} {maximum}")


def _exclusive(schema: Schema, side: str) -> bool:
    return bool(schema.get("exclusiveMinimum" if side == "M" else "exclusiveMaximum"))


def _in_combinations(value: Any, schema: Schema, path: str) -> Iterator[Cause]:
    for option in schema.get("allOf", ()):
        yield from _violations(value, option, path)
    if "not" in schema and not any(_violations(value, schema["not"], path)):
        yield field_invalid(path, value, f"{path} in body must not validate the schema (not)")
    for name, allowed in (("anyOf", "at least one"), ("oneOf", "one and only one")):
        if name not in schema:
            continue
        fitting = sum(1 for option in schema[name] if not any(_violations(value, option, path)))
        if fitting == 0 or (name == "oneOf" and fitting > 1):
            text = f"{path} in body must validate {allowed} schema ({name})"
            yield field_invalid(path, value, text)


def _rule_violations(value: Any, schema: Schema, path: str) -> Iterator[Cause]:
    for rule in schema.get("x-kubernetes-validations", ()):
        if presence_rules.broken(rule.get("rule", ""), value):
            message = rule.get("message") or f"failed rule: {rule['rule']}"
            yield field_invalid(path, value if isinstance(value, str | int) else "object", message)
    if isinstance(value, dict):
        properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
        for name, item in value.items():
            below = properties.get(name, additional)
            if isinstance(below, Mapping):
                yield from _rule_violations(item, below, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from _rule_violations(item, schema["items"], f"{path}[{index}]")


def _has_rules(schema: Schema) -> bool:
    if schema.get("x-kubernetes-validations"):
        return True
    below = [*schema.get("properties", {}).values(), schema.get("additionalProperties")]
    below.append(schema.get("items"))
    return any(isinstance(item, Mapping) and _has_rules(item) for item in below)


def _wrong_type(value: Any, schema: Schema, path: str) -> Cause | None:
    actual = _type_name(value)
    if value is None:
        wanted = schema.get("type")
        if schema.get("nullable") or wanted is None:
            return None
    elif schema.get(_INT_OR_STRING):
        wanted = "integer" if actual == "string" else "integer or string"
        if actual in ("integer", "string"):
            return None
    else:
        wanted = schema.get("type")
        if wanted is None or wanted == actual or (wanted, actual) == ("number", "integer"):
            return None
    text = f'{path or "<root>"} in body must be of type {wanted}: "{actual}"'
    return field_type_invalid(path, actual, text)


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    names = {float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _too_many(path: str, size: int, most: int) -> Cause:
    message = f"Too many: {size}: must have at most {most} items"
    return Cause(reason="FieldValueTooMany", message=message, field=path)


@lru_cache(maxsize=256)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False

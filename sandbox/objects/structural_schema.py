"""Structural schemas of custom resources: what is dropped, filled in and refused.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema, pkg/registry/customresource. Not
evaluated: CEL rules other than the form that :mod:`sandbox.objects.rules.presence` knows.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from common.errors import Cause
from sandbox.errors import field_duplicate, field_invalid
from sandbox.objects.rules import presence
from sandbox.objects.schema_keywords import (
    LIST_KEYS,
    LIST_TYPE,
    OF_EVERY_OBJECT,
    PRESERVE,
    RULES,
    Schema,
)
from sandbox.objects.schema_validation import ABSENT, unchanged, violations

_TWICE = 2
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
            if root and name in OF_EVERY_OBJECT:
                continue
            if name in properties:
                removed += prune(value[name], properties[name], below, root=False)
            elif isinstance(additional, Mapping):
                removed += prune(value[name], additional, below, root=False)
            elif not (additional is True or schema.get(PRESERVE)):
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


def drop_nulls(value: Any, schema: Schema | None) -> None:
    """Remove, in place, the nulls of fields that may not be null and have no default.

    What no schema tells of may be null.
    """
    if isinstance(value, dict):
        for name in tuple(value):
            below = _below(schema, name)
            item = value[name]
            if item is None:
                if below is not None and not below.get("nullable") and "default" not in below:
                    del value[name]
            elif isinstance(item, dict | list):
                drop_nulls(item, below)
    elif isinstance(value, list):
        below = None if schema is None else schema.get("items")
        for item in value:
            if isinstance(item, dict | list):
                drop_nulls(item, below)


def _below(schema: Schema | None, name: str) -> Schema | None:
    """The schema of a field."""
    if schema is None:
        return None
    found = schema.get("properties", {}).get(name)
    if found is None:
        found = schema.get("additionalProperties")
    return found if isinstance(found, Mapping) else None


def check(
    value: Mapping[str, Any],
    schema: Schema,
    *,
    nil: str,
    old: Mapping[str, Any] | None = None,
    part: str = "",
) -> list[Cause]:
    """Every rule that the object ``value`` breaks, in the order of the schema.

    ``old`` is what it was before an update: what hasn't changed isn't wrong. ``part`` is
    ``status`` when only that was written.

    Rules in CEL are looked at only when the shape is right; where they aren't, a last cause
    says so, and writes the missing value as ``nil`` (it differs between minors).
    """
    before: Any = ABSENT if old is None else old
    if not part:
        causes = violations(value, schema, old=before)
    elif part in value:
        below = schema.get("properties", {}).get(part, {})
        was = ABSENT if old is None else old.get(part, ABSENT)
        causes = violations(value[part], below, old=was, place=part)
    else:
        causes = []
    repeated = list(_repetitions(value, schema, ""))
    if repeated and (old is None or not any(_repetitions(old, schema, ""))):
        causes += repeated
    if not _has_rules(schema):
        return causes
    if any(cause.reason in _BLOCKING for cause in causes):
        text = (
            "some validation rules were not checked because the object was invalid; "
            "correct the existing errors to complete validation"
        )
        message = f"Invalid value: {nil}: {text}"
        return [*causes, Cause(reason="FieldValueInvalid", message=message, field="<nil>")]
    return [*causes, *_rule_violations(value, schema, "", before)]


def _repetitions(value: Any, schema: Schema, path: str) -> Iterator[Cause]:
    """Entries that are twice in a list that is a set or a map."""
    if isinstance(value, dict):
        properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
        for name, item in value.items():
            if not isinstance(item, dict | list):
                continue
            if name in properties:
                below = f"{path}.{name}" if path else name
                yield from _repetitions(item, properties[name], below)
            elif isinstance(additional, Mapping):
                yield from _repetitions(item, additional, f"{path}[{name}]")
    elif isinstance(value, list):
        kind = schema.get(LIST_TYPE)
        if kind in ("map", "set"):
            keys = schema.get(LIST_KEYS, ())
            yield from _in_set(value, path) if kind == "set" else _in_map(value, keys, path)
        items = schema.get("items")
        if items is not None:
            for index, item in enumerate(value):
                yield from _repetitions(item, items, f"{path}[{index}]")


def _in_map(value: Sequence[Any], keys: Sequence[str], path: str) -> Iterator[Cause]:
    for index, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            text = "must be an object for an array of list-type map"
            yield field_invalid(f"{path}[{index}]", item, text)
            return
    identities = [{key: item[key] for key in keys if key in item} if item else {} for item in value]
    yield from _in_set(identities, path)


def _in_set(value: Sequence[Any], path: str) -> Iterator[Cause]:
    """The first repetition of each entry."""
    times: dict[bytes, int] = {}
    for index, item in enumerate(value):
        text = msgspec.json.encode(item, order="deterministic")
        times[text] = times.get(text, 0) + 1
        if times[text] == _TWICE:
            yield field_duplicate(f"{path}[{index}]", item)


def _rule_violations(value: Any, schema: Schema, path: str, old: Any) -> Iterator[Cause]:
    if old is not ABSENT and unchanged(old, value):
        return
    for rule in schema.get(RULES, ()):
        if presence.broken(rule.get("rule", ""), value):
            message = rule.get("message") or f"failed rule: {rule['rule']}"
            yield field_invalid(path, value if isinstance(value, str | int) else "object", message)
    if isinstance(value, dict):
        properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
        were = old if isinstance(old, dict) else {}
        for name, item in value.items():
            below = properties.get(name, additional)
            if isinstance(below, Mapping):
                place = f"{path}.{name}" if path else name
                yield from _rule_violations(item, below, place, were.get(name, ABSENT))
    elif isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from _rule_violations(item, schema["items"], f"{path}[{index}]", ABSENT)


def _has_rules(schema: Schema) -> bool:
    if schema.get(RULES):
        return True
    below = [*schema.get("properties", {}).values(), schema.get("additionalProperties")]
    below.append(schema.get("items"))
    return any(isinstance(item, Mapping) and _has_rules(item) for item in below)

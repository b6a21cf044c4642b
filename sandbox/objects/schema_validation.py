"""Validation of values by the schema of a custom resource, with a real server's sentences.

The keywords are those of the project's own definitions. An update may leave an invalid value
unchanged (ratcheting). Only one form of CEL rules is evaluated, ``self.type == 'Factor' ?
has(self.factor) : !has(self.factor)``; others are accepted. Source: k8s.io/kube-openapi
pkg/validation/validate, k8s.io/apiextensions-apiserver
pkg/apiserver/validation/{validation,ratcheting}.go.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from common.errors import Cause
from sandbox.errors import (
    field_duplicate,
    field_invalid,
    field_not_supported,
    field_required,
    field_type_invalid,
    shown,
)
from sandbox.objects.structural_schema import INT_OR_STRING, LIST_KEYS, LIST_TYPE, RULES, Schema

ABSENT: Any = object()  # stands for a missing old value

_TYPES: Final[Mapping[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
_FIELD: Final = r"self\.(\w+)"
_RULE: Final = re.compile(
    rf"{_FIELD}\s*==\s*'([^']*)'\s*\?\s*has\({_FIELD}\)\s*:\s*!\s*has\({_FIELD}\)"
)
_BLOCKING: Final = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTypeInvalid",
    }
)


def check(
    value: Mapping[str, Any],
    schema: Schema,
    *,
    nil: str,
    old: Mapping[str, Any] | None = None,
    part: str = "",
) -> list[Cause]:
    """Return every rule that the object ``value`` breaks, in the order of the schema.

    ``old`` is the object before an update. ``part`` is ``status`` if only that was written. CEL
    rules count only if the shape is right. Otherwise a last cause reports that they were skipped,
    and writes the missing value as ``nil`` (it differs between minors).
    """
    before: Any = ABSENT if old is None else old
    if part:
        below = schema.get("properties", {}).get(part, {})
        was = ABSENT if old is None else old.get(part, ABSENT)
        causes = [
            Cause(
                reason=one.reason,
                message=one.message,
                field=part if one.field == "<nil>" else f"{part}.{one.field}",
            )
            for one in (_violations(value[part], below, was) if part in value else ())
        ]
    else:
        causes = _violations(value, schema, before)
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


def _violations(value: Any, schema: Schema, old: Any) -> list[Cause]:
    causes = dict.fromkeys(_check(value, schema, "", old))
    return [
        Cause(
            reason=one.reason, message=one.message, field=(one.field or "").lstrip(".") or "<nil>"
        )
        for one in causes
    ]


def _check(value: Any, schema: Schema, path: str, old: Any) -> Iterator[Cause]:
    if old is not ABSENT and _same(old, value):
        return
    if value is None and schema.get("nullable"):
        return
    yield from _type_causes(value, schema, path)
    if isinstance(value, str):
        yield from _text_causes(value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_causes(value, schema, path)
    elif isinstance(value, list):
        yield from _list_causes(value, schema, path, old)
    if "enum" in schema and value not in schema["enum"]:
        yield field_not_supported(path, value, schema["enum"])
    if isinstance(value, dict):
        yield from _map_causes(value, schema, path, old)


def _same(old: Any, new: Any) -> bool:
    """Return True if both are equal, including their types: 1 is neither 1.0 nor true."""
    if type(old) is not type(new):
        return False
    if isinstance(new, dict):
        return old.keys() == new.keys() and all(_same(old[name], new[name]) for name in new)
    if isinstance(new, list):
        return len(old) == len(new) and all(map(_same, old, new))
    return bool(old == new)


def _type_causes(value: Any, schema: Schema, path: str) -> Iterator[Cause]:
    wanted: tuple[str, ...] = ("integer", "string") if schema.get(INT_OR_STRING) else ()
    if schema.get("type"):
        wanted = (schema["type"],)
    if not wanted:
        return
    actual = "null" if value is None else _TYPES[type(value)]
    whole = isinstance(value, float) and value.is_integer() and "integer" in wanted
    if actual not in wanted and not whole and not (actual == "integer" and "number" in wanted):
        text = f"{path} in body must be of type {','.join(wanted)}: {shown(actual)}"
        yield field_type_invalid(path, actual, text)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _text_causes(value: str, schema: Schema, path: str) -> Iterator[Cause]:
    size, most = len(value), schema.get("maxLength")
    if most is not None and size > most:
        message = f"Too long: may not be more than {most} byte{'' if most == 1 else 's'}"
        yield Cause(reason="FieldValueTooLong", message=message, field=path)
    if size < schema.get("minLength", 0):
        text = f"{path} in body should be at least {schema['minLength']} chars long"
        yield field_invalid(path, value, text)
    if schema.get("pattern") and _compiled(schema["pattern"]).search(value) is None:
        yield field_invalid(path, value, f"{path} in body should match '{schema['pattern']}'")


def _number_causes(value: float, schema: Schema, path: str) -> Iterator[Cause]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and value < least:
        text = f"{path} in body should be greater than or equal to {least:g}"
        yield field_invalid(path, value, text)
    if most is not None and value > most:
        text = f"{path} in body should be less than or equal to {most:g}"
        yield field_invalid(path, value, text)


def _list_causes(value: Sequence[Any], schema: Schema, path: str, old: Any) -> Iterator[Cause]:
    items, keys = schema.get("items"), schema.get(LIST_KEYS, ())
    were = old if isinstance(old, list) else []
    seen = []
    for index, item in enumerate(value):
        place = f"{path}[{index}]"
        identity = {key: item.get(key) for key in keys} if isinstance(item, dict) else item
        before = ABSENT
        if schema.get(LIST_TYPE) == "map" and isinstance(item, dict):
            same = (one for one in were if {key: one.get(key) for key in keys} == identity)
            before = next(same, ABSENT)
        if items is not None:
            yield from _check(item, items, place, before)
        if schema.get(LIST_TYPE) in ("map", "set") and identity in seen:
            yield field_duplicate(place, identity)
        seen.append(identity)


def _map_causes(value: Mapping[str, Any], schema: Schema, path: str, old: Any) -> Iterator[Cause]:
    properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
    were = old if isinstance(old, dict) else {}
    for name, item in value.items():
        below = properties.get(name, additional)
        if isinstance(below, Mapping):
            place = f"{path}.{name}" if path or name not in properties else name
            yield from _check(item, below, place, were.get(name, ABSENT))
    for name in schema.get("required", ()):
        if name not in value:
            yield field_required(f"{path}.{name}")


def _rule_violations(value: Any, schema: Schema, path: str, old: Any) -> Iterator[Cause]:
    if old is not ABSENT and _same(old, value):
        return
    for rule in schema.get(RULES, ()):
        if _is_broken(rule.get("rule", ""), value):
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


def _is_broken(rule: str, value: Any) -> bool:
    """Return True if ``value`` breaks ``rule``. Other forms of rules are ignored."""
    match = _RULE.fullmatch(rule.strip())
    if match is None or not isinstance(value, dict):
        return False
    decider, wanted, present, absent = match.groups()
    if decider not in value or present != absent:
        return False
    return (value[decider] == wanted) is not (present in value)


def _has_rules(schema: Schema) -> bool:
    if schema.get(RULES):
        return True
    below = [*schema.get("properties", {}).values(), schema.get("additionalProperties")]
    below.append(schema.get("items"))
    return any(isinstance(item, Mapping) and _has_rules(item) for item in below)

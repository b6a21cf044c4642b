"""What is wrong with a value under an OpenAPI schema, as a real API server tells it.

Every rule is looked at, also when the type is wrong already; where none of several alternatives
fits, the problems of the one that got furthest are told. What an update leaves as it was is let
be (ratcheting). Source: k8s.io/kube-openapi pkg/validation/validate, k8s.io/apiextensions-apiserver
pkg/apiserver/validation/{validation,ratcheting,formats}.go.
"""

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from common.errors import Cause
from sandbox.errors import (
    field_invalid,
    field_not_supported,
    field_required,
    field_type_invalid,
    shown,
)
from sandbox.objects.go_patterns import compiled
from sandbox.objects.rules.text_formats import FORMATS, Format
from sandbox.objects.schema_keywords import (
    INT_OR_STRING,
    LIST_KEYS,
    LIST_TYPE,
    Schema,
)

ABSENT: Any = object()  # instead of an old value: there is none
_TYPES: Mapping[type, tuple[str, str]] = {  # of Python: in JSON, and the format that Go infers
    bool: ("boolean", ""),
    int: ("integer", "int64"),
    float: ("number", "float64"),
    str: ("string", ""),
    list: ("array", ""),
    dict: ("object", ""),
}
_LIMITS = (
    ("minimum", "exclusiveMinimum", "greater", operator.lt),
    ("maximum", "exclusiveMaximum", "less", operator.gt),
)
_BOUNDS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_NUMBER_FORMATS = {"integer": ("int32", "int64"), "number": ("float", "double")}


def violations(value: Any, schema: Schema, *, old: Any = ABSENT, place: str = "") -> list[Cause]:
    """Every rule that ``value`` breaks, other than rules in CEL.

    ``old`` is what the value was before an update: what equals it isn't wrong. ``place`` is where
    the value is in its object; the sentences tell the way from there, the causes' fields the
    whole way.
    """
    problems: list[Cause] = []
    _check(value, schema, "", old, problems)
    return [
        Cause(reason=one.reason, message=one.message, field=_at(place, one.field))
        for one in dict.fromkeys(problems)
    ]


def unchanged(old: Any, new: Any) -> bool:
    """Whether both are the same, also in their types: 1 is neither 1.0 nor true."""
    if type(old) is not type(new):
        return False
    if isinstance(new, dict):
        return old.keys() == new.keys() and all(unchanged(old[name], new[name]) for name in new)
    if isinstance(new, list):
        return len(old) == len(new) and all(map(unchanged, old, new))
    return bool(old == new)


def _at(place: str, path: str) -> str:
    path = path.removeprefix(".")
    return f"{place}.{path}" if place and path else place or path or "<nil>"


def _check(value: Any, schema: Schema, path: str, old: Any, problems: list[Cause]) -> int:
    """Add what is wrong to ``problems``; returns how many checks went well, roughly."""
    before = len(problems)
    wanted = _wanted(schema)
    good = _in_type(value, schema, wanted, path, problems)
    if value is not None:
        good += _in_alternatives(value, schema, path, old, problems)
        if isinstance(value, str):
            good += _in_text(value, schema, wanted.format, path, problems)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            good += _in_number(value, schema, wanted, path, problems)
        elif isinstance(value, list):
            good += _in_list(value, schema, path, old, problems)
    if "enum" in schema:
        _in_enum(value, schema["enum"], path, problems)
    if isinstance(value, dict):
        good += _in_map(value, schema, path, old, problems)
    if len(problems) > before and old is not ABSENT and unchanged(old, value):
        del problems[before:]
    return good if value is None else good + 2


class _Wanted(NamedTuple):
    types: tuple[str, ...]  # any of these; none: every type
    format: str  # empty unless it is one that goes with the type


def _wanted(schema: Schema) -> _Wanted:
    if schema.get(INT_OR_STRING):
        types: tuple[str, ...] = ("integer", "string")
    else:
        types = (schema["type"],) if schema.get("type") else ()
    form = str(schema.get("format") or "")
    if form:
        only = types[0] if len(types) == 1 else ""
        if only in ("", "string"):
            known = form.replace("-", "") in FORMATS
        else:
            known = form in _NUMBER_FORMATS.get(only, ())
        if not known:
            form = ""
    return _Wanted(types, form)


def _in_type(value: Any, schema: Schema, wanted: _Wanted, path: str, problems: list[Cause]) -> int:
    types, form = wanted
    if value is None:
        if types and not schema.get("nullable"):
            problems.append(_type_problem(path, ",".join(types), "null"))
            return 0
        return 1
    if not types and not form:
        return 0
    actual, inferred = _TYPES[type(value)]
    whole = isinstance(value, float) and value.is_integer() and "integer" in types
    fits = actual in types or whole or (actual == "integer" and "number" in types)
    if isinstance(value, str | list):
        if form and not {"integer", "number"} & {*types}:
            return 2
    elif form and not fits and inferred != form:
        problems.append(_type_problem(path, form, inferred))
        return 1
    if not fits:
        problems.append(_type_problem(path, ",".join(types), actual))
        return 1
    return 2


def _type_problem(path: str, wanted: str, actual: str) -> Cause:
    text = f"{path} in body must be of type {wanted}: {shown(actual)}"
    return field_type_invalid(path, actual, text)


def _in_alternatives(value: Any, schema: Schema, path: str, old: Any, problems: list[Cause]) -> int:
    good = 2
    if schema.get("anyOf"):
        good += _in_any_of(value, schema["anyOf"], path, old, problems)
    if schema.get("oneOf"):
        good += _in_one_of(value, schema["oneOf"], path, old, problems)
    if schema.get("allOf"):
        good += _in_all_of(value, schema["allOf"], path, old, problems)
    if "not" in schema:
        refused: list[Cause] = []
        _check(value, schema["not"], path, old, refused)
        if not refused:
            problems.append(_general(f"{shown(path)} must not validate the schema (not)"))
    return good


def _in_any_of(
    value: Any, options: Sequence[Schema], path: str, old: Any, problems: list[Cause]
) -> int:
    best: tuple[int, list[Cause]] | None = None
    for option in options:
        wrong: list[Cause] = []
        good = _check(value, option, path, old, wrong)
        if not wrong:
            return good
        if best is None or good > best[0]:
            best = good, wrong
    problems.append(_general(f"{shown(path)} must validate at least one schema (anyOf)"))
    if best is None:
        return 0
    problems += best[1]
    return best[0]


def _in_one_of(
    value: Any, options: Sequence[Schema], path: str, old: Any, problems: list[Cause]
) -> int:
    best: tuple[int, list[Cause]] | None = None
    fitting: list[int] = []
    for option in options:
        wrong: list[Cause] = []
        good = _check(value, option, path, old, wrong)
        if not wrong:
            fitting.append(good)
        elif not fitting and (best is None or good > best[0]):
            best = good, wrong
    if len(fitting) == 1:
        return fitting[0]
    found = f"Found {len(fitting)} valid alternatives" if fitting else "Found none valid"
    text = f"{shown(path)} must validate one and only one schema (oneOf). {found}"
    problems.append(_general(text))
    if fitting or best is None:
        return 0
    problems += best[1]
    return best[0]


def _in_all_of(
    value: Any, options: Sequence[Schema], path: str, old: Any, problems: list[Cause]
) -> int:
    good = failing = 0
    for option in options:
        before = len(problems)
        good += _check(value, option, path, old, problems)
        failing += len(problems) > before
    if failing:
        more = ". None validated" if failing == len(options) else ""
        problems.append(_general(f"{shown(path)} must validate all the schemas (allOf){more}"))
    return good


def _general(text: str) -> Cause:
    """A problem that real servers tell without a place."""
    return field_invalid("", "", text)


def _in_text(value: str, schema: Schema, form: str, path: str, problems: list[Cause]) -> int:
    problem = next(_text_problems(value, schema, path), None)
    if problem is not None:
        problems.append(problem)
    check: Format | None = FORMATS.get(form.replace("-", "")) if form else None
    if check is None:
        return 1
    if not check(value):
        text = f"{path} in body must be of type {form}: {shown(value)}"
        problems.append(field_type_invalid(path, value, text))
    return 2


def _text_problems(value: str, schema: Schema, path: str) -> Iterator[Cause]:
    size = len(value)
    if size > schema.get("maxLength", size):
        most = schema["maxLength"]
        message = f"Too long: may not be more than {most} byte{'' if most == 1 else 's'}"
        yield Cause(reason="FieldValueTooLong", message=message, field=path)
    if size < schema.get("minLength", 0):
        text = f"{path} in body should be at least {schema['minLength']} chars long"
        yield field_invalid(path, value, text)
    if schema.get("pattern") and compiled(schema["pattern"]).search(value) is None:
        yield field_invalid(path, value, f"{path} in body should match '{schema['pattern']}'")


def _in_number(
    value: float, schema: Schema, wanted: _Wanted, path: str, problems: list[Cause]
) -> int:
    types, form = wanted
    if types == ("integer",):
        low, high = _BOUNDS[form or "int64"]
        if not (low <= value <= high and float(value).is_integer()):
            kind = f"with format {form}" if form else "(default format)"
            text = f"Checked value must be of type integer {kind} in {path}"
            problems.append(_general(text))
    factor = schema.get("multipleOf")
    if factor is not None and not _is_multiple(value, factor):
        text = f"{path} in body should be a multiple of {_number(factor)}"
        problems.append(field_invalid(path, value, text))
    for keyword, exclusive, side, is_beyond in _LIMITS:
        limit = _bound(value, schema.get(keyword))
        if limit is None:
            continue
        strictly = bool(schema.get(exclusive))
        if is_beyond(value, limit) or (strictly and value == limit):
            than = "than" if strictly else "than or equal to"
            text = f"{path} in body should be {side} {than} {_number(limit)}"
            problems.append(field_invalid(path, value, text))
    return 2


def _is_multiple(value: float, factor: float) -> bool:
    if isinstance(value, int):
        return value % (int(factor) or 1) == 0
    return float(1 / factor * value if factor < 1 else value / factor).is_integer()


def _bound(value: float, bound: float | None) -> float | None:
    """A bound as it is compared: for an integer, Go forgets the fraction."""
    return int(bound) if bound is not None and isinstance(value, int) else bound


def _number(value: float) -> str:
    """A bound as Go writes it: 5 for 5.0."""
    return str(int(value)) if float(value).is_integer() else shown(value)


def _in_list(
    value: Sequence[Any], schema: Schema, path: str, old: Any, problems: list[Cause]
) -> int:
    good, size, items = 2, len(value), schema.get("items")
    if items is not None:
        for index, item in enumerate(value):
            before = _old_item(old, item, schema)
            good += _check(item, items, f"{path}[{index}]", before, problems)
    if size < schema.get("minItems", 0):
        text = f"{path} in body should have at least {schema['minItems']} items"
        problems.append(field_invalid(path, size, text))
    if size > schema.get("maxItems", size):
        problems.append(_too_many(path, size, schema["maxItems"]))
    return good


def _old_item(old: Any, item: Any, schema: Schema) -> Any:
    """What an entry was: only lists that are maps tell which one it was."""
    keys = schema.get(LIST_KEYS, ())
    if schema.get(LIST_TYPE) != "map" or not isinstance(item, dict):
        return ABSENT
    for one in old if isinstance(old, list) else ():
        if isinstance(one, dict) and all(one.get(key) == item.get(key) for key in keys):
            return one
    return ABSENT


def _in_enum(value: Any, options: Sequence[Any], path: str, problems: list[Cause]) -> None:
    if any(
        one == value and isinstance(one, bool) == isinstance(value, bool)
        for one in options
        if one is not None
    ):
        return
    values = [one if isinstance(one, str) else shown(one) for one in options]
    problems.append(field_not_supported(path, value, values))


def _in_map(
    value: Mapping[str, Any], schema: Schema, path: str, old: Any, problems: list[Cause]
) -> int:
    good, size = 1, len(value)
    if size < schema.get("minProperties", 0):
        text = f"{path} in body should have at least {schema['minProperties']} properties"
        problems.append(field_invalid(path, size, text))
    if size > schema.get("maxProperties", size):
        problems.append(_too_many(path, size, schema["maxProperties"]))
    properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
    were = old if isinstance(old, dict) else {}
    for name, item in value.items():
        if name in properties:
            below = f"{path}.{name}" if path else name
            good += _check(item, properties[name], below, were.get(name, ABSENT), problems)
        elif isinstance(additional, Mapping):
            below = f"{path}.{name}"
            good += _check(item, additional, below, were.get(name, ABSENT), problems)
        elif additional is False:
            problems.append(
                field_invalid(path, name, f"{path}.{name} in body is a forbidden property")
            )
    problems += [
        field_required(f"{path}.{name}") for name in schema.get("required", ()) if name not in value
    ]
    return good


def _too_many(path: str, size: int, most: int) -> Cause:
    message = f"Too many: {size}: must have at most {most} item{'' if most == 1 else 's'}"
    return Cause(reason="FieldValueTooMany", message=message, field=path)

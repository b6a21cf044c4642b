"""Why Go's decoder can't read a body, in its words.

Asked when a body is refused anyway, to tell where and why: nothing here is fast. The types are
those of ``fields.json``; of texts with a type of their own the usual ones are known.

Source: encoding/json ``UnmarshalTypeError``, ``SyntaxError``, and sigs.k8s.io/json.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from common.quantity import Quantity, QuantityError
from sandbox.objects import fields
from sandbox.objects.go_text import go_type

TYPE_META: Final = (
    "struct { "
    'APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
"""What Go reads first of every object, as it shows it."""

_BITS: Final = {"int32": 31, "int64": 63}
_RESOURCES: Final = "{any"
_TEXTS: Final = {
    ("Container", "imagePullPolicy"): "v1.PullPolicy",
    ("Container", "restartPolicy"): "v1.ContainerRestartPolicy",
    ("Container", "terminationMessagePolicy"): "v1.TerminationMessagePolicy",
    ("ContainerPort", "protocol"): "v1.Protocol",
    ("ContainerResizePolicy", "resourceName"): "v1.ResourceName",
    ("ContainerResizePolicy", "restartPolicy"): "v1.ResourceResizeRestartPolicy",
    ("CronJobSpec", "concurrencyPolicy"): "v1.ConcurrencyPolicy",
    ("DaemonSetUpdateStrategy", "type"): "v1.DaemonSetUpdateStrategyType",
    ("DeleteOptions", "propagationPolicy"): "v1.DeletionPropagation",
    ("DeploymentStrategy", "type"): "v1.DeploymentStrategyType",
    ("ObjectMeta", "uid"): "types.UID",
    ("OwnerReference", "uid"): "types.UID",
    ("PodSpec", "dnsPolicy"): "v1.DNSPolicy",
    ("PodSpec", "preemptionPolicy"): "v1.PreemptionPolicy",
    ("PodSpec", "restartPolicy"): "v1.RestartPolicy",
    ("PodStatus", "phase"): "v1.PodPhase",
    ("PodStatus", "qosClass"): "v1.PodQOSClass",
    ("Secret", "type"): "v1.SecretType",
    ("ServicePort", "protocol"): "v1.Protocol",
    ("ServiceSpec", "type"): "v1.ServiceType",
    ("StatefulSetSpec", "podManagementPolicy"): "v1.PodManagementPolicyType",
    ("StatefulSetUpdateStrategy", "type"): "v1.StatefulSetUpdateStrategyType",
    ("Toleration", "effect"): "v1.TaintEffect",
    ("Toleration", "operator"): "v1.TolerationOperator",
}
NUMBERS_OR_TEXTS: Final = frozenset(
    {"maxSurge", "maxUnavailable", "minAvailable", "port", "targetPort"}
)
# Fields that Go keeps in a struct of their own within this one.
_EMBEDDED: Final = {
    "Probe": ("ProbeHandler", frozenset({"exec", "grpc", "httpGet", "tcpSocket"})),
}


def type_problem(obj: Mapping[str, Any], api_version: str, kind: str) -> str:
    """The first value of a type that the kind doesn't have there; empty if all fit."""
    name = fields.type_of_kind(fields.kind_key(api_version, kind))
    return "" if name is None else _in_struct(obj, name, "")


def options_problem(options: Mapping[str, Any]) -> str:
    """The same of the options of a deletion."""
    return _in_struct(options, "DeleteOptions", "")


def syntax_problem(body: bytes) -> str:
    """Why a text is no JSON; empty if it is."""
    text = body.decode("latin-1")  # Go reads bytes, and quotes one as the character of its number
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return _syntax(text, error)
    return ""


def type_meta_problem(body: Any) -> str:
    """Why an object's kind and version can't be read from decoded JSON."""
    if not isinstance(body, dict):
        shown = f"Go value of type {TYPE_META}"
        return f"json: cannot unmarshal {go_type(body)} into {shown}"
    for name in ("apiVersion", "kind"):
        if not isinstance(body.get(name), str | None):
            kind = go_type(body[name])
            return f"json: cannot unmarshal {kind} into Go struct field .{name} of type string"
    return ""


def _in_struct(value: Mapping[str, Any], type_: str, path: str) -> str:
    types = fields.types_of(type_)
    name = type_.rpartition(".")[2]
    within, embedded = _EMBEDDED.get(name, ("", frozenset()))
    for field, item in value.items():
        held = types.get(field)
        if held is None or item is None:
            continue
        below = f"{path}{within}.{field}" if field in embedded else f"{path}{field}"
        problem = _in_value(item, held, f"{name}.{below}", _TEXTS.get((name, field), "string"))
        if problem:
            return problem
    return ""


def _in_value(item: Any, held: str, place: str, text: str) -> str:
    """The problem of a value; ``place`` is struct and path, ``text`` the type of a text."""
    if item is None:
        return ""
    if held[0] in "[{":
        parts: Any = ()
        if held[0] == "[" and isinstance(item, list):
            parts = item
        elif held[0] == "{" and isinstance(item, dict):
            parts = item.values()
        else:
            return _told(item, place, _go_type(held, text))
        if held == _RESOURCES:
            return next(filter(None, map(_quantity_problem, parts)), "")
        return next(filter(None, (_in_value(one, held[1:], place, text) for one in parts)), "")
    if fields.has_fields(held):
        if isinstance(item, dict):
            return _in_struct(item, held, f"{place.partition('.')[2]}.")
        return _told(item, place, _go_type(held, text))
    return _in_scalar(item, held, place, text)


def _quantity_problem(item: Any) -> str:
    """Quantities read themselves, and don't tell where they are."""
    try:
        Quantity.from_json(item if isinstance(item, str | int | float | None) else "?")
    except QuantityError as error:
        return error.problem
    return ""


def _in_scalar(item: Any, held: str, place: str, text: str) -> str:
    if held in _BITS:
        if isinstance(item, bool) or not isinstance(item, int | float):
            return _told(item, place, held)
        whole = isinstance(item, int) and -(2 ** _BITS[held]) <= item < 2 ** _BITS[held]
        shown = msgspec.json.encode(item).decode() if isinstance(item, float) else str(item)
        return "" if whole else _told(item, place, held, f"number {shown}")
    if held == "boolean":
        return "" if isinstance(item, bool) else _told(item, place, "bool")
    if held == "bytes":
        return "" if isinstance(item, str | list) else _told(item, place, "[]uint8")
    if held in ("string", "time"):
        return "" if isinstance(item, str) else _told(item, place, text)
    if place.rpartition(".")[2] in NUMBERS_OR_TEXTS and type(item) not in (int, str):
        return _told(item, place, "int32", f"number {item}" if isinstance(item, float) else "")
    return ""


def _go_type(held: str, text: str) -> str:
    """How Go spells a type of ``fields.json``."""
    if held == _RESOURCES:
        return "v1.ResourceList"
    if held[0] == "[":
        return f"[]{_go_type(held[1:], text)}"
    if held[0] == "{":
        return f"map[string]{_go_type(held[1:], text)}"
    if fields.has_fields(held):
        return f"v1.{held.rpartition('.')[2]}"
    return {"boolean": "bool", "bytes": "[]uint8", "string": text, "time": "v1.Time"}.get(
        held, held
    )


def _told(item: Any, place: str, type_: str, value: str = "") -> str:
    shown = value or go_type(item)
    return f"json: cannot unmarshal {shown} into Go struct field {place} of type {type_}"


_CONTEXTS: Final = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": (
        "looking for beginning of object key string"
    ),
    "Expecting ':' delimiter": "after object key",
    "Extra data": "after top-level value",
    "Invalid control character at": "in string literal",
}
_ESCAPES: Final = {
    "'": "\\'",
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}
_FIRST_BEYOND_ASCII: Final = 0x80
_LITERALS: Final = ("true", "false", "null")


def _syntax(text: str, error: json.JSONDecodeError) -> str:
    position = error.pos
    if error.msg == "Invalid \\escape":
        position, context = error.pos + 1, "in string escape code"
    elif error.msg == "Expecting ',' delimiter":
        inside = _innermost(text[:position])
        context = "after object key:value pair" if inside == "{" else "after array element"
    else:
        context = _CONTEXTS.get(error.msg, "looking for beginning of value")
    rest = text[position:]
    if not rest.strip() or error.msg.startswith("Unterminated string"):
        return "unexpected end of JSON input"
    for literal in _LITERALS:
        if error.msg == "Expecting value" and rest[0] == literal[0]:
            return _broken_literal(rest, literal)
    return f"invalid character {_quoted(rest[0])} {context}"


def _broken_literal(rest: str, literal: str) -> str:
    """Where a word ends that begins as ``true``, ``false`` or ``null``."""
    index = next(
        (i for i, letter in enumerate(literal) if rest[i : i + 1] != letter), len(literal) - 1
    )
    found = rest[index : index + 1] or " "  # Go ends every text with a space
    expected = _quoted(literal[index])
    return f"invalid character {_quoted(found)} in literal {literal} (expecting {expected})"


def _innermost(text: str) -> str:
    """The bracket that is still open at the end of a text, ``{`` or ``[``."""
    opened: list[str] = []
    quoted = escaped = False
    for letter in text:
        if quoted:
            quoted = escaped or letter != '"'
            escaped = letter == "\\" and not escaped
        elif letter == '"':
            quoted = True
        elif letter in "{[":
            opened.append(letter)
        elif letter in "}]":
            opened.pop()
    return opened[-1] if opened else ""


def _quoted(letter: str) -> str:
    """One character as Go quotes it."""
    if letter in _ESCAPES:
        return f"'{_ESCAPES[letter]}'"
    if letter.isprintable():
        return f"'{letter}'"
    code = ord(letter)
    return f"'\\x{code:02x}'" if code < _FIRST_BEYOND_ASCII else f"'\\u{code:04x}'"

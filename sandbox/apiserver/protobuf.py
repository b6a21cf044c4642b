"""The few protobuf messages that kubectl sends no matter what: reviews and token requests.

``kubectl auth`` and ``kubectl create token`` use clients that encode their bodies so. Field
numbers are those of the ``generated.proto`` files of k8s.io/api, authentication/v1 and
authorization/v1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PROTOBUF = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"
_VARINT, _BYTES = 0, 2
_MORE = 0x80


class MalformedError(ValueError):
    """The bytes are no message of the expected kind."""


@dataclass(frozen=True, slots=True)
class _Field:
    """Where a field goes in JSON, and how it is read; ``message`` None is text."""

    name: str
    message: "_Message | None" = None
    number: bool = False
    repeated: bool = False


_Message = Mapping[int, _Field]

_METADATA: _Message = {1: _Field("name"), 2: _Field("generateName"), 3: _Field("namespace")}
_RESOURCE: _Message = {
    1: _Field("namespace"),
    2: _Field("verb"),
    3: _Field("group"),
    4: _Field("version"),
    5: _Field("resource"),
    6: _Field("subresource"),
    7: _Field("name"),
}
_ACCESS: _Message = {
    1: _Field("resourceAttributes", _RESOURCE),
    2: _Field("nonResourceAttributes", {1: _Field("path"), 2: _Field("verb")}),
}
_SUBJECT: _Message = {
    **_ACCESS,
    3: _Field("user"),
    4: _Field("groups", repeated=True),
    6: _Field("uid"),
}
_REFERENCE: _Message = {
    1: _Field("kind"),
    2: _Field("apiVersion"),
    3: _Field("name"),
    4: _Field("uid"),
}
_TOKEN: _Message = {
    1: _Field("audiences", repeated=True),
    3: _Field("boundObjectRef", _REFERENCE),
    4: _Field("expirationSeconds", number=True),
}
_SPECS: Mapping[str, _Message] = {
    "LocalSubjectAccessReview": _SUBJECT,
    "SelfSubjectAccessReview": _ACCESS,
    "SelfSubjectReview": {},
    "SelfSubjectRulesReview": {1: _Field("namespace")},
    "SubjectAccessReview": _SUBJECT,
    "TokenRequest": _TOKEN,
    "TokenReview": {1: _Field("token"), 2: _Field("audiences", repeated=True)},
}
_UNKNOWN: _Message = {1: _Field("type", {1: _Field("apiVersion"), 2: _Field("kind")})}


def decode(body: bytes, kind: str) -> dict[str, Any]:
    """Read a body of one of the known kinds as the object that JSON would have been.

    Raises:
        MalformedError: it isn't one.
    """
    if not body.startswith(_MAGIC) or kind not in _SPECS:
        raise MalformedError("not a message of Kubernetes")
    envelope = _read(body[len(_MAGIC) :], {**_UNKNOWN, 2: _Field("raw", {})}, keeps_raw=True)
    said = envelope.get("type", {})
    if said.get("kind", kind) != kind:
        raise MalformedError(f"unexpected kind {said.get('kind')!r}")
    message: _Message = {1: _Field("metadata", _METADATA), 2: _Field("spec", _SPECS[kind])}
    return {**said, **_read(envelope.get("raw", b""), message)}


def _read(data: bytes, message: _Message, *, keeps_raw: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {}
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        value: int | bytes
        if tag & 7 == _VARINT:
            value, position = _varint(data, position)
        elif tag & 7 == _BYTES:
            size, position = _varint(data, position)
            value, position = data[position : position + size], position + size
            if position > len(data):
                raise MalformedError("message ends within a field")
        else:
            raise MalformedError("unexpected type on the wire")
        field = message.get(tag >> 3)
        if field is None or field.number != isinstance(value, int):
            continue
        if isinstance(value, int):
            found[field.name] = value
        elif field.message is not None:
            raw = keeps_raw and field.name == "raw"
            found[field.name] = value if raw else _read(value, field.message)
        elif field.repeated:
            found.setdefault(field.name, []).append(_text(value))
        elif value:
            found[field.name] = _text(value)
    return found


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise MalformedError("text is no UTF-8") from error


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data):
        byte = data[position]
        position += 1
        value |= (byte & (_MORE - 1)) << shift
        shift += 7
        if not byte & _MORE:
            return value, position
    raise MalformedError("message ends within a number")

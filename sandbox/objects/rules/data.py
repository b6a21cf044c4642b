"""The rules that ConfigMaps and Secrets keep.

Source: ``ValidateConfigMap`` and ``ValidateSecret``, k8s.io/kubernetes
pkg/apis/core/validation/validation.go.
"""

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from common.errors import Cause
from sandbox.errors import (
    field_forbidden,
    field_immutable,
    field_invalid,
    field_required,
    field_too_long,
)
from sandbox.objects.go_decoding import syntax_problem

Json = Mapping[str, Any]

_KEY: Final = re.compile("[-._a-zA-Z0-9]+")
_LONGEST_KEY: Final = 253
_KEY_RULE: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
    "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
    f"'{_KEY.pattern}')"
)
_MOST: Final = 1024 * 1024  # bytes of all values
_FIXED: Final = "field is immutable when `immutable` is set"
_ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
# What a Secret of a type holds: one of the alternatives.
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_DOCUMENTS: Final = (".dockercfg", ".dockerconfigjson")  # keys whose values are JSON


def config_map_causes(config_map: Json) -> Iterator[Cause]:
    """Keys that can be names of files, none of them twice, and not too much behind them."""
    data, binary = config_map.get("data") or {}, config_map.get("binaryData") or {}
    for key in data:
        yield from data_key_causes(key, f"data[{key}]")
        if key in binary:
            yield field_invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    for key in binary:
        yield from data_key_causes(key, f"binaryData[{key}]")
    if sum(len(text.encode()) for text in data.values()) + _decoded_size(binary.values()) > _MOST:
        yield field_too_long("[]", _MOST)  # which is what Go makes of the whole object


def changed_config_map_causes(old: Json, new: Json) -> Iterator[Cause]:
    """One that is immutable keeps its data."""
    yield from _fixed_causes(old, new, ("data", "binaryData"))
    yield from config_map_causes(new)


def secret_causes(secret: Json) -> Iterator[Cause]:
    """Keys that can be names of files, and those that the type needs."""
    data = secret.get("data") or {}
    for key in data:
        yield from data_key_causes(key, f"data[{key}]")
    if _decoded_size(data.values()) > _MOST:
        yield field_too_long("data", _MOST)
    yield from _type_causes(secret, data)


def changed_secret_causes(old: Json, new: Json) -> Iterator[Cause]:
    """A Secret keeps its type, one that is immutable its data, too."""
    if old.get("type") != new.get("type"):
        yield field_immutable("type", new.get("type"))
    yield from _fixed_causes(old, new, ("data",))
    yield from secret_causes(new)


def _type_causes(secret: Json, data: Mapping[str, str]) -> Iterator[Cause]:
    kind = secret.get("type")
    for key in _NEEDED.get(kind or "", ()):
        if key not in data:
            yield field_required(f"data[{key}]")
        elif key in _DOCUMENTS:
            yield from _document_causes(key, data[key])
    if kind == "kubernetes.io/service-account-token":
        annotations = secret["metadata"].get("annotations") or {}
        if not annotations.get(_ACCOUNT_NAME):
            yield field_required(f"metadata.annotations[{_ACCOUNT_NAME}]")
    elif kind == "kubernetes.io/basic-auth":
        if data.keys().isdisjoint(("username", "password")):
            yield field_required("data[username]")
            yield field_required("data[password]")
    elif kind == "kubernetes.io/ssh-auth" and not data.get("ssh-privatekey"):
        yield field_required("data[ssh-privatekey]")


def _document_causes(key: str, encoded: str) -> Iterator[Cause]:
    body = b64decode(encoded)
    try:
        msgspec.json.decode(body, type=dict[str, Any] | None)
    except (msgspec.DecodeError, ValueError) as error:
        text = syntax_problem(body) or str(error)
        yield field_invalid(f"data[{key}]", "<secret contents redacted>", text)


def data_key_causes(key: str, path: str) -> Iterator[Cause]:
    """A key of a ConfigMap or of a Secret that can't be one."""
    if len(key) > _LONGEST_KEY:
        yield field_invalid(path, key, f"must be no more than {_LONGEST_KEY} characters")
    if _KEY.fullmatch(key) is None:
        yield field_invalid(path, key, _KEY_RULE)
    if key in (".", ".."):
        yield field_invalid(path, key, f"must not be '{key}'")
    elif key.startswith(".."):
        yield field_invalid(path, key, "must not start with '..'")


def _fixed_causes(old: Json, new: Json, fields: Iterable[str]) -> Iterator[Cause]:
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield field_forbidden("immutable", _FIXED)
    for field in fields:
        if (old.get(field) or {}) != (new.get(field) or {}):
            yield field_forbidden(field, _FIXED)


def _decoded_size(texts: Iterable[str]) -> int:
    """How many bytes texts in base64 stand for."""
    return sum(len(text) // 4 * 3 - text.count("=", -2) for text in texts)

"""Which fields the built-in kinds have; others are never stored.

``fields.json`` is recorded from a real API server (1.36). It names the type of each field:
``string``, ``int32``, ``any``, the name of a type with fields, ``[X`` for a list and ``{X`` for a
map of X. It is read when the first object is checked, and each type becomes a :class:`Fields` when
the first object brings it.

Source: sigs.k8s.io/json, which k8s.io/apimachinery decodes with: names are case-sensitive, and
an unknown field counts even when it is null.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from sandbox.objects.resources import Resource

DATA = Path(__file__).with_name("fields.json")

_SINCE = {  # minors, of what isn't served by all versions that this server can be
    ("Container", "restartPolicyRules"): 34,
    ("EnvVarSource", "fileKeyRef"): 34,
    ("PodSpec", "hostnameOverride"): 34,
    ("PodSpec", "schedulingGroup"): 36,
    ("PodStatus", "allocatedResources"): 35,
    ("PodStatus", "resources"): 35,
    ("VolumeProjection", "podCertificate"): 34,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """The fields of one type; ``below`` has those whose values have fields themselves."""

    names: frozenset[str]
    below: Mapping[str, "Below"]


@dataclass(slots=True)
class Below:
    """What a field holds: ``form`` is empty, ``[`` for a list or ``{`` for a map of ``type``."""

    form: str
    type: str
    minor: int
    _fields: Fields | None = field(default=None, init=False)

    @property
    def fields(self) -> Fields:
        if self._fields is None:
            self._fields = _fields(self.type, self.minor)
        return self._fields


def kind_key(api_version: str, kind: str) -> str:
    """How ``fields.json`` names a kind: ``apps/v1/Deployment``."""
    return f"{api_version}/{kind}"


def drop_unknown(
    resource: Resource, obj: dict[str, Any], old: Mapping[str, Any] | None, *, minor: int
) -> None:
    """Remove, in place, what the kind doesn't have.

    ``old`` is the stored object, if any: what equals it is skipped. A kind that isn't recorded,
    and a value of another type than declared, are left as they are.
    """
    fields = of_kind(kind_key(resource.api_version, resource.kind), minor)
    if fields is None:
        return
    news = obj if old is None else {k: v for k, v in obj.items() if k not in old or old[k] != v}
    if not _known(news, fields):
        _drop(obj, fields)


def drop_unknown_metadata(obj: dict[str, Any], *, minor: int) -> None:
    """Remove, in place, unknown metadata of an object of any kind."""
    fields = _fields("ObjectMeta", minor)
    meta = obj.get("metadata")
    if not _known(meta, fields):
        _drop(meta, fields)


@cache
def of_kind(key: str, minor: int) -> Fields | None:
    """The fields of a kind in a version of Kubernetes; None for one that isn't recorded."""
    name = _data()["kinds"].get(key)
    return None if name is None else _fields(name, minor)


def type_of_kind(key: str) -> str | None:
    """The name of the type of a kind, by its key; None for one that isn't recorded."""
    name: str | None = _data()["kinds"].get(key)
    return name


def types_of(name: str) -> Mapping[str, str]:
    """The types of the fields of a type, as they are recorded."""
    types: Mapping[str, str] = _data()["types"][name]
    return types


def has_fields(name: str) -> bool:
    """Whether it is the name of a type with fields."""
    return name in _data()["types"]


@cache
def _fields(name: str, minor: int) -> Fields:
    types = _data()["types"]
    own = {key: held for key, held in types[name].items() if _SINCE.get((name, key), 0) <= minor}
    below = {}
    for key, held in own.items():
        target = held.lstrip("[{")
        if target in types:
            below[key] = Below(held.removesuffix(target), target, minor)
    return Fields(names=frozenset(own), below=below)


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = msgspec.json.decode(DATA.read_bytes())
    return data


def _known(value: Any, fields: Fields) -> bool:
    """Whether nothing in ``value`` is unknown; fast, as it nearly always is so."""
    if not isinstance(value, dict):
        return True
    if not value.keys() <= fields.names:
        return False
    for name in value.keys() & fields.below.keys():
        below, item = fields.below[name], value[name]
        if not all(_known(one, below.fields) for one in items_of(item, below.form)):
            return False
    return True


def items_of(value: Any, form: str) -> Iterable[Any]:
    """The values of the named type within one of a ``form``: a list, a map, or itself."""
    if form == "[":
        return value if isinstance(value, list) else ()
    if form == "{":
        return value.values() if isinstance(value, dict) else ()
    return (value,)


def _drop(value: Any, fields: Fields) -> None:
    if not isinstance(value, dict):
        return
    for name in value.keys() - fields.names:
        del value[name]
    for name in value.keys() & fields.below.keys():
        below = fields.below[name]
        for one in items_of(value[name], below.form):
            _drop(one, below.fields)

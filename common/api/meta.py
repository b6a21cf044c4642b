"""The parts of ``meta/v1`` that we read."""

import sys
from collections.abc import Mapping
from typing import Annotated, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from common.api.base import Time, Wire

_Many = msgspec.Meta(max_length=1000)
"""More entries than any legitimate object has (X126)."""
_Texts: TypeAlias = Annotated[Mapping[str, str], _Many]


class Owner(Wire, frozen=True, kw_only=True, gc=False):
    """The fields of a ``metadata.ownerReferences`` entry that identify a controller.

    There are as many entries as objects. Their few distinct versions and kinds are shared.
    """

    api_version: str = ""
    kind: str = ""
    name: str = ""
    controller: bool | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "api_version", sys.intern(self.api_version))
        force_setattr(self, "kind", sys.intern(self.kind))


class OwnerReference(Owner, frozen=True, kw_only=True, gc=False):
    """An entry of ``metadata.ownerReferences``."""

    uid: str = ""


class ObjectMeta(Wire, frozen=True, kw_only=True):
    """``metadata`` of every object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: _Texts | None = None
    annotations: _Texts | None = None
    owner_references: Annotated[tuple[OwnerReference, ...], _Many] | None = None


class OwnedMeta(Wire, frozen=True, kw_only=True, gc=False):
    """``metadata`` of an object of which only name and owners are kept.

    A cluster has tens of thousands of them in far fewer namespaces, whose names are shared.
    """

    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    generation: int = 0
    deletion_timestamp: Time | None = None
    owner_references: Annotated[tuple[Owner, ...], _Many] | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "namespace", sys.intern(self.namespace))


class LabelSelectorRequirement(Wire, frozen=True, kw_only=True):
    """One ``matchExpressions`` entry."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class LabelSelector(Wire, frozen=True, kw_only=True):
    """A structured selector; absent (None) matches nothing, empty matches everything."""

    match_labels: Mapping[str, str] | None = None
    match_expressions: tuple[LabelSelectorRequirement, ...] | None = None


class OwnedObject(Wire, frozen=True, kw_only=True, gc=False):
    """Any object, decoded without anything but its name and owners."""

    metadata: OwnedMeta


class _Named(Wire, frozen=True, kw_only=True, gc=False):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class NamedObject(Wire, frozen=True, kw_only=True, gc=False):
    """Any object, decoded without anything but its name and version."""

    metadata: _Named

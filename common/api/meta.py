"""The parts of ``meta/v1`` that we read."""

from collections.abc import Mapping

from common.api.base import Time, Wire


class OwnerReference(Wire, frozen=True, kw_only=True):
    """An entry of ``metadata.ownerReferences``."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Wire, frozen=True, kw_only=True):
    """``metadata`` of every object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None


class LabelSelectorRequirement(Wire, frozen=True, kw_only=True):
    """One ``matchExpressions`` entry."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class LabelSelector(Wire, frozen=True, kw_only=True):
    """A structured selector; absent (None) matches nothing, empty matches everything."""

    match_labels: Mapping[str, str] | None = None
    match_expressions: tuple[LabelSelectorRequirement, ...] | None = None


class PartialObject(Wire, frozen=True, kw_only=True):
    """Any object, of which only the metadata matters."""

    metadata: ObjectMeta

"""How objects are written into answers: whole, as bare metadata, or as a table."""

import enum
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from common.runtime.clock import Clock
from sandbox.apiserver.tables import Column, columns_of, definitions, row_of
from sandbox.errors import bad_request, not_acceptable
from sandbox.objects.event_versions import to_new
from sandbox.objects.registry import Registry
from sandbox.objects.resources import Resource
from sandbox.objects.store import Stored

_encode = msgspec.json.encode


class Form(enum.Enum):
    """What an ``Accept`` header asks for."""

    WHOLE = enum.auto()
    METADATA = enum.auto()
    METADATA_LIST = enum.auto()
    TABLE = enum.auto()  # each row with the metadata of its object
    TABLE_OF_OBJECTS = enum.auto()
    TABLE_ALONE = enum.auto()

    @property
    def is_table(self) -> bool:
        return self in _TABLES.values()


_TABLES = {
    "": Form.TABLE,
    "Metadata": Form.TABLE,
    "Object": Form.TABLE_OF_OBJECTS,
    "None": Form.TABLE_ALONE,
}


def table_form(included: str) -> Form:
    """The table whose rows have this beside their cells.

    Raises:
        ApiError: 400, rows can't include that.
    """
    if included not in _TABLES:
        raise bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{included}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    return _TABLES[included]


def prefix(resource: Resource) -> bytes:
    """What stands before a stored body in an answer."""
    return f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'.encode()


class Presenter:
    """Writes stored objects in one of the forms."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock

    def one(self, resource: Resource, stored: Stored, form: Form = Form.WHOLE) -> bytes:
        """One object; as a table it is a table of one row.

        Raises:
            ApiError: 406, it is no list.
        """
        if form is Form.WHOLE:
            return _whole(resource, stored)
        if form is Form.METADATA:
            return _encode(_metadata(stored))
        if form is Form.METADATA_LIST:
            raise not_acceptable(
                "you requested PartialObjectMetadataList, but the requested object is not a list "
                f"(*{_go_type(resource)})"
            )
        return self._table(resource, [stored], {"resourceVersion": str(stored.version)}, form)

    def many(
        self,
        resource: Resource,
        items: Iterable[Stored],
        list_meta: Mapping[str, Any],
        form: Form = Form.WHOLE,
    ) -> bytes:
        """A list; the items' bytes are joined, not encoded again.

        Raises:
            ApiError: 406, it is no single object.
        """
        if form.is_table:
            return self._table(resource, items, list_meta, form)
        if form is Form.METADATA:
            raise not_acceptable(
                "you requested PartialObjectMetadata, but the requested object is a list "
                f"(*{_go_type(resource)}List)"
            )
        if form is Form.METADATA_LIST:
            listed = [_metadata(item) for item in items]
            kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
            return _encode(
                {"kind": kind, "apiVersion": version, "metadata": list_meta, "items": listed}
            )
        head = f'{{"kind":"{resource.list_kind}","apiVersion":"{resource.api_version}","metadata":'
        if resource.custom:
            bodies = b",".join(_whole(resource, item) for item in items)
        else:
            renamed = resource.stored_as
            joined = b",{".join(_renamed(item) if renamed else item.body for item in items)
            bodies = b"{" + joined if joined else b""
        return b"".join((head.encode(), _encode(list_meta), b',"items":[', bodies, b"]}"))

    def _table(
        self, resource: Resource, items: Iterable[Stored], list_meta: Mapping[str, Any], form: Form
    ) -> bytes:
        columns = columns_of(resource, self._registry.custom(resource))
        now = self._clock.now()
        return _encode(
            {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": list_meta,
                "columnDefinitions": definitions(columns),
                "rows": [_row(resource, item, columns, now, form) for item in items],
            }
        )


def _row(
    resource: Resource, stored: Stored, columns: Sequence[Column], now: datetime, form: Form
) -> dict[str, Any]:
    included: dict[str, Any] | msgspec.Raw | None = None
    if form is Form.TABLE:
        included = _metadata(stored)
    elif form is Form.TABLE_OF_OBJECTS:
        included = msgspec.Raw(_whole(resource, stored))
    return {"cells": row_of(stored.object(resource), columns, now), "object": included}


def _metadata(stored: Stored) -> dict[str, Any]:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": msgspec.json.decode(b"{" + stored.body, type=_OnlyMetadata).metadata,
    }


def _renamed(stored: Stored) -> bytes:
    """The body of an Event as ``events.k8s.io`` has it."""
    return _encode(to_new(msgspec.json.decode(b"{" + stored.body)))[1:]


def _go_type(resource: Resource) -> str:
    """What Go calls the type of a single object."""
    if resource.custom:
        return "unstructured.Unstructured"
    package = resource.group.partition(".")[0] if resource.stored_as == "" else ""
    return f"{package or 'core'}.{resource.kind}"


class _OnlyMetadata(msgspec.Struct):
    metadata: dict[str, Any]


def _whole(resource: Resource, stored: Stored) -> bytes:
    if resource.stored_as:
        return prefix(resource) + _renamed(stored)
    return prefix(resource) + stored.body

"""How objects are written into answers: whole, as bare metadata, or as a table."""

import enum
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from common.runtime.clock import Clock
from sandbox.apiserver.tables import Column, columns_of, definitions, row_of
from sandbox.objects.registry import Registry
from sandbox.objects.resources import Resource
from sandbox.objects.store import Stored

_encode = msgspec.json.encode


class Form(enum.Enum):
    """What an ``Accept`` header asks for."""

    WHOLE = enum.auto()
    METADATA = enum.auto()
    TABLE = enum.auto()  # each row with the metadata of its object


def prefix(resource: Resource) -> bytes:
    """What stands before a stored body in an answer."""
    return f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'.encode()


class Presenter:
    """Writes stored objects in one of the forms."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock

    def one(self, resource: Resource, stored: Stored, form: Form = Form.WHOLE) -> bytes:
        """Write one object; as a table it is a table of one row."""
        if form is Form.WHOLE:
            return _whole(resource, stored)
        if form is Form.METADATA:
            return _encode(_metadata(stored))
        return self._table(resource, [stored], {"resourceVersion": str(stored.version)})

    def many(
        self,
        resource: Resource,
        items: Iterable[Stored],
        list_meta: Mapping[str, Any],
        form: Form = Form.WHOLE,
    ) -> bytes:
        """Write a list; the items' bytes are joined, not encoded again."""
        if form is Form.TABLE:
            return self._table(resource, items, list_meta)
        if form is Form.METADATA:
            listed = [_metadata(item) for item in items]
            kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
            return _encode(
                {"kind": kind, "apiVersion": version, "metadata": list_meta, "items": listed}
            )
        head = f'{{"kind":"{resource.list_kind}","apiVersion":"{resource.api_version}","metadata":'
        if resource.custom:
            bodies = b",".join(_whole(resource, item) for item in items)
        else:
            joined = b",{".join(item.body for item in items)
            bodies = b"{" + joined if joined else b""
        return b"".join((head.encode(), _encode(list_meta), b',"items":[', bodies, b"]}"))

    def _table(
        self, resource: Resource, items: Iterable[Stored], list_meta: Mapping[str, Any]
    ) -> bytes:
        columns = columns_of(resource, self._registry.custom(resource))
        now = self._clock.now()
        return _encode(
            {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": list_meta,
                "columnDefinitions": definitions(columns),
                "rows": [_row(resource, item, columns, now) for item in items],
            }
        )


def _row(
    resource: Resource, stored: Stored, columns: Sequence[Column], now: datetime
) -> dict[str, Any]:
    cells = row_of(stored.object(resource), columns, now)
    return {"cells": cells, "object": _metadata(stored)}


def _metadata(stored: Stored) -> dict[str, Any]:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": msgspec.json.decode(b"{" + stored.body, type=_OnlyMetadata).metadata,
    }


class _OnlyMetadata(msgspec.Struct):
    metadata: dict[str, Any]


def _whole(resource: Resource, stored: Stored) -> bytes:
    return prefix(resource) + stored.body

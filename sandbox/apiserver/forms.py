"""Forms of objects in answers: whole objects, their metadata alone, or a table."""

import enum
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from common.runtime.clock import Clock
from sandbox.apiserver.answers import JSON
from sandbox.apiserver.tables import Column, columns_of, definitions, row_of
from sandbox.errors import not_acceptable
from sandbox.objects.registry import Registry
from sandbox.objects.resources import Resource
from sandbox.objects.store import Stored

_encode = msgspec.json.encode


class Form(enum.Enum):
    """The form that an ``Accept`` header requests."""

    WHOLE = enum.auto()
    METADATA = enum.auto()
    TABLE = enum.auto()  # each row with the metadata of its object


_ANY = (JSON, "application/*", "*/*")
_GROUP = ("meta.k8s.io", "v1")
_AS: Mapping[str, Form] = {
    "Table": Form.TABLE,
    "PartialObjectMetadata": Form.METADATA,
    "PartialObjectMetadataList": Form.METADATA,
}


def negotiate(accept: str) -> Form:
    """Return the first supported form of the header. The default is the whole object.

    Raises:
        ApiError: 406, no form is supported.
    """
    for offer in accept.split(",") if accept else ():
        media, *raw = (part.strip() for part in offer.split(";"))
        if media not in _ANY:
            continue
        parameters = dict(item.partition("=")[::2] for item in raw)
        if "as" not in parameters:
            return Form.WHOLE
        form = _AS.get(parameters["as"])
        if form is not None and (parameters.get("g"), parameters.get("v")) == _GROUP:
            return form
    if accept:
        raise not_acceptable(f"only the following media types are accepted: {JSON}")
    return Form.WHOLE


def prefix(resource: Resource) -> bytes:
    """Return the bytes that precede a stored body in a response."""
    return f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'.encode()


class Presenter:
    """Encodes stored objects in one of the forms."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock

    def one(self, resource: Resource, stored: Stored, form: Form = Form.WHOLE) -> bytes:
        """Encode one object. As a table it has one row."""
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
        """Encode a list by joining the stored bytes."""
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

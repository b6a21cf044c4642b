"""The watch protocol without I/O: bytes in, events out."""

import enum
import functools
import logging
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import msgspec

from common.api.base import Wire
from common.api.decoding import decode
from common.api.meta import NamedObject
from common.errors import DecodeError
from common.kube.status_errors import Status, status_error

logger = logging.getLogger(__name__)

T = TypeVar("T")

LINE_LIMIT = 32 * 1024 * 1024  # bytes; etcd refuses objects far below
"""A longer line is no event."""


class EventType(enum.StrEnum):
    """The type of an event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"  # no events up to this version


_KNOWN = frozenset(EventType)
_ERROR = "ERROR"


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """One event; ``object`` is None for bookmarks and undecodable objects."""

    type: EventType
    namespace: str
    name: str
    resource_version: str
    object: T | None


class _Line(Wire, frozen=True, kw_only=True):
    type: str
    object: msgspec.Raw = msgspec.Raw(b"{}")


_line_decoder = msgspec.json.Decoder(_Line)
_status_decoder = msgspec.json.Decoder(Status)
_named_decoder = msgspec.json.Decoder(NamedObject)


@functools.cache
def _decoder(type: Hashable) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type)


def decoder_of(type: type[T]) -> msgspec.json.Decoder[T]:
    """Return the decoder of a wire type; making one is expensive."""
    return _decoder(cast("Hashable", type))


def identity(item: Any) -> tuple[str, str, str]:
    """Return namespace, name and resource version of an object of any type."""
    if isinstance(item, dict):
        meta = item["metadata"]
        return meta.get("namespace", ""), meta["name"], meta.get("resourceVersion", "")
    meta = item.metadata
    return meta.namespace, meta.name, meta.resource_version


class WatchProtocol(Generic[T]):
    """A parser of the body of one watch.

    ``resource_version`` is the last one received, from which the next watch continues. Events have
    no object if it can't be decoded. An incomplete last line is dropped; the next watch returns it
    again.
    """

    def __init__(self, type: type[T], *, resource_version: str) -> None:
        self.resource_version = resource_version
        self._decoder = decoder_of(type)
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[WatchEvent[T]]:
        """Yield the events whose lines end in this chunk; unknown types are omitted.

        Raises:
            GoneError: the version is too old: list again.
            KubeError: the server ended the watch with another error.
            DecodeError: a line is no event at all.
        """
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            if self._parts:
                whole = b"".join((*self._parts, line))
                self._parts.clear()
                self._size = 0
            else:
                whole = line
            if whole.strip():
                event = self._event(whole)
                if event is not None:
                    yield event
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
            if self._size > LINE_LIMIT:
                raise DecodeError(f"watch line of more than {LINE_LIMIT} bytes")

    def _event(self, line: bytes) -> WatchEvent[T] | None:
        try:
            raw = decode(_line_decoder, line)
        except msgspec.DecodeError as error:
            raise DecodeError(f"watch line is not an event: {error}") from error
        if raw.type == _ERROR:
            raise status_error(_decoded_status(raw.object), code=500)
        if raw.type not in _KNOWN:
            logger.debug("unknown watch event", extra={"type": raw.type})
            return None
        event = self._known(EventType(raw.type), raw.object)
        if event is not None and event.resource_version:
            self.resource_version = event.resource_version
        return event

    def _known(self, type: EventType, raw: msgspec.Raw) -> WatchEvent[T] | None:
        if type is not EventType.BOOKMARK:
            try:
                item = decode(self._decoder, raw)
                return WatchEvent(type, *identity(item), item)
            except (msgspec.DecodeError, KeyError) as error:
                reason = str(error)
        try:
            meta = decode(_named_decoder, raw).metadata
        except msgspec.DecodeError:
            return None
        if type is not EventType.BOOKMARK:
            logger.warning(
                "object skipped, it can't be decoded",
                extra={"namespace": meta.namespace, "object": meta.name, "error": reason},
            )
        return WatchEvent(type, meta.namespace, meta.name, meta.resource_version, None)


def _decoded_status(raw: msgspec.Raw) -> Status:
    try:
        return decode(_status_decoder, raw)
    except msgspec.DecodeError:
        return Status(message="watch ended with an error of an unknown shape")

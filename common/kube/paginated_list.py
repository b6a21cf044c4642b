"""Paged lists: objects are decoded one by one while the next page is fetched."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from common.api.base import Wire
from common.api.decoding import decode
from common.api.meta import NamedObject
from common.errors import DecodeError, KubeError
from common.kube.endpoints import Endpoint
from common.kube.watch import decoder_of, identity

logger = logging.getLogger(__name__)

T = TypeVar("T")
Fetch = Callable[[str], Awaitable[bytes]]
"""Returns the page of a continue token; the empty token is the first page."""

_SLICE = 50  # objects decoded before other tasks run


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[T]):
    """All objects at one version; ``undecodable`` are the names of undecodable objects."""

    items: tuple[T, ...]
    resource_version: str
    undecodable: Sequence[str] = ()


class _ListMeta(Wire, frozen=True, kw_only=True):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(Wire, frozen=True, kw_only=True):
    metadata: _ListMeta = _ListMeta()
    items: tuple[msgspec.Raw, ...] | None = None


_page_decoder = msgspec.json.Decoder(_Page)
_named_decoder = msgspec.json.Decoder(NamedObject)


async def read_pages(
    endpoint: Endpoint[T], path: str, fetch: Fetch, *, known: Collection[str]
) -> Listing[T]:
    """Read a whole list; fetch each page while the one before it is decoded.

    An object that can't be decoded is omitted, and logged unless its name is in ``known``.

    Raises:
        KubeError: the server refused a page.
        DecodeError: a page is no list; the error names ``path``.
    """
    items: list[T] = []
    read = await fold_pages(endpoint, path, fetch, items.extend, known=known)
    return Listing(
        items=tuple(items), resource_version=read.resource_version, undecodable=read.undecodable
    )


async def fold_pages(
    endpoint: Endpoint[T],
    path: str,
    fetch: Fetch,
    take: Callable[[Sequence[T]], None],
    *,
    known: Collection[str] = (),
) -> Listing[T]:
    """Read a list like :func:`read_pages`, but pass its objects to ``take``, some at a time.

    They aren't kept: the returned listing has no items.
    """
    undecodable: list[str] = []
    body: bytes | KubeError = await _fetched(fetch, "")
    while True:
        if isinstance(body, KubeError):
            raise body
        try:
            page = decode(_page_decoder, body)
        except msgspec.DecodeError as error:
            raise DecodeError(f"{path} is no list: {error}") from error
        token = page.metadata.continue_
        undecoded = Undecoded(
            endpoint=endpoint, items=page.items or (), undecodable=undecodable, known=known
        )
        async with asyncio.TaskGroup() as group:
            following = group.create_task(_fetched(fetch, token)) if token else None
            await asyncio.sleep(0)  # the request of the next page starts
            for found in undecoded.slices(_SLICE):
                take(found)
                await asyncio.sleep(0)
        if following is None:
            return Listing(
                items=(),
                resource_version=page.metadata.resource_version,
                undecodable=tuple(undecodable),
            )
        body = following.result()


async def read_undecoded(path: str, fetch: Fetch) -> tuple[msgspec.Raw, ...]:
    """Read a whole list like :func:`read_pages`, without decoding the objects."""
    items: list[msgspec.Raw] = []
    token = ""
    while True:
        try:
            page = decode(_page_decoder, await fetch(token))
        except msgspec.DecodeError as error:
            raise DecodeError(f"{path} is no list: {error}") from error
        items += page.items or ()
        token = page.metadata.continue_
        if not token:
            return tuple(items)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecoded(Generic[T]):
    """The objects of a list, decoded lazily, which takes far less memory.

    Objects that can't be decoded are omitted, logged, and their names are added to ``undecodable``.
    Names in ``known`` are not logged again.
    """

    endpoint: Endpoint[T]
    items: Sequence[msgspec.Raw]
    undecodable: list[str]
    known: Collection[str] = ()

    def slices(self, size: int) -> Iterator[Sequence[T]]:
        """Yield the objects in lists of up to ``size``."""
        decoder = decoder_of(self.endpoint.type)
        for start in range(0, len(self.items), size):
            found: list[T] = []
            for raw in self.items[start : start + size]:
                try:
                    item = decode(decoder, raw)
                    identity(item)
                except (msgspec.DecodeError, KeyError) as error:
                    self._omit(raw, error)
                else:
                    found.append(item)
            yield found

    def _omit(self, raw: msgspec.Raw, error: Exception) -> None:
        name = _name_of(raw)
        self.undecodable.append(name)
        if name not in self.known:
            logger.warning(
                "object skipped, it can't be decoded",
                extra={"kind": self.endpoint.kind, "object": name, "error": str(error)},
            )


async def _fetched(fetch: Fetch, token: str) -> bytes | KubeError:
    """Return a page or its error, because a task group would wrap a raised error."""
    try:
        return await fetch(token)
    except KubeError as error:
        return error


def _name_of(raw: msgspec.Raw) -> str:
    try:
        meta = decode(_named_decoder, raw).metadata
    except msgspec.DecodeError:
        return "unknown"
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name

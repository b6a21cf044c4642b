"""Lists, page by page or as a stream, single objects, and watches."""

import asyncio
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from sandbox.errors import bad_request, expired
from sandbox.load.changes import Changes, TooOldError
from sandbox.load.population import Render
from sandbox.load.requests import Asked, Receive, Send

_AT_ONCE = 500  # objects that are rendered without interruption
_EVENTS_AT_ONCE = 100
_LEAST_COMPRESSED = 128 * 1024  # bytes, the limit of a real API server
_BOOKMARK_SECONDS = 60.0
_WATCH_SECONDS = 1800  # default
_EVERYTHING = frozenset(
    {
        "",
        "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed",
        "status.phase!=Succeeded,status.phase!=Failed",
        "status.phase!=Pending",
        "reason=Evicted",  # there are no Events
    }
)
"""Field selectors that match all objects of the load mode."""


class _Whole(msgspec.Struct):
    metadata: msgspec.Raw


_whole_decoder = msgspec.json.Decoder(_Whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """All objects of one kind."""

    group: str
    version: str
    resource: str
    kind: str
    count: int
    render: Render  # by number
    changes: Changes[Any]
    show: Callable[[Any], bytes]  # the bytes of a state in ``changes``
    within: Callable[[str], range] = lambda _: range(0)  # numbers of the objects of a namespace
    find: Callable[[str, str], int | None] | None = None  # by namespace and name
    pages: bool = True  # False: limits are ignored
    is_there: Callable[[int], bool] = lambda _: True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def numbers(self, namespace: str) -> range:
        return self.within(namespace) if namespace else range(self.count)


class Reads:
    """Answers reads at the version that ``version`` returns."""

    def __init__(self, version: Callable[[], int]) -> None:
        self._version = version

    async def get(self, collection: Collection, asked: Asked) -> bytes:
        """Return one object.

        Raises:
            ApiError: 404, it doesn't exist.
        """
        if collection.find is None:
            raise asked.missing
        number = collection.find(asked.namespace, asked.name)
        if number is None or not collection.is_there(number):
            raise asked.missing
        return _shown(collection.render(number), asked)

    async def list(self, collection: Collection, asked: Asked, send: Send) -> int:
        """Send a page, or everything. Return its size in bytes.

        Raises:
            ApiError: 400, the selector or the continue token isn't supported.
        """
        _check_selectors(asked)
        numbers = collection.numbers(asked.namespace)
        version, start = _continued(asked) or (self._version(), 0)
        limit = asked.number("limit") if collection.pages else 0
        end = min(start + limit, len(numbers)) if limit else len(numbers)
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if end < len(numbers):
            metadata["continue"] = f"{version}.{end}"
            metadata["remainingItemCount"] = len(numbers) - end
        chosen = numbers[start:end]
        parts = _parts(collection, asked, chosen, metadata)
        if len(chosen) <= _AT_ONCE:
            return await self._send_whole(b"".join(parts), asked, send)
        return await self._send_stream(parts, asked, send)

    async def _send_whole(self, body: bytes, asked: Asked, send: Send) -> int:
        size = len(body)
        headers = [(b"content-type", b"application/json")]
        if asked.takes_gzip and size >= _LEAST_COMPRESSED:
            headers.append((b"content-encoding", b"gzip"))
            packer = _packer()
            body = packer.compress(body) + packer.flush()
        headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return size

    async def _send_stream(self, parts: Iterator[bytes], asked: Asked, send: Send) -> int:
        size = 0
        headers = [(b"content-type", b"application/json")]
        packer = _packer() if asked.takes_gzip else None
        if packer is not None:
            headers.append((b"content-encoding", b"gzip"))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for part in parts:
            size += len(part)
            sent = part if packer is None else packer.compress(part)
            await send({"type": "http.response.body", "body": sent, "more_body": True})
            await asyncio.sleep(0)
        rest = b"" if packer is None else packer.flush()
        await send({"type": "http.response.body", "body": rest})
        return size

    async def watch(
        self, collection: Collection, asked: Asked, receive: Receive, send: Send
    ) -> None:
        """Send events until the client disconnects or the time is up.

        Raises:
            ApiError: 400, the selector isn't supported; 410, the version is too old.
        """
        _check_selectors(asked)
        since = asked.number("resourceVersion")
        try:
            position = collection.changes.after(since)
        except TooOldError as error:
            raise expired(f"too old resource version: {since}") from error
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        seconds = asked.number("timeoutSeconds") or _WATCH_SECONDS
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            async with asyncio.timeout(seconds):
                await self._follow(collection, asked, send, position, gone)
        except TimeoutError:
            pass
        finally:
            gone.cancel()
        await send({"type": "http.response.body", "body": b""})

    async def _follow(
        self,
        collection: Collection,
        asked: Asked,
        send: Send,
        position: int,
        gone: "asyncio.Future[None]",
    ) -> None:
        """Send events until the client disconnects. The caller's timeout ends it."""
        bookmarks = asked.query.get("allowWatchBookmarks") == "true"
        while not gone.done():
            try:
                events = collection.changes.read(position, _EVENTS_AT_ONCE)
            except TooOldError:
                status = expired("the watch is too far behind").status_object()
                await _send_some(send, _event("ERROR", msgspec.json.encode(status)))
                return
            if events:
                position += len(events)
                shown = (
                    _event(one.type, _shown(collection.show(one.state), asked)) for one in events
                )
                await _send_some(send, b"".join(shown))
                continue
            grown = asyncio.ensure_future(collection.changes.grown(position))
            try:
                done, _ = await asyncio.wait(
                    (grown, gone),
                    timeout=_BOOKMARK_SECONDS,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            finally:
                grown.cancel()
            if not done and bookmarks:
                await _send_some(send, _bookmark(collection, self._version()))


def _parts(
    collection: Collection, asked: Asked, numbers: Sequence[int], metadata: dict[str, Any]
) -> Iterator[bytes]:
    kind = "PartialObjectMetadata" if asked.metadata_only else collection.kind
    api_version = "meta.k8s.io/v1" if asked.metadata_only else collection.api_version
    head = {"kind": f"{kind}List", "apiVersion": api_version, "metadata": metadata}
    yield msgspec.json.encode(head)[:-1] + b',"items":['
    comma = b""
    for start in range(0, len(numbers), _AT_ONCE):
        items = [
            _shown(collection.render(number), asked)
            for number in numbers[start : start + _AT_ONCE]
            if collection.is_there(number)
        ]
        if items:
            yield comma + b",".join(items)
            comma = b","
    yield b"]}"


def _shown(body: bytes, asked: Asked) -> bytes:
    """Return the object, or its metadata alone."""
    if not asked.metadata_only:
        return body
    head = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'
    return head + bytes(_whole_decoder.decode(body).metadata) + b"}"


def _event(type: str, body: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (type.encode(), body)


def _bookmark(collection: Collection, version: int) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
    shown = {
        "kind": collection.kind,
        "apiVersion": collection.api_version,
        "metadata": metadata,
    }
    return _event("BOOKMARK", msgspec.json.encode(shown))


def _check_selectors(asked: Asked) -> None:
    if asked.query.get("labelSelector"):
        raise bad_request("the load mode has no label selectors")
    selector = asked.query.get("fieldSelector", "")
    if selector not in _EVERYTHING:
        raise bad_request(f"the load mode has no field selector {selector!r}")


def _continued(asked: Asked) -> tuple[int, int] | None:
    """Return the version and the position of a continue token; None without one."""
    token = asked.query.get("continue")
    if not token:
        return None
    version, _, place = token.partition(".")
    if not (version.isdecimal() and place.isdecimal()):
        raise bad_request("continue key is not valid")
    return int(version), int(place)


def _packer() -> "zlib._Compress":
    return zlib.compressobj(1, wbits=31)  # gzip, at the level of real API servers


async def _send_some(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

"""Watches: changes of the store as lines on a connection."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from random import Random

import msgspec

from sandbox import errors
from sandbox.apiserver.forms import Form, Presenter
from sandbox.apiserver.reading import read_version, selection_of
from sandbox.apiserver.requests import Request
from sandbox.objects.resources import Resource
from sandbox.objects.selectors import Selection
from sandbox.objects.store import Change, ChangeType, Store, Stored
from sandbox.version import KubernetesVersion

BOOKMARK_INTERVAL = 60.0  # seconds
_LAST_BOOKMARK = 2.0  # seconds before the end
_SHORTEST = 1800  # seconds; a watch without timeoutSeconds lasts up to twice as long
_BACKLOG = 32 * 1024 * 1024  # unsent bytes after which a slow client is disconnected


class Watch:
    """An open watch. ``stop`` ends it from outside; ``close`` must be called in any case."""

    def __init__(
        self,
        *,
        seconds: float,
        first: list[bytes],
        bookmark: Callable[[], bytes] | None,
        close: Callable[[], None] = lambda: None,
        over: bool = False,
    ) -> None:
        self._seconds = seconds
        self._lines = first
        self._queued = 0  # bytes since the last chunk
        self._bookmark = bookmark
        self._over = over
        self._awake = asyncio.Event()
        self.close = close

    def push(self, line: bytes) -> None:
        """Queue a line. End the watch if its client is too slow."""
        self._lines.append(line)
        self._queued += len(line)
        self._over = self._over or self._queued > _BACKLOG
        self._awake.set()

    def stop(self) -> None:
        """Send what is queued, then end."""
        self._over = True
        self._awake.set()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield whole lines, joined if several are queued, until the time is up."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._seconds
        bookmark_at = end
        if self._bookmark is not None:
            now = loop.time()
            bookmark_at = _next_bookmark(now, end)
        while True:
            if self._lines:
                chunk = b"".join(self._lines)
                self._lines.clear()
                self._queued = 0
                yield chunk
                continue
            if self._over or loop.time() >= end:
                return
            if self._bookmark is not None and loop.time() >= bookmark_at:
                bookmark_at = _next_bookmark(loop.time(), end)
                yield self._bookmark()
                continue
            self._awake.clear()
            try:
                async with asyncio.timeout_at(min(end, bookmark_at)):
                    await self._awake.wait()
            except TimeoutError:
                continue


def _next_bookmark(now: float, end: float) -> float:
    """Return the time of the next bookmark; ``end`` if none is left.

    Source: ``cacheWatcher.nextBookmarkTime``, k8s.io/apiserver pkg/storage/cacher.
    """
    at = min(now + BOOKMARK_INTERVAL, end - _LAST_BOOKMARK)
    return at if at > now else end


class Watches:
    """Opens watches. A line is encoded once per change and form for all watches."""

    def __init__(
        self, store: Store, presenter: Presenter, *, version: KubernetesVersion, rng: Random
    ) -> None:
        self._store = store
        self._presenter = presenter
        self._version = version
        self._rng = rng
        self._open: set[Watch] = set()
        self._stopped = False
        self._last: tuple[object, ...] = ()
        self._last_line = b""

    def stop(self) -> None:
        """End every watch. New ones end after the present objects."""
        self._stopped = True
        for watch in tuple(self._open):
            watch.stop()

    def open(self, request: Request, resource: Resource, namespace: str, form: Form) -> Watch:
        """Start a watch.

        Raises:
            ApiError: 400, 422 or 500 for invalid or conflicting parameters. An expired version
                leads to an ERROR event instead.
        """
        selection = selection_of(request, resource, namespace)
        request.number("limit")
        seconds = request.number("timeoutSeconds") or _SHORTEST + self._rng.randrange(_SHORTEST)
        since = read_version(request)
        bookmarks = request.flag("allowWatchBookmarks")
        first: list[bytes] = []
        if request.query.get("resourceVersion", "") in ("", "0"):
            first = [
                self._line(ChangeType.ADDED, item, resource, form)
                for item in self._store.list(resource, namespace)
                if selection.matches(item)
            ]
            since = max(since, self._store.version)
        elif since:
            try:
                past = self._store.changes_since(resource, since)
            except errors.ApiError as error:
                line = _event("ERROR", msgspec.json.encode(error.status_object()))
                return Watch(seconds=0, first=[line], bookmark=None, over=True)
            lines = (self._change_line(change, selection, resource, form) for change in past)
            first = [line for line in lines if line is not None]

        watch: Watch

        def receive(change: Change) -> None:
            if change.stored.version > since:
                line = self._change_line(change, selection, resource, form)
                if line is not None:
                    watch.push(line)

        unsubscribe = self._store.subscribe(resource, receive)

        def close() -> None:
            unsubscribe()
            self._open.discard(watch)

        watch = Watch(
            seconds=seconds,
            first=first,
            bookmark=(lambda: self._bookmark(resource)) if bookmarks else None,
            close=close,
            over=self._stopped,
        )
        self._open.add(watch)
        return watch

    def _change_line(
        self, change: Change, selection: Selection, resource: Resource, form: Form
    ) -> bytes | None:
        """Return the event for a watcher of ``selection``; None for no event."""
        deleted = change.type is ChangeType.DELETED
        is_in = not deleted and selection.matches(change.stored)
        was_in = change.previous is not None and selection.matches(change.previous)
        if is_in:
            type_ = ChangeType.MODIFIED if was_in else ChangeType.ADDED
            return self._line(type_, change.stored, resource, form)
        if not was_in or change.previous is None:
            return None
        last = change.stored if deleted else _moved(change.previous, change.stored.version)
        return self._line(ChangeType.DELETED, last, resource, form)

    def _line(self, type_: ChangeType, stored: Stored, resource: Resource, form: Form) -> bytes:
        key = (type_, stored, resource.api_version, form)
        if key != self._last:
            self._last = key
            self._last_line = _event(type_, self._presenter.one(resource, stored, form))
        return self._last_line

    def _bookmark(self, resource: Resource) -> bytes:
        meta: dict[str, object] = {"resourceVersion": str(self._store.version)}
        body = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
        return _event("BOOKMARK", msgspec.json.encode(body))


def _moved(stored: Stored, version: int) -> Stored:
    """Return an object that left a selection, with the version of the change that removed it."""
    obj = msgspec.json.decode(b"{" + stored.body)
    obj["metadata"]["resourceVersion"] = str(version)
    return replace(stored, version=version, body=msgspec.json.encode(obj)[1:])


def _event(type_: str, encoded: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (type_.encode(), encoded)

"""An informer: list and watch, with snapshots of the objects of one kind."""

import asyncio
import contextlib
import functools
import math
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from common.errors import (
    DecodeError,
    ForbiddenError,
    GoneError,
    KubeError,
    NotFoundError,
    UnreachableError,
)
from common.kube.client import KubeClient
from common.kube.endpoints import Endpoint
from common.kube.object_store import Change, ObjectStore, Snapshot
from common.kube.watch import EventType, WatchEvent, identity
from common.kube.watch_recovery import Recovery
from common.runtime.object_errors import ObjectErrors

__all__ = ["Cache", "Change", "Snapshot", "with_boundary"]

T = TypeVar("T")

_LONG_USE = 30.0  # seconds; a watch that lasted so long counts as successful
_CATCH_UP = 1.0  # seconds in which a new watch sends the events that the broken one missed
_SLICE = 1000  # changes reported before other tasks run


def with_boundary(
    on_change: Callable[[Change[T]], None], endpoint: Endpoint[T], errors: ObjectErrors
) -> Callable[[Change[T]], None]:
    """Return the same callback with a boundary around each object, so that errors end no watch."""

    def on_each(change: Change[T]) -> None:
        shown = change.new if change.new is not None else change.old
        namespace, name, _ = identity(shown) if shown is not None else ("", "", "")
        with errors.around("watch", endpoint.kind, namespace, name):
            on_change(change)

    return on_each


class Cache(Generic[T]):
    """An informer of one kind of object; ``run`` is an endless background task.

    Readers use an :class:`~common.kube.object_store.ObjectStore`, whose snapshots don't
    change.

    ``on_change`` is called for each difference, in order, from the list as from the watch; it
    must be fast, and its exceptions end the task. An object that can't be decoded is dropped
    like a deleted one, because actions must not use its former state.
    """

    def __init__(
        self,
        client: KubeClient,
        endpoint: Endpoint[T],
        *,
        namespace: str = "",
        field_selector: str = "",
        label_selector: str = "",
        on_change: Callable[[Change[T]], None] | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._list_all = functools.partial(
            client.list,
            endpoint,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
        )
        self._watch_from = functools.partial(
            client.watch,
            endpoint,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
        )
        self._on_change = on_change
        self._store = ObjectStore[T]()
        self._version = ""
        self._listed = asyncio.Event()
        self._answered = asyncio.Event()
        self._fresh_from = math.inf  # the event loop's time
        self._is_open = False  # the server agreed to the present watch
        self._recovery = Recovery(client, endpoint.resource)
        self._loop: asyncio.AbstractEventLoop | None = None  # set while it follows the API server
        self._heard = 0.0  # the event loop's time of the last list, event or bookmark

    # For readers

    @property
    def synced(self) -> bool:
        """Return True if the objects have been listed once; before that the cache is empty."""
        return self._listed.is_set()

    async def wait_synced(self) -> None:
        await self._listed.wait()

    @property
    def answered(self) -> bool:
        """Return True if the objects were listed, or this isn't permitted, or they aren't served.

        Other errors may be over soon.
        """
        return self._answered.is_set()

    async def wait_answered(self) -> None:
        await self._answered.wait()

    @property
    def fresh(self) -> bool:
        """Return True if the objects are current.

        They are stale from the failure of a list or a watch until the next one works and has had
        time to catch up. Check this before acting on many objects at once.
        """
        return self._fresh_from <= asyncio.get_running_loop().time()

    @property
    def fresh_from(self) -> float:
        """Return the event loop's time at which they became ``fresh``; infinity if they aren't."""
        return self._fresh_from

    @property
    def snapshot(self) -> Snapshot[T]:
        """Return all objects now; the same value until something changes."""
        return self._store.snapshot

    def get(self, namespace: str, name: str) -> T | None:
        return self._store.get(namespace, name)

    def in_namespace(self, namespace: str) -> Sequence[T]:
        return self._store.in_namespace(namespace)

    def age(self) -> float:
        """Return the seconds since the API server last sent something, or since the start.

        Metrics are collected in another thread.
        """
        return 0.0 if self._loop is None else self._loop.time() - self._heard

    # Following the API server

    async def run(self) -> None:
        """List, watch, and list again when the server requires it; never return."""
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()
        while True:
            try:
                await self._list()
                await self._follow()
            except GoneError as error:
                self._fresh_from = math.inf
                await self._recovery.after_gone(error)
            except (KubeError, DecodeError) as error:
                self._fresh_from = math.inf
                if isinstance(error, (ForbiddenError, NotFoundError)):
                    self._answered.set()
                await self._recovery.after_failure(error)

    async def _list(self) -> None:
        listing = await self._list_all()
        self._recovery.works()
        changes = await self._store.replace_all(listing.items)
        self._version = listing.resource_version
        self._fresh_from = self._heard = asyncio.get_running_loop().time()
        if self._on_change is not None:
            for number, change in enumerate(changes):
                self._on_change(change)
                if number % _SLICE == _SLICE - 1:
                    await asyncio.sleep(0)
        self._listed.set()
        self._answered.set()

    async def _follow(self) -> None:
        """Watch from version to version until the server requires a new list."""
        while True:
            try:
                await self._watch()
            except GoneError:
                raise
            except (KubeError, DecodeError) as error:
                if self._is_open and not isinstance(error, UnreachableError):
                    raise  # a watch from this version would return the same event
                self._fresh_from = math.inf
                await self._recovery.after_failure(error)
            else:
                await self._recovery.after_use()

    async def _watch(self) -> None:
        events = self._watch_from(resource_version=self._version, on_open=self._opened)
        self._is_open = False
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with contextlib.aclosing(events):
                async for event in events:
                    self._heard = loop.time()
                    self._recovery.works()
                    self._recovery.used()
                    self._apply(event)
        finally:
            if loop.time() - started >= _LONG_USE:
                self._recovery.used()  # a resource without events and bookmarks is no failure

    def _opened(self) -> None:
        self._is_open = True
        if self._fresh_from == math.inf:
            self._fresh_from = asyncio.get_running_loop().time() + _CATCH_UP

    def _apply(self, event: WatchEvent[T]) -> None:
        self._version = event.resource_version or self._version
        if event.type is EventType.BOOKMARK:
            return
        gone = event.type is EventType.DELETED
        new = None if gone else event.object
        old = self._store.get(event.namespace, event.name)
        if old is None and new is None:
            return
        if old is not None and new is not None and identity(old)[2] == event.resource_version:
            return  # a repeated event
        if new is None:
            self._store.remove(event.namespace, event.name)
        else:
            self._store.put(event.namespace, event.name, new)
        if self._on_change is not None:
            self._on_change(Change(old, new, event.object if gone else None))

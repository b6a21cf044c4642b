"""List and watch, kept as a snapshot of one kind of object."""

import asyncio
import contextlib
import logging
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from common.errors import DecodeError, GoneError, KubeError, UnreachableError
from common.kube.client import KubeClient
from common.kube.endpoints import Endpoint
from common.kube.watch import EventType, WatchEvent, identity
from common.runtime.object_errors import ObjectErrors
from common.runtime.pausing import pausing

logger = logging.getLogger(__name__)

T = TypeVar("T")
Objects = dict[str, dict[str, T]]  # namespace -> name -> object

_SHORTEST_PAUSE = 1.0  # seconds between two attempts
_LONGEST_PAUSE = 30.0
_LONG_USE = 30.0  # seconds; a watch that lasted so long was a good one
_SPREAD = 1.0  # seconds over which caches come back when the server does
_CATCH_UP = 1.0  # seconds for what a broken watch missed: the next one brings that first
_SLICE = 1000  # objects looked at, or changes reported, before other tasks get their turn


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What happened to one object: ``old`` is None when it is new, ``new`` when it is gone.

    ``last`` is what an object was like when it went, which may be news: a pod can be killed
    and deleted at once. Only a watch brings it; otherwise it is None.
    """

    old: T | None
    new: T | None
    last: T | None = None


def apart(
    on_change: Callable[[Change[T]], None], endpoint: Endpoint[T], errors: ObjectErrors
) -> Callable[[Change[T]], None]:
    """Return the same callback with a boundary around each object: what it raises ends no watch."""

    def on_each(change: Change[T]) -> None:
        shown = change.new if change.new is not None else change.old
        namespace, name, _ = identity(shown) if shown is not None else ("", "", "")
        with errors.around("watch", endpoint.kind, namespace, name):
            on_change(change)

    return on_each


class Snapshot(Generic[T]):
    """All objects at one moment; nothing that happens later shows in it."""

    __slots__ = ("_objects", "_size")

    def __init__(self, objects: Mapping[str, Mapping[str, T]]) -> None:
        self._objects = objects
        self._size = sum(map(len, objects.values()))

    def get(self, namespace: str, name: str) -> T | None:
        found = self._objects.get(namespace)
        return None if found is None else found.get(name)

    def items(self) -> Iterator[T]:
        """Return every object, namespace by namespace."""
        for objects in self._objects.values():
            yield from objects.values()

    def in_namespace(self, namespace: str) -> Sequence[T]:
        return tuple(self._objects.get(namespace, {}).values())

    def by_namespace(self) -> Mapping[str, Mapping[str, T]]:
        """By namespace and name; that of a namespace is the same value while nothing changes."""
        return self._objects

    def namespaces(self) -> Sequence[str]:
        """Return the namespaces that hold an object."""
        return tuple(self._objects)

    def __len__(self) -> int:
        return self._size


class Cache(Generic[T]):
    """Follows one kind of object; ``run`` is an endless background task.

    Immutability without copying: the objects lie in one dictionary for each namespace. Taking
    a ``snapshot`` marks them all as shared; the next change in a namespace first copies that
    namespace's dictionary, once for each snapshot taken, and never again until the next one.
    A process that takes a snapshot in every cycle so copies at most once in every cycle, and a
    change costs no more than a dictionary entry. ``get`` and ``in_namespace`` read without
    taking a snapshot.

    ``on_change`` is called for each difference, in order, from the list as from the watch; it
    must be quick, and what it raises ends the task. An object that can't be decoded is dropped
    as if it were gone: acting on what it was before would be wrong.
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
        self._client = client
        self._namespace = namespace
        self._field_selector = field_selector
        self._label_selector = label_selector
        self._on_change = on_change
        self._objects: Objects[T] = {}
        self._snapshot: Snapshot[T] | None = None
        self._shared: set[str] = set()  # namespaces whose dictionary a snapshot holds
        self._version = ""
        self._listed = asyncio.Event()
        self._fresh_from = math.inf  # the event loop's time
        self._is_open = False  # the server agreed to the present watch
        self._pauses = Pauses(client.rng)
        self._was_away = False  # the last request had no answer
        self._was_woken = False  # from a pause, because the server was back
        self._trouble = ""

    # What readers see

    @property
    def synced(self) -> bool:
        """Whether the objects have been listed once; before that the cache is empty."""
        return self._listed.is_set()

    async def wait_synced(self) -> None:
        await self._listed.wait()

    @property
    def fresh(self) -> bool:
        """Whether the objects are known to be current.

        They are not from the moment that a list or a watch fails until one works again, and has
        had time to catch up. Check it before acting on many objects at once.
        """
        return self._fresh_from <= asyncio.get_running_loop().time()

    @property
    def fresh_from(self) -> float:
        """Since when they are ``fresh``, by the event loop's time; infinity: they aren't."""
        return self._fresh_from

    @property
    def snapshot(self) -> Snapshot[T]:
        """All objects now; the same value until something changes."""
        if self._snapshot is None:
            self._shared = set(self._objects)
            self._snapshot = Snapshot(dict(self._objects))
        return self._snapshot

    def get(self, namespace: str, name: str) -> T | None:
        found = self._objects.get(namespace)
        return None if found is None else found.get(name)

    def in_namespace(self, namespace: str) -> Sequence[T]:
        return tuple(self._objects.get(namespace, {}).values())

    # Following the API server

    async def run(self) -> None:
        """List, watch, and list again when the server says so; never return."""
        while True:
            try:
                await self._list()
                await self._follow()
            except GoneError as error:
                self._fresh_from = math.inf
                self._client.troubled(self.endpoint.resource, error.reason)
                extra = {"resource": self.endpoint.resource}
                logger.info("listing again, what was seen last is too old", extra=extra)
                self._was_answered()
                await asyncio.sleep(self._pauses.after_use())
            except (KubeError, DecodeError) as error:
                self._note(error)
                await self._rest(error)

    async def _rest(self, error: KubeError | DecodeError) -> None:
        """Pause after a failure; while the server is away, until any request is answered.

        A wake-up that led to nothing isn't repeated at once.
        """
        away = isinstance(error, UnreachableError)
        if not away:
            self._was_answered()
        seconds = self._pauses.next(error)
        if not away or self._was_woken:
            self._was_woken = False
            self._was_away = away
            await asyncio.sleep(seconds)
            return
        self._was_away = True
        self._was_woken = await self._client.back_within(seconds)
        if self._was_woken:
            await asyncio.sleep(self._client.rng.uniform(0.0, _SPREAD))

    def _was_answered(self) -> None:
        """What a server says that is back is a first trouble, however long it was away."""
        if self._was_away:
            self._was_away = False
            self._pauses.start_over()

    async def _list(self) -> None:
        listing = await self._client.list(
            self.endpoint,
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
        )
        self._fine()
        before, after = self._objects, await _indexed(listing.items, self._objects)
        self._objects = after
        self._snapshot = None
        self._shared = set()
        self._version = listing.resource_version
        self._fresh_from = asyncio.get_running_loop().time()
        if self._on_change is not None:
            for number, change in enumerate(_differences(before, after)):
                self._on_change(change)
                if number % _SLICE == _SLICE - 1:
                    await asyncio.sleep(0)
        self._listed.set()

    async def _follow(self) -> None:
        """Watch from version to version until the server wants us to list again."""
        while True:
            try:
                await self._watch()
            except GoneError:
                raise
            except (KubeError, DecodeError) as error:
                if self._is_open and not isinstance(error, UnreachableError):
                    raise  # the next watch from here would only bring it again
                self._note(error)
                await self._rest(error)
            else:
                await asyncio.sleep(self._pauses.after_use())

    async def _watch(self) -> None:
        events = self._client.watch(
            self.endpoint,
            resource_version=self._version,
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            on_open=self._opened,
        )
        self._is_open = False
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with contextlib.aclosing(events):
                async for event in events:
                    self._fine()
                    self._pauses.used()
                    self._apply(event)
        finally:
            if loop.time() - started >= _LONG_USE:
                self._pauses.used()  # a quiet resource without bookmarks is no trouble

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
        old = self.get(event.namespace, event.name)
        if old is None and new is None:
            return
        if old is not None and new is not None and identity(old)[2] == event.resource_version:
            return  # the server repeats itself
        objects = self._writable(event.namespace)
        if new is None:
            del objects[event.name]
            if not objects:
                del self._objects[event.namespace]
        else:
            objects[event.name] = new
        if self._on_change is not None:
            self._on_change(Change(old, new, event.object if gone else None))

    def _writable(self, namespace: str) -> dict[str, T]:
        """Return the namespace's own dictionary, which no snapshot holds."""
        self._snapshot = None
        objects = self._objects.get(namespace)
        if objects is None:
            objects = {}
        elif namespace in self._shared:
            objects = dict(objects)
        else:
            return objects
        self._shared.discard(namespace)
        self._objects[namespace] = objects
        return objects

    # One line for each change of state

    def _note(self, error: KubeError | DecodeError) -> None:
        """Log trouble of this resource once; that the server is away is logged by the client."""
        self._fresh_from = math.inf
        kind = getattr(error, "reason", "") or type(error).__name__
        self._client.troubled(self.endpoint.resource, kind)
        if isinstance(error, UnreachableError):
            return
        if kind != self._trouble:
            self._trouble = kind
            logger.warning(
                "can't follow the resource, trying again",
                extra={"resource": self.endpoint.resource, "reason": kind, "error": str(error)},
            )

    def _fine(self) -> None:
        if self._trouble:
            self._trouble = ""
            logger.info("following again", extra={"resource": self.endpoint.resource})


class Pauses:
    """How long to wait between attempts: one second, then twice as long, thirty at most.

    Each is spread by half, so that a thousand clients don't come back at the same moment.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._pause = _SHORTEST_PAUSE
        self._was_used = False

    def used(self) -> None:
        """The connection brought something: the next failure is a first one."""
        self._was_used = True
        self.start_over()

    def start_over(self) -> None:
        """The next failure is a first one."""
        self._pause = _SHORTEST_PAUSE

    def next(self, error: Exception | None = None) -> float:
        """Return the seconds to wait after a failure; no less than the server asks for."""
        self._was_used = False
        pause = self._pause * self._rng.uniform(0.5, 1.0)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        hint = getattr(error, "retry_after", None) or 0.0
        return max(pause, min(hint, _LONGEST_PAUSE))

    def after_use(self) -> float:
        """Return the seconds to wait after a watch that ended: none if it brought something."""
        if self._was_used:
            self._was_used = False
            return 0.0
        return self.next()


async def _indexed(items: Sequence[T], before: Objects[T]) -> Objects[T]:
    """By namespace and name; an object that didn't change stays the very same one."""
    objects: Objects[T] = {}
    async for item in pausing(items, every=_SLICE):
        namespace, name, version = identity(item)
        known = before.get(namespace, {}).get(name)
        same = known is not None and version and identity(known)[2] == version
        objects.setdefault(namespace, {})[name] = known if same and known is not None else item
    return objects


def _differences(before: Objects[T], after: Objects[T]) -> Iterator[Change[T]]:
    """Vanished objects first, so that a name that moved is never there twice."""
    for namespace, objects in before.items():
        left = after.get(namespace, {})
        for name, old in objects.items():
            if name not in left:
                yield Change(old, None)
    for namespace, objects in after.items():
        known = before.get(namespace, {})
        for name, new in objects.items():
            last = known.get(name)
            if last is not new:
                yield Change(last, new)

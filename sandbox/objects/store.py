"""The store: encoded JSON in memory, one counter of versions, a bounded history.

An object is kept as the bytes of a response without ``kind`` and ``apiVersion``. A response adds
these in front, so all served versions of a kind share one object. The few values that selectors and
owners need are kept beside it. A ``Stored`` never changes, so a list at an older version is the
present state with the changes of the history undone.
"""

import enum
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import Any

import msgspec

from sandbox import errors
from sandbox.objects.resources import Resource

HISTORY = 4000  # changes that are kept for watches, per resource

_encode = msgspec.json.encode
_decode = msgspec.json.decode
_NO_LABELS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stored:
    """One version of one object; equality is identity.

    ``body`` is the JSON object without its opening brace and without ``kind`` and
    ``apiVersion``; ``fields`` holds the values of the resource's selectable fields, in the
    order of ``Resource.fields``; ``owners`` the UIDs of the owner references.
    """

    namespace: str
    name: str
    uid: str
    version: int
    labels: Mapping[str, str]
    fields: tuple[str, ...]
    owners: tuple[str, ...]
    terminating: bool
    body: bytes

    def object(self, resource: Resource) -> dict[str, Any]:
        """Return a new decoded object with ``apiVersion`` and ``kind`` of ``resource``."""
        decoded: dict[str, Any] = {"kind": resource.kind, "apiVersion": resource.api_version}
        decoded.update(_decode(b"{" + self.body))
        return decoded


class ChangeType(enum.StrEnum):
    """The type of a change, as in watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One write.

    ``stored`` is the state after it. For a deletion it is the last state with the version of the
    deletion. ``previous`` is None for a new object.
    """

    type: ChangeType
    stored: Stored
    previous: Stored | None


Listener = Callable[[Change], None]


class _Table:
    """The objects of one resource in the order of their keys, and their recent changes."""

    __slots__ = ("floor", "history", "items", "keys", "listeners")

    def __init__(self, history: int, floor: int) -> None:
        self.items: dict[str, Stored] = {}
        self.keys: list[str] = []
        self.history: deque[Change] = deque(maxlen=history)
        self.floor = floor  # the history is complete for versions above this one
        self.listeners: list[Listener] = []

    def record(self, change: Change) -> None:
        if len(self.history) == self.history.maxlen:
            self.floor = self.history[0].stored.version
        self.history.append(change)
        for listener in tuple(self.listeners):
            listener(change)


class Store:
    """All objects of the cluster. Only the event loop of the API server writes."""

    def __init__(self, *, history: int = HISTORY) -> None:
        self._history = history
        self._tables: dict[str, _Table] = {}
        self._owned: dict[str, set[tuple[str, str]]] = {}
        self._version = 0
        self._compacted = 0  # the history up to this version is dropped
        self._restarted = 0  # no watch can begin before this version

    @property
    def version(self) -> int:
        """The version of the latest write."""
        return self._version

    def get(self, resource: Resource, namespace: str, name: str) -> Stored | None:
        """Return the present object. ``namespace`` is empty for cluster resources."""
        return self._table(resource).items.get(_key(namespace, name))

    def existing(self, resource: Resource, namespace: str, name: str) -> Stored:
        """Return the present object.

        Raises:
            ApiError: 404.
        """
        stored = self.get(resource, namespace, name)
        if stored is None:
            raise errors.not_found(resource, name)
        return stored

    def list(self, resource: Resource, namespace: str = "") -> list[Stored]:
        """Return the present objects by namespace and name. An empty namespace selects all."""
        table = self._table(resource)
        keys = table.keys
        if namespace and resource.namespaced:
            keys = keys[bisect_left(keys, f"{namespace}/") : bisect_left(keys, f"{namespace}0")]
        return [table.items[key] for key in keys]

    def list_at(self, resource: Resource, namespace: str, version: int) -> Sequence[Stored]:
        """Return the objects as they were at ``version``.

        Raises:
            ApiError: 410, the version is older than the history, or in the future.
        """
        table = self._table(resource)
        if not table.floor <= version <= self._version:
            raise errors.expired("The resourceVersion for the provided list is too old.")
        undone: dict[str, Stored | None] = {}
        for change in reversed(table.history):
            if change.stored.version <= version:
                break
            undone[_key(change.stored.namespace, change.stored.name)] = change.previous
        now = self.list(resource, namespace)
        if not undone:
            return now
        then = {_key(item.namespace, item.name): item for item in now}
        for key, item in undone.items():
            then.pop(key, None)
            if item is not None and (not namespace or item.namespace == namespace):
                then[key] = item
        return [then[key] for key in sorted(then)]

    def create(self, resource: Resource, obj: dict[str, Any]) -> Stored:
        """Store a new object and set its version; ``obj`` is consumed.

        Raises:
            ApiError: 409, the name is taken.
        """
        table = self._table(resource)
        meta = obj["metadata"]
        key = _key(meta.get("namespace", ""), meta["name"])
        if key in table.items:
            raise errors.already_exists(resource, meta["name"])
        stored = self._stored(resource, obj)
        table.items[key] = stored
        insort(table.keys, key)
        self._own(resource, key, stored)
        table.record(Change(ChangeType.ADDED, stored, None))
        return stored

    def update(
        self, resource: Resource, obj: dict[str, Any], *, expected: int | None = None
    ) -> Stored:
        """Replace an object; ``obj`` is consumed.

        Raises:
            ApiError: 404, it doesn't exist; 409, its version isn't ``expected``.
        """
        table = self._table(resource)
        meta = obj["metadata"]
        namespace, name = meta.get("namespace", ""), meta["name"]
        key, previous = _key(namespace, name), self.existing(resource, namespace, name)
        if expected is not None and expected != previous.version:
            raise errors.conflict(resource, name)
        stored = self._stored(resource, obj)
        table.items[key] = stored
        if previous.owners != stored.owners:
            self._disown(resource, key, previous)
            self._own(resource, key, stored)
        table.record(Change(ChangeType.MODIFIED, stored, previous))
        return stored

    def delete(self, resource: Resource, namespace: str, name: str) -> Stored:
        """Remove an object at once. The caller handles finalizers and grace periods.

        Raises:
            ApiError: 404, it doesn't exist.
        """
        table = self._table(resource)
        key, previous = _key(namespace, name), self.existing(resource, namespace, name)
        last = self._stored(resource, previous.object(resource))
        del table.items[key]
        del table.keys[bisect_left(table.keys, key)]
        self._disown(resource, key, previous)
        table.record(Change(ChangeType.DELETED, last, previous))
        return last

    def owned_by(self, uid: str) -> Sequence[tuple[str, str, str]]:
        """Return group resource, namespace and name of all objects with ``uid`` as an owner."""
        return [(resource, *_split(key)) for resource, key in sorted(self._owned.get(uid, ()))]

    def changes_since(self, resource: Resource, version: int) -> Iterator[Change]:
        """Return the changes after ``version``, oldest first.

        Raises:
            ApiError: 410, the version is older than the history.
        """
        table = self._table(resource)
        floor = max(table.floor, self._restarted)
        if version < floor:
            raise errors.expired(f"too old resource version: {version} ({floor})")
        return iter([c for c in table.history if c.stored.version > version])

    def subscribe(self, resource: Resource, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with every change from now on. Return a function that ends this.

        The listener is called within the write, so it may neither wait nor write.
        """
        listeners = self._table(resource).listeners
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    def compact(self) -> None:
        """Drop the history. Older watches and pages have to list again (410)."""
        self._compacted = self._version
        for table in self._tables.values():
            table.history.clear()
            table.floor = self._version

    def restart(self) -> None:
        """Drop what only watches need, as a restarted API server does.

        Its watch cache begins with the present state, so a client with an older version has to list
        again. Pages are read from etcd, and continue.
        """
        self._restarted = self._version

    def _table(self, resource: Resource) -> _Table:
        table = self._tables.get(resource.group_resource)
        if table is None:
            table = _Table(self._history, self._compacted)
            self._tables[resource.group_resource] = table
        return table

    def _stored(self, resource: Resource, obj: dict[str, Any]) -> Stored:
        self._version += 1
        obj.pop("kind", None)
        obj.pop("apiVersion", None)
        meta = obj["metadata"]
        meta["resourceVersion"] = str(self._version)
        labels = meta.get("labels")
        return Stored(
            namespace=intern(meta.get("namespace", "")),
            name=meta["name"],
            uid=meta.get("uid", ""),
            version=self._version,
            labels={intern(key): intern(value) for key, value in labels.items()}
            if labels
            else _NO_LABELS,
            fields=tuple(field_value(obj, path) for path in resource.fields),
            owners=tuple(owner["uid"] for owner in meta.get("ownerReferences", ())),
            terminating="deletionTimestamp" in meta,
            body=_encode(obj)[1:],
        )

    def _own(self, resource: Resource, key: str, stored: Stored) -> None:
        for uid in stored.owners:
            self._owned.setdefault(uid, set()).add((resource.group_resource, key))

    def _disown(self, resource: Resource, key: str, stored: Stored) -> None:
        for uid in stored.owners:
            owned = self._owned.get(uid)
            if owned is not None:
                owned.discard((resource.group_resource, key))
                if not owned:
                    del self._owned[uid]


_COMPUTED: Mapping[str, Callable[[dict[str, Any]], str]] = {
    # An Event's source is the component that reported it, in either generation of the API.
    "source": lambda obj: (
        (obj.get("source") or {}).get("component") or obj.get("reportingComponent") or ""
    ),
}


def field_value(obj: dict[str, Any], path: str) -> str:
    """Return the text that a field selector compares with; empty if the field is missing."""
    computed = _COMPUTED.get(path)
    if computed is not None:
        return computed(obj)
    value: Any = obj
    for step in _steps(path):
        value = value.get(step) if isinstance(value, dict) else None
    return intern(_text(value))


@lru_cache(maxsize=256)
def _steps(path: str) -> tuple[str, ...]:
    return tuple(path.split("."))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _split(key: str) -> tuple[str, str]:
    namespace, slash, name = key.partition("/")
    return (namespace, name) if slash else ("", namespace)

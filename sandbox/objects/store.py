"""Where the objects are: encoded JSON in memory, one counter of versions, a bounded history.

An object is kept as the bytes that answers are made of, without ``kind`` and ``apiVersion``
(an answer puts them in front, so every served version of a kind shares one object), plus the
few values that selectors and owners are looked up by. A ``Stored`` never changes, so a list
at an older version is the present state with the history's changes undone.
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

HISTORY = 4000  # changes per resource that a watch can catch up with

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
        """A fresh decode, with ``apiVersion`` and ``kind`` as ``resource`` spells them."""
        decoded: dict[str, Any] = {"kind": resource.kind, "apiVersion": resource.api_version}
        decoded.update(_decode(b"{" + self.body))
        return decoded


class ChangeType(enum.StrEnum):
    """What happened, in the words of a watch."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One write.

    ``stored`` is the state after it; for a deletion the last state, which carries the version
    of the deletion. ``previous`` is None for an object that is new.
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
    """All objects of the cluster. One writer: the event loop that runs the API server."""

    def __init__(self, *, history: int = HISTORY) -> None:
        self._history = history
        self._tables: dict[str, _Table] = {}
        self._owned: dict[str, set[tuple[str, str]]] = {}
        self._version = 0
        self._compacted = 0  # what happened up to this version is forgotten
        self._restarted = 0  # and no watch can begin before this one

    @property
    def version(self) -> int:
        """The version of the latest write."""
        return self._version

    def get(self, resource: Resource, namespace: str, name: str) -> Stored | None:
        """The object now; ``namespace`` is empty for resources of the cluster."""
        return self._table(resource).items.get(_key(namespace, name))

    def list(self, resource: Resource, namespace: str = "") -> list[Stored]:
        """The objects now, ordered by namespace and name; no namespace means all of them."""
        table = self._table(resource)
        keys = table.keys
        if namespace and resource.namespaced:
            keys = keys[bisect_left(keys, f"{namespace}/") : bisect_left(keys, f"{namespace}0")]
        return [table.items[key] for key in keys]

    def list_at(self, resource: Resource, namespace: str, version: int) -> Sequence[Stored]:
        """The objects as they were at ``version``.

        Raises:
            ApiError: 410, the history no longer reaches back so far, or not yet so far ahead.
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
        """Store a new object and give it a version; ``obj`` is consumed.

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
            ApiError: 404, it isn't there; 409, its version isn't ``expected``.
        """
        table = self._table(resource)
        meta = obj["metadata"]
        key = _key(meta.get("namespace", ""), meta["name"])
        previous = _present(table, key, resource, meta["name"], expected)
        stored = self._stored(resource, obj)
        table.items[key] = stored
        if previous.owners != stored.owners:
            self._disown(resource, key, previous)
            self._own(resource, key, stored)
        table.record(Change(ChangeType.MODIFIED, stored, previous))
        return stored

    def delete(
        self, resource: Resource, namespace: str, name: str, *, expected: int | None = None
    ) -> Stored:
        """Remove an object at once; finalizers and grace are the caller's business.

        Raises:
            ApiError: 404, it isn't there; 409, its version isn't ``expected``.
        """
        table = self._table(resource)
        key = _key(namespace, name)
        previous = _present(table, key, resource, name, expected)
        last = self._stored(resource, previous.object(resource))
        del table.items[key]
        del table.keys[bisect_left(table.keys, key)]
        self._disown(resource, key, previous)
        table.record(Change(ChangeType.DELETED, last, previous))
        return last

    def owned_by(self, uid: str) -> Sequence[tuple[str, str, str]]:
        """Group resource, namespace and name of everything that names ``uid`` as an owner."""
        return [(resource, *_split(key)) for resource, key in sorted(self._owned.get(uid, ()))]

    def changes_since(self, resource: Resource, version: int) -> Iterator[Change]:
        """The changes after ``version``, oldest first.

        Raises:
            ApiError: 410, the history no longer reaches back so far.
        """
        table = self._table(resource)
        floor = max(table.floor, self._restarted)
        if version < floor:
            raise errors.expired(f"too old resource version: {version} ({floor})")
        return iter([c for c in table.history if c.stored.version > version])

    def subscribe(self, resource: Resource, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with every change from now on; returns the way to stop that.

        The listener is called within the write, so it may neither wait nor write.
        """
        listeners = self._table(resource).listeners
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    def compact(self) -> None:
        """Forget the history: watches and pages from before have to list again (410)."""
        self._compacted = self._version
        for table in self._tables.values():
            table.history.clear()
            table.floor = self._version

    def restart(self) -> None:
        """Forget what only watches need, as a restarted API server does.

        Its watch cache begins with the state that it finds, so that who has seen less has to
        list again; pages are read from etcd, and go on.
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


def _present(
    table: _Table, key: str, resource: Resource, name: str, expected: int | None
) -> Stored:
    """What is to be replaced or removed: it must be there, in the expected version."""
    present = table.items.get(key)
    if present is None:
        raise errors.not_found(resource, name)
    if expected is not None and expected != present.version:
        raise errors.conflict(resource, name)
    return present


_COMPUTED: Mapping[str, Callable[[dict[str, Any]], str]] = {
    # An Event's source is the component that reported it, in either generation of the API.
    "source": lambda obj: (
        (obj.get("source") or {}).get("component") or obj.get("reportingComponent") or ""
    ),
    # Unset Booleans select as false.
    "spec.unschedulable": lambda obj: _text((obj.get("spec") or {}).get("unschedulable", False)),
    "spec.hostNetwork": lambda obj: _text((obj.get("spec") or {}).get("hostNetwork", False)),
    "status.replicas": lambda obj: _text((obj.get("status") or {}).get("replicas", 0)),
}


def field_value(obj: dict[str, Any], path: str) -> str:
    """The text that a field selector compares with; what isn't there is empty."""
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

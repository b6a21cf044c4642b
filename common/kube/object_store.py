"""The objects of one kind by namespace and name, with cheap snapshots."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from common.kube.watch import identity
from common.runtime.pausing import pausing

T = TypeVar("T")
Objects = dict[str, dict[str, T]]  # namespace -> name -> object

_SLICE = 1000  # objects processed before other tasks run


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """A change of one object: ``old`` is None if it was added, ``new`` if it was deleted.

    ``last`` is the final state of a deleted object, which may differ from ``old``: a pod can be
    killed and deleted at once. Only a watch reports it; otherwise it is None.
    """

    old: T | None
    new: T | None
    last: T | None = None


class Snapshot(Generic[T]):
    """All objects at one time; later changes don't affect it."""

    __slots__ = ("_objects", "_size")

    def __init__(self, objects: Mapping[str, Mapping[str, T]]) -> None:
        self._objects = objects
        self._size = sum(map(len, objects.values()))

    def get(self, namespace: str, name: str) -> T | None:
        found = self._objects.get(namespace)
        return None if found is None else found.get(name)

    def items(self) -> Iterator[T]:
        """Yield every object, namespace by namespace."""
        for objects in self._objects.values():
            yield from objects.values()

    def in_namespace(self, namespace: str) -> Sequence[T]:
        return tuple(self._objects.get(namespace, {}).values())

    def by_namespace(self) -> Mapping[str, Mapping[str, T]]:
        """Return objects by namespace and name; an unchanged namespace has the same dictionary."""
        return self._objects

    def namespaces(self) -> Sequence[str]:
        """Return the namespaces that have an object."""
        return tuple(self._objects)

    def __len__(self) -> int:
        return self._size


class ObjectStore(Generic[T]):
    """A store of objects that are replaced and never changed.

    Each namespace has one dictionary. Taking a ``snapshot`` marks all dictionaries as shared. The
    first change in a namespace after a snapshot copies that namespace's dictionary; further
    changes don't. So a process that takes one snapshot per cycle copies each dictionary at most
    once per cycle, and any other change costs one dictionary entry.
    ``get`` and ``in_namespace`` read without taking a snapshot.
    """

    def __init__(self) -> None:
        self._objects: Objects[T] = {}
        self._snapshot: Snapshot[T] | None = None
        self._shared: set[str] = set()  # namespaces whose dictionary a snapshot holds

    @property
    def snapshot(self) -> Snapshot[T]:
        """Return all objects now; the same value until something changes."""
        if self._snapshot is None:
            self._shared = set(self._objects)
            self._snapshot = Snapshot(dict(self._objects))
        return self._snapshot

    def get(self, namespace: str, name: str) -> T | None:
        found = self._objects.get(namespace)
        return None if found is None else found.get(name)

    def in_namespace(self, namespace: str) -> Sequence[T]:
        return tuple(self._objects.get(namespace, {}).values())

    async def replace_all(self, items: Sequence[T]) -> Iterator[Change[T]]:
        """Replace all objects by those of a list, and return the differences.

        An object of the same version is kept.
        """
        before = self._objects
        after = await _indexed(items, before)
        self._objects = after
        self._snapshot = None
        self._shared = set()
        return _differences(before, after)

    def put(self, namespace: str, name: str, new: T) -> None:
        """Add an object, or replace the one of this name."""
        self._writable(namespace)[name] = new

    def remove(self, namespace: str, name: str) -> None:
        """Remove an existing object."""
        objects = self._writable(namespace)
        del objects[name]
        if not objects:
            del self._objects[namespace]

    def _writable(self, namespace: str) -> dict[str, T]:
        """Return the namespace's dictionary; copy it if a snapshot shares it."""
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


async def _indexed(items: Sequence[T], before: Objects[T]) -> Objects[T]:
    """Return the objects by namespace and name; keep unchanged objects of ``before``."""
    objects: Objects[T] = {}
    async for item in pausing(items, every=_SLICE):
        namespace, name, version = identity(item)
        known = before.get(namespace, {}).get(name)
        same = known is not None and version and identity(known)[2] == version
        objects.setdefault(namespace, {})[name] = known if same and known is not None else item
    return objects


def _differences(before: Objects[T], after: Objects[T]) -> Iterator[Change[T]]:
    """Yield the differences, deletions first, so that a reused name never exists twice."""
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

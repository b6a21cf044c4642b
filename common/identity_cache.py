"""A cache of results, keyed by the identity of the objects that they were computed from."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class IdentityCache(Generic[T]):
    """A cache of the last ``size`` results of functions of immutable objects.

    Objects of a watch cache are replaced and never changed, so the same object always has the
    same result. The cost of a lookup doesn't depend on the objects' size. An entry references its
    objects, so that their identities can't be reused while the entry exists.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._results: OrderedDict[tuple[int, ...], tuple[tuple[object, ...], T]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._results)

    def get(self, objects: tuple[object, ...], compute: Callable[[], T]) -> T:
        """Return the result for these objects; ``compute`` it if it is not cached.

        Exceptions of ``compute`` are not cached.
        """
        key = tuple(map(id, objects))
        found = self._results.get(key)
        if found is not None:
            self._results.move_to_end(key)
            return found[1]
        result = compute()
        self._results[key] = objects, result
        if len(self._results) > self._size:
            self._results.popitem(last=False)
        return result

"""Results that are found by which objects they were computed from, not by what these contain."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class IdentityCache(Generic[T]):
    """The last ``size`` results of functions of immutable objects, such as those of a watch cache.

    Such objects are replaced and never changed, so the very same object has the same result, and
    looking it up costs nothing however large it is. An entry holds its objects: their identities
    are not given to others while it is there.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._results: OrderedDict[tuple[int, ...], tuple[tuple[object, ...], T]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._results)

    def get(self, objects: tuple[object, ...], compute: Callable[[], T]) -> T:
        """Return the result for these objects; ``compute`` it if it is not there.

        What ``compute`` raises is not kept.
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

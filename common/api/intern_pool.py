"""Sharing of equal parts of many objects in memory.

The pods of a template differ in their names and times, but have the same resources, labels and
owners. Decoded objects never change, so they can share these parts, like interned strings. Callers
can also compare shared parts by identity.
"""

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")

_encoder = msgspec.msgpack.Encoder()


class InternPool(Generic[T]):
    """A pool of values by content: at least the last ``size`` values, at most twice as many.

    A value that leaves the pool stays valid, but new equal values no longer share it.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._recent: dict[bytes, T] = {}
        self._older: dict[bytes, T] = {}

    def __len__(self) -> int:
        return len(self._recent.keys() | self._older.keys())

    def shared(self, value: T) -> T:
        """Return an equal value from the pool; without one, add and return ``value``."""
        try:
            key = _encoder.encode(value)
        except OverflowError:  # a bare number of thirty digits is a quantity, too
            return value
        found = self._recent.get(key)
        if found is not None:
            return found
        found = self._older.pop(key, value)
        if len(self._recent) >= self._size:
            self._older, self._recent = self._recent, {}
        self._recent[key] = found
        return found

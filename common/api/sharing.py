"""Equal parts of many objects, kept in memory once.

The pods of a template differ in their names and times; what they ask for, their labels and their
owners are the same. Decoded objects never change, so they can share such parts, as strings are
interned. Who gets the same part back can also tell by its identity that nothing has changed.
"""

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")

_encoder = msgspec.msgpack.Encoder()


class Pool(Generic[T]):
    """Values by their content; the last ``size`` of them at least, twice as many at most.

    What falls out is no longer shared with newcomers, and that is all.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._recent: dict[bytes, T] = {}
        self._older: dict[bytes, T] = {}

    def __len__(self) -> int:
        return len(self._recent.keys() | self._older.keys())

    def shared(self, value: T) -> T:
        """Return the first value of the same content that is still known; else this one."""
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

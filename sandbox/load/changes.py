"""Changes of the objects of one kind, for watches."""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S")

_KEPT = 200_000  # changes of one resource; older watches must list again


class TooOldError(Exception):
    """The changes since that version were dropped."""


@dataclass(frozen=True, slots=True)
class Change(Generic[S]):
    """One event: its type, its version, and the state of the object."""

    type: str
    version: int
    state: S


class Changes(Generic[S]):
    """The changes of one resource in order, for any number of watches."""

    def __init__(self, *, kept: int = _KEPT) -> None:
        """Keep at most ``kept`` changes."""
        self._most = kept
        self._kept: deque[Change[S]] = deque()
        self._first = 0  # the number of dropped changes
        self._lost = 0  # the version of the last dropped change
        self._grown = asyncio.Event()

    @property
    def end(self) -> int:
        """The position after the last change."""
        return self._first + len(self._kept)

    def add(self, type: str, version: int, state: S) -> None:
        self._kept.append(Change(type, version, state))
        if len(self._kept) > self._most:
            self._lost = self._kept.popleft().version
            self._first += 1
        self._grown.set()
        self._grown = asyncio.Event()

    def after(self, version: int) -> int:
        """Return the position of the first change after a version.

        Raises:
            TooOldError: it was dropped.
        """
        if version < self._lost:
            raise TooOldError
        position = self.end
        for change in reversed(self._kept):
            if change.version <= version:
                break
            position -= 1
        return position

    def read(self, position: int, most: int) -> list[Change[S]]:
        """Return at most ``most`` changes from a position on.

        Raises:
            TooOldError: they were dropped.
        """
        start = position - self._first
        if start < 0:
            raise TooOldError
        return [self._kept[at] for at in range(start, min(start + most, len(self._kept)))]

    async def grown(self, position: int) -> None:
        """Wait until there is a change at a position."""
        while self.end <= position:
            await self._grown.wait()

"""What happened to the objects of one kind, for those who watch them."""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S")

_KEPT = 200_000  # changes of one resource; who is further behind must list again


class TooOldError(Exception):
    """What happened since that version isn't known any more."""


@dataclass(frozen=True, slots=True)
class Change(Generic[S]):
    """One event: its type, its version, and the state of the object to show."""

    type: str
    version: int
    state: S


class Changes(Generic[S]):
    """The changes of one resource in their order; any number of watches read it at their pace."""

    def __init__(self, *, kept: int = _KEPT) -> None:
        """``kept``: how many changes are remembered."""
        self._most = kept
        self._kept: deque[Change[S]] = deque()
        self._first = 0  # how many were dropped
        self._lost = 0  # version of the last one that was dropped
        self._grown = asyncio.Event()

    @property
    def end(self) -> int:
        """The position behind the last change."""
        return self._first + len(self._kept)

    def add(self, type: str, version: int, state: S) -> None:
        self._kept.append(Change(type, version, state))
        if len(self._kept) > self._most:
            self._lost = self._kept.popleft().version
            self._first += 1
        self._grown.set()
        self._grown = asyncio.Event()

    def after(self, version: int) -> int:
        """The position of the first change behind a version.

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
        """At most so many changes from a position on.

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

"""The only module that asks the operating system for the time of day."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """A source of the time of day; waits belong to the event loop, whose time may be another."""

    def now(self) -> datetime:
        """Return the current time, aware and in UTC."""
        ...


class SystemClock:
    """The computer's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251 - this is the one place


class SetBack:
    """Detects that a clock was set back between two looks at it: waits go on, times repeat."""

    _NOTICED = timedelta(seconds=5)  # more than any clock is slowed down by to be put right

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: tuple[datetime, float] | None = None  # the clock, and the event loop's time

    def look(self) -> timedelta:
        """By how much it was put back since the last look; nothing if it wasn't."""
        now, loop = self._clock.now(), asyncio.get_running_loop().time()
        before, self._seen = self._seen, (now, loop)
        if before is None:
            return timedelta()
        behind = before[0] + timedelta(seconds=loop - before[1]) - now
        return behind if behind > self._NOTICED else timedelta()

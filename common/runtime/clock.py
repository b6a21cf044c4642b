"""The clock; only this module reads the operating system's time of day."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """A source of the time of day; waits use the event loop, whose time may differ."""

    def now(self) -> datetime:
        """Return the current time, aware and in UTC."""
        ...


class SystemClock:
    """The computer's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251 - this is the one place


class SetBack:
    """Detects that a clock was set back between two reads, so that timestamps may repeat."""

    _NOTICED = timedelta(seconds=5)  # more than any gradual correction of a clock

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: tuple[datetime, float] | None = None  # the clock, and the event loop's time

    def measure(self) -> timedelta:
        """Return by how much the clock was set back since the last call; zero if it wasn't."""
        now, loop = self._clock.now(), asyncio.get_running_loop().time()
        before, self._seen = self._seen, (now, loop)
        if before is None:
            return timedelta()
        behind = before[0] + timedelta(seconds=loop - before[1]) - now
        return behind if behind > self._NOTICED else timedelta()

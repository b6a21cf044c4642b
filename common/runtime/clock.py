"""The only module that asks the operating system for the time of day."""

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time of day; waits belong to the event loop, whose time it need not share."""

    def now(self) -> datetime:
        """The current time, aware and in UTC."""
        ...


class SystemClock:
    """The computer's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251 - this is the one place

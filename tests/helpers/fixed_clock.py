"""A clock that only a test advances."""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass
class FixedClock:
    """A clock that only a test advances."""

    time: datetime

    def now(self) -> datetime:
        return self.time

    def forward(self, by: timedelta) -> datetime:
        """Advance the clock; return the new time."""
        self.time += by
        return self.time

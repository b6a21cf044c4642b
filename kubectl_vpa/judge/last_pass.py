"""The age of what a component answers."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from common.flags import positive_duration
from common.read_model.page import PassInfo

DEFAULT_INTERVAL = timedelta(minutes=1)
"""The default of ``--updater-interval`` and ``--recommender-interval``."""

_MOST_INTERVALS = 3  # passes may take long, and start late


@dataclass(frozen=True, slots=True, kw_only=True)
class LastPass:
    """The last pass of a component, and its interval between passes."""

    at: datetime  # its start
    duration: timedelta
    interval: timedelta = DEFAULT_INTERVAL

    @classmethod
    def of(cls, info: PassInfo, interval: str) -> Self:
        """Return the pass; ``interval`` is the value of a flag, or empty."""
        try:
            pause = positive_duration(interval)
        except ValueError:
            pause = DEFAULT_INTERVAL
        return cls(at=info.at, duration=timedelta(seconds=info.seconds), interval=pause)

    def is_fresh(self, now: datetime) -> bool:
        """Return whether passes go on: this one isn't older than three later ones may be."""
        return now - self.at <= self.duration + _MOST_INTERVALS * (self.interval + self.duration)

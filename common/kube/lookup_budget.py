"""Time limits for the look-ups of one cycle: a slow custom API delays only its own users."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Self

_LONGEST_LOOKUP = 5.0  # seconds


@dataclass(slots=True)
class LookupBudget:
    """The time budget of look-ups in one cycle, in the event loop's time.

    Look-ups start until ``until``, and callers wait ``each`` seconds at most. The look-ups of one
    namespace take ``share`` seconds in total, so that one tenant can't use all of the time.
    Remaining look-ups wait for the next cycle (X117).
    """

    until: float
    each: float  # seconds
    share: float  # seconds
    _used: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))  # seconds

    @classmethod
    def of_cycle(cls, interval: float) -> Self:
        """Return a budget of half the interval in total, and an eighth of it for each namespace.

        The limit of one look-up is an eighth of the interval, five seconds at most.
        """
        until = asyncio.get_running_loop().time() + interval / 2
        return cls(until, min(interval / 8, _LONGEST_LOOKUP), interval / 8)

    def allows(self, namespace: str) -> bool:
        """Return True if another look-up of the namespace may start."""
        return asyncio.get_running_loop().time() < self.until and self._used[namespace] < self.share

    def charge(self, namespace: str, seconds: float) -> None:
        """Add the time that a look-up took."""
        self._used[namespace] += seconds

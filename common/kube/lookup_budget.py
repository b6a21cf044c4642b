"""Bounds on the look-ups of one cycle, so that a slow custom API delays only its own users."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Self

_LONGEST_LOOKUP = 5.0  # seconds


@dataclass(slots=True)
class LookupBudget:
    """The time that look-ups may take in one cycle; times are those of the event loop.

    Look-ups start until ``until``, and are waited for ``each`` seconds at most. Those of one
    namespace, added up, use ``share`` seconds, so that one tenant can't use up the time of others.
    What is left over waits for the next cycle (X117).
    """

    until: float
    each: float  # seconds
    share: float  # seconds
    _used: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))  # seconds

    @classmethod
    def of_cycle(cls, interval: float) -> Self:
        """Return half of the interval for all namespaces, and an eighth for each of them.

        One look-up is waited for an eighth of the interval, five seconds at most.
        """
        until = asyncio.get_running_loop().time() + interval / 2
        return cls(until, min(interval / 8, _LONGEST_LOOKUP), interval / 8)

    def allows(self, namespace: str) -> bool:
        """Return whether another look-up of the namespace may start."""
        return asyncio.get_running_loop().time() < self.until and self._used[namespace] < self.share

    def charge(self, namespace: str, seconds: float) -> None:
        """Count how long a look-up was waited for."""
        self._used[namespace] += seconds

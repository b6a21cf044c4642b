"""Bounds on the look-ups of one cycle, so that a slow custom API delays only its own users."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Self


@dataclass(slots=True)
class LookupBudget:
    """The time that look-ups may take in one cycle; times are those of the event loop.

    Look-ups start until ``until``. Those of one namespace, added up, use ``share`` seconds at most,
    so that one tenant can't use up everybody's time. What is left over waits for the next cycle
    (X117).
    """

    until: float
    share: float  # seconds
    _used: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))  # seconds

    @classmethod
    def of_cycle(cls, interval: float) -> Self:
        """Return half of the interval for all namespaces, and an eighth for each."""
        return cls(asyncio.get_running_loop().time() + interval / 2, interval / 8)

    def allows(self, namespace: str) -> bool:
        """Return whether another look-up of the namespace may start."""
        return asyncio.get_running_loop().time() < self.until and self._used[namespace] < self.share

    def charge(self, namespace: str, seconds: float) -> None:
        """Count what a look-up took."""
        self._used[namespace] += seconds

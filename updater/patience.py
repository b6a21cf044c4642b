"""How long a pass waits for scale subresources."""

import asyncio
from dataclasses import dataclass
from typing import Self

TOO_SLOW = "no answer in time"
_LONGEST_LOOK_UP = 5.0  # seconds


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a pass waits for scale subresources; what is known already takes no time.

    A custom API that hangs must not stop the updates of everything else.
    """

    each: float  # seconds for one look-up
    until: float  # the event loop's time; from then on nobody is waited for

    @classmethod
    def within(cls, interval: float) -> Self:
        """An eighth of the interval for each, five seconds at most; half of it for all."""
        until = asyncio.get_running_loop().time() + interval / 2
        return cls(min(interval / 8, _LONGEST_LOOK_UP), until)

    def limit(self) -> asyncio.Timeout:
        """Ends the block around a look-up when its time is up."""
        now = asyncio.get_running_loop().time()
        return asyncio.timeout_at(min(now + self.each, self.until))

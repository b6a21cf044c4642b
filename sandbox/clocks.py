"""A clock that can be moved forward and back, as an operator or a wrong time server does."""

from datetime import datetime, timedelta

from common.runtime.clock import Clock


class ShiftedClock:
    """A clock with an offset to another clock.

    Waits use the event loop, so a jump ends no wait. It changes what is stamped and compared
    afterwards: leases, tokens, certificates, ages, decay.
    """

    def __init__(self, base: Clock) -> None:
        self._base = base
        self.ahead = timedelta()  # negative: behind

    @classmethod
    def of(cls, clock: Clock) -> "ShiftedClock":
        """Return ``clock`` if it can be shifted already, so that one shift moves everything."""
        return clock if isinstance(clock, cls) else cls(clock)

    def now(self) -> datetime:
        return self._base.now() + self.ahead

    def jump(self, by: timedelta) -> None:
        """Move the clock forward, or back if ``by`` is negative."""
        self.ahead += by

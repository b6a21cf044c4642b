"""A clock that can be put forward and back, as an operator or a broken time server would."""

from datetime import datetime, timedelta

from common.runtime.clock import Clock


class ShiftedClock:
    """Another clock, and how far this one is ahead of it.

    Waits go by the event loop and not by a clock, so a jump ends no wait: it shows in what is
    stamped and compared from then on (leases, tokens, certificates, ages, decay).
    """

    def __init__(self, base: Clock) -> None:
        self._base = base
        self.ahead = timedelta()  # negative: behind

    @classmethod
    def of(cls, clock: Clock) -> "ShiftedClock":
        """``clock`` itself where it can be shifted already, so that one shift moves everything."""
        return clock if isinstance(clock, cls) else cls(clock)

    def now(self) -> datetime:
        return self._base.now() + self.ahead

    def jump(self, by: timedelta) -> None:
        """Put the clock forward, or back where ``by`` is negative."""
        self.ahead += by

"""A rate limiter: a token bucket with an average rate and a burst."""

import asyncio
import contextlib
from collections import deque

_LOT_SECONDS = 0.2
_SHORTEST = 0.001  # seconds; event loops have no shorter waits
_ROUNDING = 1e-6  # of a token; the maximum rounding error of time differences


class TokenBucket:
    """The arithmetic of a rate limiter, without a clock."""

    def __init__(self, rate: float, burst: float) -> None:
        self.rate = rate  # tokens per second; zero and below: unlimited
        self.burst = max(burst, 1.0)
        self._tokens = self.burst
        self._at: float | None = None  # time of the last call, in seconds

    def try_take(self, now: float) -> bool:
        """Take one token if one is available; return whether it was."""
        if self.rate <= 0:
            return True
        self._refill(now)
        if self._tokens < 1 - _ROUNDING:
            return False
        self._tokens -= 1
        return True

    def seconds_until(self, tokens: float, now: float) -> float:
        """Return the seconds until ``tokens`` are available; at most the burst is possible."""
        if self.rate <= 0:
            return 0.0
        self._refill(now)
        return max(0.0, (tokens - self._tokens) / self.rate)

    def give_back(self) -> None:
        """Return the token of a cancelled caller."""
        self._tokens = min(self.burst, self._tokens + 1)

    def _refill(self, now: float) -> None:
        if self._at is not None:
            self._tokens = min(self.burst, self._tokens + (now - self._at) * self.rate)
        self._at = now


class RateLimiter:
    """A FIFO rate limiter: ``rate`` calls per second, ``burst`` at once.

    Waiting callers proceed in batches, one for each fifth of a second. A process that wakes up for
    each of fifty calls a second uses three times the CPU, because of cold CPU caches
    (benchmarks/README.md).

    A rate of zero or below means no limit. Use an instance in one event loop only.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self._bucket = TokenBucket(rate, burst)
        self._lot = max(1.0, min(self._bucket.burst, rate * _LOT_SECONDS))
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None  # set while callers wait

    async def acquire(self) -> None:
        """Wait for a token; a cancelled caller takes none."""
        loop = asyncio.get_running_loop()
        if not self._waiting and self._bucket.try_take(loop.time()):
            return
        turn = loop.create_future()
        self._waiting.append(turn)
        self._set_timer(loop)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # its token arrived at the same time
                self._bucket.give_back()
            with contextlib.suppress(ValueError):  # already removed
                self._waiting.remove(turn)
            self._end_timer()
            if self._waiting:
                self._set_timer(loop)
            raise

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is None:
            pause = max(_SHORTEST, self._bucket.seconds_until(self._lot, loop.time()))
            self._timer = loop.call_later(pause, self._let_through, loop)

    def _end_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _let_through(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        while self._waiting:
            if self._waiting[0].cancelled():
                self._waiting.popleft()
            elif self._bucket.try_take(now):
                self._waiting.popleft().set_result(None)
            else:
                self._set_timer(loop)
                return

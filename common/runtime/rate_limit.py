"""A token bucket: so many per second on average, so many at once."""

import asyncio


class TokenBucket:
    """The arithmetic of a limiter, without a clock.

    Tokens are promised in the order of the questions: the bucket may go below zero, and
    whoever took it there waits until it would be refilled.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate  # tokens per second; zero and below: unlimited
        self._burst = max(burst, 1.0)
        self._tokens = self._burst
        self._at: float | None = None  # time of the last question, in seconds

    def reserve(self, now: float) -> float:
        """Take one token; the seconds to wait until it is ours."""
        if self._rate <= 0:
            return 0.0
        self._refill(now)
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate)

    def try_take(self, now: float) -> bool:
        """Take one token if one is there."""
        if self._rate <= 0:
            return True
        self._refill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def give_back(self) -> None:
        """Return a token whose taker went away before its turn."""
        self._tokens = min(self._burst, self._tokens + 1)

    def _refill(self, now: float) -> None:
        if self._at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now


class RateLimiter:
    """Lets callers through at ``rate`` per second, ``burst`` of them at once, first come first.

    A rate of zero or below lets everybody through.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self._bucket = TokenBucket(rate, burst)

    async def acquire(self) -> None:
        """Wait for a token; a caller who is cancelled meanwhile gives it back."""
        wait = self._bucket.reserve(asyncio.get_running_loop().time())
        if wait <= 0:
            return
        try:
            await asyncio.sleep(wait)
        except asyncio.CancelledError:
            self._bucket.give_back()
            raise

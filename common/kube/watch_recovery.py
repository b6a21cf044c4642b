"""Recovery from failed lists and watches: pauses and log lines."""

import asyncio
import logging
import random

from common.errors import (
    DecodeError,
    GoneError,
    KubeError,
    TooManyRequestsError,
    UnreachableError,
)
from common.kube.client import KubeClient

logger = logging.getLogger(__name__)

_SHORTEST_PAUSE = 1.0  # seconds between two attempts
_LONGEST_PAUSE = 30.0
_SPREAD = 1.0  # seconds over which caches spread their first requests to a recovered server


class Recovery:
    """The pauses between the attempts of one cache; logs each change of its state once.

    While the API server is unreachable, which the client logs, a cache waits until any request of
    the process is answered. If the attempt after that fails, the next pause is a full one.
    """

    def __init__(self, client: KubeClient, resource: str) -> None:
        self._client = client
        self._resource = resource
        self._pauses = Pauses(client.rng)
        self._was_away = False  # the last request had no answer
        self._was_woken = False  # from a pause, because the server was back
        self._trouble = ""  # logged last
        self._was_put_off = False  # by a server that asked for a pause

    def works(self) -> None:
        """Note that the server answered without an error."""
        self._was_put_off = False
        if self._trouble:
            self._trouble = ""
            logger.info("following again", extra={"resource": self._resource})

    def used(self) -> None:
        """Note that a watch was successful, so that the next failure has the shortest pause."""
        self._pauses.used()

    async def after_use(self) -> None:
        """Wait after a watch that ended without an error."""
        await asyncio.sleep(self._pauses.after_use())

    async def after_gone(self, error: GoneError) -> None:
        """Wait before listing again, because the last version is too old."""
        self._client.read_failed(self._resource, error.reason)
        extra = {"resource": self._resource}
        logger.info("listing again, what was seen last is too old", extra=extra)
        self._was_answered()
        await self.after_use()

    async def after_failure(self, error: KubeError | DecodeError) -> None:
        """Log a failure, and wait before the next attempt."""
        self._log(error)
        away = isinstance(error, UnreachableError)
        if not away:
            self._was_answered()
        seconds = self._pauses.next(error)
        if not away or self._was_woken:
            self._was_woken = False
            self._was_away = away
            await asyncio.sleep(seconds)
            return
        self._was_away = True
        self._was_woken = await self._client.back_within(seconds)
        if self._was_woken:
            await asyncio.sleep(self._client.rng.uniform(0.0, _SPREAD))

    def _was_answered(self) -> None:
        # After an outage of any length the pauses start with the shortest one again.
        if self._was_away:
            self._was_away = False
            self._pauses.start_over()

    def _log(self, error: KubeError | DecodeError) -> None:
        kind = getattr(error, "reason", "") or type(error).__name__
        self._client.read_failed(self._resource, kind)
        if isinstance(error, TooManyRequestsError) and not self._was_put_off:
            self._was_put_off = True  # not a trouble yet: it also prepares new definitions this way
            return
        if not isinstance(error, UnreachableError) and kind != self._trouble:
            self._trouble = kind
            logger.warning(
                "can't follow the resource, trying again",
                extra={"resource": self._resource, "reason": kind, "error": str(error)},
            )


class Pauses:
    """The pauses between attempts: one second, then twice as long, thirty seconds at most.

    Each has a jitter of half its length, so that a thousand clients don't return at the same time.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._pause = _SHORTEST_PAUSE
        self._was_used = False

    def used(self) -> None:
        """Note that the connection returned data; the next failure has the shortest pause."""
        self._was_used = True
        self.start_over()

    def start_over(self) -> None:
        """Give the next failure the shortest pause."""
        self._pause = _SHORTEST_PAUSE

    def next(self, error: Exception | None = None) -> float:
        """Return the seconds to wait after a failure; no less than the server requests."""
        self._was_used = False
        pause = self._pause * self._rng.uniform(0.5, 1.0)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        hint = getattr(error, "retry_after", None) or 0.0
        return max(pause, min(hint, _LONGEST_PAUSE))

    def after_use(self) -> float:
        """Return the seconds to wait after a watch that ended; none if it returned data."""
        if self._was_used:
            self._was_used = False
            return 0.0
        return self.next()

"""Whether the API server answers; one state for all that use a client."""

import asyncio
import logging

logger = logging.getLogger(__name__)


class Connectivity:
    """Logs once when the API server goes away, and once when it is back."""

    def __init__(self, server: str) -> None:
        self._server = server
        self.reachable = True
        self._back = asyncio.Event()

    def lost(self, error: Exception) -> None:
        """Note that a request had no answer."""
        if self.reachable:
            self.reachable = False
            self._back.clear()
            logger.warning(
                "API server unreachable, trying again until it is back",
                extra={"server": self._server, "error": str(error)},
            )

    def answered(self) -> None:
        """Return a request was answered, whatever the answer."""
        if not self.reachable:
            self.reachable = True
            self._back.set()
            logger.info("API server reachable again", extra={"server": self._server})

    async def back_within(self, seconds: float) -> bool:
        """Wait so long, or until the API server answers again; return whether it did.

        One that isn't known to be away can't come back.
        """
        if self.reachable:
            await asyncio.sleep(seconds)
            return False
        try:
            async with asyncio.timeout(seconds):
                await self._back.wait()
        except TimeoutError:
            return False
        return True

"""The state of the connection to the API server, shared by all users of a client."""

import asyncio
import logging

logger = logging.getLogger(__name__)


class Connectivity:
    """The state of the connection; its changes are logged once."""

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
        """Note that a request was answered, with any status."""
        if not self.reachable:
            self.reachable = True
            self._back.set()
            logger.info("API server reachable again", extra={"server": self._server})

    async def back_within(self, seconds: float) -> bool:
        """Wait at most ``seconds`` until the API server answers again; return whether it does.

        Return False at the end of the wait, too, if no request has failed.
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

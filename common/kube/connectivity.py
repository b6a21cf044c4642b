"""Whether the API server answers; one state for all that use a client."""

import logging

logger = logging.getLogger(__name__)


class Connectivity:
    """Says once when the API server goes away, and once when it is back."""

    def __init__(self, server: str) -> None:
        self._server = server
        self.reachable = True

    def lost(self, error: Exception) -> None:
        """A request found nobody."""
        if self.reachable:
            self.reachable = False
            logger.warning(
                "API server unreachable, trying again until it is back",
                extra={"server": self._server, "error": str(error)},
            )

    def answered(self) -> None:
        """A request was answered, whatever the answer."""
        if not self.reachable:
            self.reachable = True
            logger.info("API server reachable again", extra={"server": self._server})

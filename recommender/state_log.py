"""Log lines for lasting trouble: one when it begins or changes, and one when it is over."""

import logging


class StateLog:
    """The state of one thing when it was last logged."""

    def __init__(self, logger: logging.Logger, *, over: str = "") -> None:
        """Initialize; ``over`` is logged when the trouble is over, nothing if it is empty."""
        self._logger = logger
        self._over = over
        self._state = ""

    def report(self, trouble: str, *, cause: str = "", **extra: object) -> None:
        """Log ``trouble`` if it or its cause changed; an empty text means that it is over."""
        state = f"{trouble} {cause}" if trouble else ""
        if state == self._state:
            return
        self._state = state
        if trouble:
            self._logger.warning(trouble, extra=extra)
        elif self._over:
            self._logger.info(self._over)

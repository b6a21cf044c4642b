"""Logs trouble that lasts: one line when it begins or changes, and one when it is over."""

import logging


class StateLog:
    """The state of one thing, as it was last logged."""

    def __init__(self, logger: logging.Logger, *, over: str = "") -> None:
        """``over`` is logged when there is no trouble any more; empty: nothing is."""
        self._logger = logger
        self._over = over
        self._state = ""

    def report(self, trouble: str, *, cause: str = "", **extra: object) -> None:
        """Log ``trouble`` if it is another one than before, or has another cause; empty: none."""
        state = f"{trouble} {cause}" if trouble else ""
        if state == self._state:
            return
        self._state = state
        if trouble:
            self._logger.warning(trouble, extra=extra)
        elif self._over:
            self._logger.info(self._over)

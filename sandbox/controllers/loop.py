"""A controller's loop: a queue of object keys, workers, and back-off."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from common.errors import ConflictError, DecodeError, KubeError
from sandbox.work_queue import WorkQueue

logger = logging.getLogger(__name__)

Reconcile = Callable[[str, str], Awaitable[float | None]]
"""Reconciles one object by namespace and name.

Returns the seconds after which it must run again; None until the next change.
"""

_FIRST_PAUSE = 0.1  # seconds after the first failure, then twice as long each time
_LONGEST_PAUSE = 60.0


class Loop:
    """Runs ``reconcile`` for every added key, and never twice at the same time for one key.

    Changes of one object within ``settle`` seconds of its last run are handled together. So the
    status of a thousand pods that become ready is not written a thousand times.
    """

    def __init__(
        self, name: str, reconcile: Reconcile, *, workers: int = 4, settle: float = 0.02
    ) -> None:
        self.name = name
        self._reconcile = reconcile
        self._workers = workers
        self._settle = settle
        self._queue = WorkQueue()
        self._failures: dict[str, int] = {}

    def add(self, namespace: str, name: str) -> None:
        self._queue.add(f"{namespace}/{name}")

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._work())

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            key = await self._queue.get()
            try:
                again = await self._reconcile(*key.split("/", 1))
            except (KubeError, DecodeError) as error:
                again = self._back_off(key, error)
            else:
                self._failures.pop(key, None)
            if again is not None:
                self._queue.add_later(key, again)
            loop.call_later(self._settle, self._queue.done, key)

    def _back_off(self, key: str, error: KubeError | DecodeError) -> float:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        if failures == 1 and not isinstance(error, ConflictError):
            logger.warning(
                "object not reconciled, trying again",
                extra={"controller": self.name, "object": key, "error": str(error)},
            )
        return min(_FIRST_PAUSE * 2.0 ** min(failures - 1, 16), _LONGEST_PAUSE)

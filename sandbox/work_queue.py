"""A queue of keys, each at most once, and none processed twice at the same time."""

import asyncio
from collections import deque


class WorkQueue:
    """A queue that returns a key again if it was added while it was processed.

    Source of the idea: k8s.io/client-go util/workqueue.
    """

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._dirty: set[str] = set()  # waiting, or to be processed again
        self._busy: set[str] = set()
        self._filled = asyncio.Event()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def add(self, key: str) -> None:
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._busy:
            self._waiting.append(key)
            self._filled.set()

    def add_later(self, key: str, seconds: float) -> None:
        """Add the key after a delay. This replaces an earlier timer of the key."""
        self.cancel_timer(key)
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(seconds, self._expired, key)

    def cancel_timer(self, key: str) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _expired(self, key: str) -> None:
        del self._timers[key]
        self.add(key)

    async def get(self) -> str:
        """Wait for the next key. Call ``done`` after it is processed."""
        while not self._waiting:
            self._filled.clear()
            await self._filled.wait()
        key = self._waiting.popleft()
        self._dirty.discard(key)
        self._busy.add(key)
        return key

    def done(self, key: str) -> None:
        self._busy.discard(key)
        if key in self._dirty:
            self._waiting.append(key)
            self._filled.set()

    def __len__(self) -> int:
        return len(self._waiting)

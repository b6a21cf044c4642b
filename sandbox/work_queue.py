"""Keys that wait for work, each at most once, and none in two hands at a time."""

import asyncio
from collections import deque


class WorkQueue:
    """A key that is added while it is being worked on comes again afterwards.

    Source of the idea: k8s.io/client-go util/workqueue.
    """

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._dirty: set[str] = set()  # waiting, or to come again
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
        """Add the key after a while; this replaces an earlier plan for it."""
        self.forget_plan(key)
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(seconds, self._planned, key)

    def forget_plan(self, key: str) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _planned(self, key: str) -> None:
        del self._timers[key]
        self.add(key)

    async def get(self) -> str:
        """The next key; ``done`` gives it back."""
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

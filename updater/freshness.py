"""Whether what the caches hold can be believed."""

import asyncio
import math
from collections.abc import Callable

# A cache that lost its watch tries again after half a minute at most.
SETTLING_SECONDS = 30.0
_LOOK_EVERY = 1.0


class Freshness:
    """Believes the caches while the API server answers, and has done so for a while.

    When it comes back, each cache still finishes the pause that it was in; acting on the pods of
    before would be acting blind. ``run`` is an endless background task.
    """

    def __init__(self, reachable: Callable[[], bool]) -> None:
        self._reachable = reachable
        self._lost_at = -math.inf  # on the event loop's clock

    def __call__(self) -> bool:
        self._look()
        return asyncio.get_running_loop().time() - self._lost_at >= SETTLING_SECONDS

    async def run(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(_LOOK_EVERY)

    def _look(self) -> None:
        if not self._reachable():
            self._lost_at = asyncio.get_running_loop().time()

"""Caches that run during a test."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

from common.kube.cache import Cache


@asynccontextmanager
async def following(
    caches: Iterable[Cache[Any]], *beside: Callable[[], Coroutine[Any, Any, None]]
) -> AsyncIterator[None]:
    """Run caches, which are filled first, and the endless tasks ``beside`` them."""
    every = tuple(caches)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run()) for run in (*(one.run for one in every), *beside)]
        try:
            for one in every:
                await one.wait_synced()
            yield
        finally:
            for task in tasks:
                task.cancel()

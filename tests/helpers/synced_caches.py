"""Caches that follow an API server while a test goes on."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

from common.kube.cache import Cache


@asynccontextmanager
async def following(
    caches: Iterable[Cache[Any]], *beside: Callable[[], Coroutine[Any, Any, None]]
) -> AsyncIterator[None]:
    """Have caches filled, and up to date; ``beside`` them other endless tasks run."""
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

"""Long loops that let other tasks run now and then."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")


async def pausing(items: Iterable[T], *, every: int) -> AsyncIterator[T]:
    """Yield the items, with a pause after so many of them."""
    for number, item in enumerate(items):
        if number % every == every - 1:
            await asyncio.sleep(0)
        yield item

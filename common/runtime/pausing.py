"""Long loops with pauses, in which other tasks run."""

import asyncio
from collections.abc import AsyncIterator, Generator, Iterable
from typing import TypeVar

T = TypeVar("T")


async def pausing(items: Iterable[T], *, every: int) -> AsyncIterator[T]:
    """Yield the items, with a pause after each ``every`` of them."""
    for number, item in enumerate(items):
        if number % every == every - 1:
            await asyncio.sleep(0)
        yield item


async def in_steps(steps: Generator[None, None, T]) -> T:
    """Return the result of a computation, with a pause after each of its steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)

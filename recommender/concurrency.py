"""Bounded concurrency: a few workers process things in order."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def run_concurrently(
    things: Iterable[T] | AsyncIterator[T],
    work: Callable[[T], Awaitable[None]],
    *,
    workers: int,
    seconds: float | None = None,
) -> None:
    """Do ``work`` for each thing, with at most ``workers`` at a time.

    Each worker takes the next thing when it is done with the previous one. Each worker takes at
    least one thing; after ``seconds`` it takes no more, and the others stay in ``things``. The
    first failure cancels the rest and is raised in an ``ExceptionGroup``.
    """
    loop = asyncio.get_running_loop()
    deadline = None if seconds is None else loop.time() + seconds
    rest = things if isinstance(things, AsyncIterator) else _iterate(things)
    reading = asyncio.Lock()  # an asynchronous generator allows one reader at a time

    async def take() -> None:
        while True:
            try:
                async with reading:
                    thing = await anext(rest)
            except StopAsyncIteration:
                return
            await work(thing)
            if deadline is not None and loop.time() >= deadline:
                return

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(take())


async def _iterate(things: Iterable[T]) -> AsyncIterator[T]:
    for thing in things:
        yield thing

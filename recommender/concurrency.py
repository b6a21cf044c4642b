"""Bounded concurrency: a few workers process things in their order."""

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

    Things are made one at a time, when a worker asks for the next one. After ``seconds`` no worker
    takes another thing, but each one has taken one at least; the others are left in ``things``.
    The first failure cancels the rest and leaves as an ``ExceptionGroup``.
    """
    loop = asyncio.get_running_loop()
    deadline = None if seconds is None else loop.time() + seconds
    rest = things if isinstance(things, AsyncIterator) else _made(things)
    reading = asyncio.Lock()  # an asynchronous generator has one reader at a time

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


async def _made(things: Iterable[T]) -> AsyncIterator[T]:
    for thing in things:
        yield thing

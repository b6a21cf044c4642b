"""Bounded concurrency: a few workers take what is to be done, in order."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


async def run_concurrently(
    things: Iterable[T],
    work: Callable[[T], Awaitable[None]],
    *,
    workers: int,
    seconds: float | None = None,
) -> bool:
    """Do ``work`` for each thing, by at most ``workers`` at a time; whether all were taken.

    Once ``seconds`` have passed no worker takes another thing; what it has begun it ends,
    and each worker does one thing at least. The first failure cancels the rest and leaves
    as an ``ExceptionGroup``.
    """
    loop = asyncio.get_running_loop()
    deadline = None if seconds is None else loop.time() + seconds
    left = iter(things)
    everything = True

    async def take() -> None:
        nonlocal everything
        for thing in left:
            await work(thing)
            if deadline is not None and loop.time() >= deadline:
                everything = False
                return

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(take())
    return everything or next(left, None) is None


async def spread_as_made(
    things: AsyncIterator[T],
    work: Callable[[T], Awaitable[None]],
    *,
    workers: int,
    seconds: float,
) -> None:
    """The same for things that are made up as they are asked for, one at a time.

    What is left after ``seconds`` is left in ``things``.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    turn = asyncio.Lock()  # an asynchronous generator has one reader at a time

    async def take() -> None:
        while True:
            try:
                async with turn:
                    thing = await anext(things)
            except StopAsyncIteration:
                return
            await work(thing)
            if loop.time() >= deadline:
                return

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(take())


def in_slices(things: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The things in slices, after each of which other tasks may get their turn."""
    for start in range(0, len(things), size):
        yield things[start : start + size]


def in_slices_by_weight(
    things: Sequence[T], size: int, *, weight: Callable[[T], int], most: int
) -> Iterator[Sequence[T]]:
    """The same, where a slice that weighs more than ``most`` is a single thing."""
    begin, total = 0, 0
    for end, thing in enumerate(things):
        own = weight(thing)
        if end > begin and (end - begin == size or total + own > most):
            yield things[begin:end]
            begin, total = end, 0
        total += own
    if begin < len(things):
        yield things[begin:]

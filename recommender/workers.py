"""Bounded concurrency: a few workers take what is to be done, in order."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


async def spread(
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


def sliced(things: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The things in slices, after each of which other tasks may get their turn."""
    for start in range(0, len(things), size):
        yield things[start : start + size]

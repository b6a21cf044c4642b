"""Concurrent execution of the cases that change no component and fill no node.

These cases are marked ``concurrent``, and have no fixture but ``case``. All of them are started
before pytest runs the first one, in the order of the session; then pytest only waits for each
of them.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from time import monotonic
from typing import Any, TypeAlias

import pytest

from e2e.cluster import Case

CaseFactory: TypeAlias = Callable[[pytest.Item], AbstractAsyncContextManager[Case]]
"""Create the namespace of an item's case."""

MAX_CONCURRENT = 8  # more are limited by two CPU cores

_BODY = pytest.StashKey[Callable[..., Any]]()
_RUNNING = pytest.StashKey["Running"]()


@dataclass(eq=False)
class Running:
    """A concurrent case that was started."""

    task: asyncio.Task[None]
    seconds: float = 0  # duration without the wait for the semaphore; 0 until its end
    description: str = ""  # of the cluster, if the case failed


def make_concurrent(item: pytest.Function) -> None:
    """Replace an item's function by one that waits for the task that :func:`running` started."""
    item.stash[_BODY] = item.obj

    async def ended(**_: object) -> None:
        started = item.stash[_RUNNING]
        try:
            await started.task
        finally:
            print(started.description)  # noqa: T201 - shown when a test fails

    item.obj = ended


def is_concurrent(item: pytest.Item) -> bool:
    return _BODY in item.stash


def seconds(item: pytest.Item) -> float | None:
    """Return the duration of a concurrent case; None for other cases."""
    return item.stash[_RUNNING].seconds if _RUNNING in item.stash else None


@contextlib.asynccontextmanager
async def running(items: Sequence[pytest.Item], cases: CaseFactory) -> AsyncIterator[None]:
    """Start the concurrent items; cancel them at the end of the context."""
    slots = asyncio.Semaphore(MAX_CONCURRENT)
    for item in items:
        if isinstance(item, pytest.Function) and is_concurrent(item):
            item.stash[_RUNNING] = Running(asyncio.create_task(_run(item, cases, slots)))
    try:
        yield
    finally:
        tasks = [item.stash[_RUNNING].task for item in items if _RUNNING in item.stash]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _run(item: pytest.Function, cases: CaseFactory, slots: asyncio.Semaphore) -> None:
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    async with slots:
        started, start = item.stash[_RUNNING], monotonic()
        try:
            async with cases(item) as case:
                try:
                    await item.stash[_BODY](case=case, **parameters)
                except BaseException as error:
                    if not isinstance(error, asyncio.CancelledError):
                        started.description = await case.cluster.describe(case.namespace)
                    raise
        finally:
            started.seconds = monotonic() - start

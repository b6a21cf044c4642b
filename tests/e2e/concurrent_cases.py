"""Cases that leave the components alone run side by side: what they do most is wait.

Such a case is marked ``concurrent``, and takes nothing but its ``case`` and its parameters. All of
them are begun before the first one is looked at, in the order of the session; then pytest's turn
of each is to wait for its end.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from time import monotonic
from typing import Any, TypeAlias

import pytest

from e2e.world import Case

Cases: TypeAlias = Callable[[pytest.Item], AbstractAsyncContextManager[Case]]
"""Makes the namespace that an item's case has for itself."""

AT_A_TIME = 8  # more of them, and two cores are what they wait for

_BODY = pytest.StashKey[Callable[..., Any]]()
_RUNNING = pytest.StashKey["Running"]()


@dataclass(eq=False)
class Running:
    """One case that was begun with the others."""

    task: asyncio.Task[None]
    seconds: float = 0  # from its turn to its end; 0 before that
    told: str = ""  # what one wants to see when it has failed


def put_off(item: pytest.Function) -> None:
    """Let an item, once it has its turn, wait for the end of what :func:`begun` began."""
    item.stash[_BODY] = item.obj

    async def ended(**_: object) -> None:
        running = item.stash[_RUNNING]
        try:
            await running.task
        finally:
            print(running.told)  # noqa: T201 - shown when a test fails

    item.obj = ended


def is_put_off(item: pytest.Item) -> bool:
    return _BODY in item.stash


def seconds(item: pytest.Item) -> float | None:
    """How long a case took that ran beside others; None for all others."""
    return item.stash[_RUNNING].seconds if _RUNNING in item.stash else None


@contextlib.asynccontextmanager
async def begun(items: Sequence[pytest.Item], cases: Cases) -> AsyncIterator[None]:
    """Run those of the items that were put off; none outlives the context."""
    room = asyncio.Semaphore(AT_A_TIME)
    for item in items:
        if isinstance(item, pytest.Function) and is_put_off(item):
            item.stash[_RUNNING] = Running(asyncio.create_task(_run(item, cases, room)))
    try:
        yield
    finally:
        tasks = [item.stash[_RUNNING].task for item in items if _RUNNING in item.stash]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _run(item: pytest.Function, cases: Cases, room: asyncio.Semaphore) -> None:
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    async with room:
        running, start = item.stash[_RUNNING], monotonic()
        try:
            async with cases(item) as case:
                await _carried_out(item, case, running, parameters)
        finally:
            running.seconds = monotonic() - start


async def _carried_out(
    item: pytest.Function, case: Case, running: Running, parameters: dict[str, Any]
) -> None:
    try:
        await item.stash[_BODY](case=case, **parameters)
    except BaseException as error:
        if not isinstance(error, asyncio.CancelledError):
            running.told = await case.world.describe(case.namespace)
        raise

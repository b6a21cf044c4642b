"""A deadline that costs nothing where nobody waits."""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Await ``work`` for so long at most, counted from where it first has to wait.

    Look-ups in caches hardly ever wait, and a timer for each would take a tenth of the time that
    a review takes.

    Raises:
        TimeoutError: it took longer, and was cancelled.
    """
    steps = work.__await__()
    try:
        waits_for = next(steps)
    except StopIteration as done:
        result: T = done.value
        return result
    async with asyncio.timeout(seconds):
        return await _Rest(steps, waits_for)


class _Rest(Generic[T]):
    """What is left of a coroutine that was begun: it waits for what it said it would."""

    def __init__(self, steps: Generator[Any, Any, T], waits_for: Any) -> None:
        self._steps = steps
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, T]:
        try:
            yield self._waits_for
        except BaseException as error:  # noqa: BLE001 - of any kind; it is the coroutine's
            try:
                self._waits_for = self._steps.throw(error)
            except StopIteration as done:
                result: T = done.value
                return result
            return (yield from self.__await__())
        return (yield from self._steps)

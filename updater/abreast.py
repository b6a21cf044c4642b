"""Several pods at a time, in their order, each within the budget of its group."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Hashable, Iterable
from typing import Any, TypeAlias, TypeVar

from updater.decision import Decision, Reason

T = TypeVar("T")

Begin: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
"""Takes an item's part of the budget at once, and returns what remains to be awaited.

That gives the part back, if nothing comes of it.
"""


async def act_abreast(
    items: Iterable[T],
    *,
    lane: Callable[[T], Hashable],
    decide: Callable[[T], Decision | Begin],
    settle: Callable[[T, Decision], None],
) -> None:
    """Decide on one item after the other, and act without waiting for the last one's answer.

    Items of one ``lane`` share a budget. One for which nothing is left waits while something is
    under way in its lane, and is decided on again afterwards; all others are begun, or settled,
    at once.

    Returns when everything that was begun has ended.
    """
    under_way: Counter[Hashable] = Counter()
    waiting: dict[Hashable, deque[T]] = {}

    async with asyncio.TaskGroup() as tasks:

        def consider(item: T) -> bool:
            """False if the item has to wait for what is under way."""
            decided, where = decide(item), lane(item)
            if not isinstance(decided, Decision):
                under_way[where] += 1
                tasks.create_task(finish(decided(), where))
                return True
            if decided.reason is Reason.BUDGET_EXHAUSTED and under_way[where]:
                return False
            settle(item, decided)
            return True

        async def finish(acting: Coroutine[Any, Any, None], where: Hashable) -> None:
            await acting
            under_way[where] -= 1
            queue = waiting.get(where)
            while queue and consider(queue[0]):
                queue.popleft()

        for item in items:
            where = lane(item)
            if waiting.get(where) or not consider(item):
                waiting.setdefault(where, deque()).append(item)

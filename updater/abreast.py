"""Several pods at a time, in their order, each within what its group and its VPA may lose."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Hashable, Iterable
from typing import Any, Generic, TypeAlias, TypeVar

from common.runtime.object_errors import Boundary
from common.runtime.pausing import pausing
from updater.decision import Decision, Reason

T = TypeVar("T")

Begin: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
"""Takes an item's part of the budget at once, and returns what remains to be awaited.

That gives the part back, if nothing comes of it.
"""

_SLICE = 200  # items before other tasks get their turn

# What may end when something that is under way comes back: in the same lane, or in any.
_USED_UP_BY_LANE = frozenset({Reason.BUDGET_EXHAUSTED, Reason.ROLLOUT_IN_PROGRESS})
_USED_UP_BY_ALL = frozenset({Reason.REPLACEMENT_UNVERIFIED, Reason.ACTUATION_SUSPENDED})


async def act_abreast(
    items: Iterable[T],
    *,
    lane: Callable[[T], Hashable],
    decide: Callable[[T], Decision | Begin],
    settle: Callable[[T, Decision], None],
    around: Callable[[T], Boundary],
) -> None:
    """Decide on one item after the other, and act without waiting for the last one's answer.

    Items of one ``lane`` share a budget, and all of them may share an allowance. One for which
    nothing is left waits while something is under way that uses it up, and is decided on again
    afterwards, before those of its lane that come after it; all others are begun, or settled, at
    once. ``around`` makes the boundary of an item: one that it ends with an error is left out.

    Returns when everything that was begun has ended.
    """
    async with asyncio.TaskGroup() as tasks:
        abreast = _Abreast(tasks, lane, decide, settle, around)
        async for item in pausing(items, every=_SLICE):
            abreast.take(item)


class _Abreast(Generic[T]):
    def __init__(
        self,
        tasks: asyncio.TaskGroup,
        lane: Callable[[T], Hashable],
        decide: Callable[[T], Decision | Begin],
        settle: Callable[[T, Decision], None],
        around: Callable[[T], Boundary],
    ) -> None:
        self._tasks = tasks
        self._around = around
        self._lane = lane
        self._decide = decide
        self._settle = settle
        self._under_way: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[T]] = {}
        self._held_by_all: dict[Hashable, None] = {}  # lanes whose first waits for any, in order

    def take(self, item: T) -> None:
        with self._around(item):
            where = self._lane(item)
            if where in self._waiting or not self._consider(item, where):
                self._waiting.setdefault(where, deque()).append(item)

    def _consider(self, item: T, where: Hashable) -> bool:
        """False if the item has to wait for what is under way."""
        decided: Decision | Begin | None = None
        with self._around(item):
            decided = self._decide(item)
        if decided is None:
            return True
        if not isinstance(decided, Decision):
            self._held_by_all.pop(where, None)
            acting: Coroutine[Any, Any, None] | None = None
            with self._around(item):
                acting = decided()
            if acting is None:
                return True
            self._under_way[where] += 1
            finishing = self._tasks.create_task(self._finish(item, acting, where))
            finishing.add_done_callback(lambda _: acting.close())  # it may end before its begin
            return True
        if decided.reason in _USED_UP_BY_ALL and self._under_way:
            self._held_by_all.setdefault(where)
            return False
        self._held_by_all.pop(where, None)
        if decided.reason in _USED_UP_BY_LANE and where in self._under_way:
            return False
        with self._around(item):
            self._settle(item, decided)
        return True

    async def _finish(self, item: T, acting: Coroutine[Any, Any, None], where: Hashable) -> None:
        with self._around(item):
            await acting
        self._under_way[where] -= 1
        if not self._under_way[where]:
            del self._under_way[where]
        while self._held_by_all:
            first = next(iter(self._held_by_all))
            if not self._go_on(first) and first in self._held_by_all:
                break  # what is left is too little for those behind it, too
        self._go_on(where)

    def _go_on(self, where: Hashable) -> bool:
        """Decide again on those that wait in a lane; whether the first of them waits no more."""
        queue = self._waiting.get(where)
        moved = False
        while queue and self._consider(queue[0], where):
            queue.popleft()
            moved = True
        if not queue:
            self._waiting.pop(where, None)
        return moved

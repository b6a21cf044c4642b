"""Bounded concurrency."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from recommender.concurrency import run_concurrently
from recommender.slices import in_slices, in_slices_by_weight


class Work:
    """Counts how many are at it at the same time."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.now = self.most = 0

    async def __call__(self, thing: int) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        self.done.append(thing)


async def test_everything_is_done_by_a_few() -> None:
    work = Work()
    await run_concurrently(range(10), work, workers=3)
    assert sorted(work.done) == list(range(10))
    assert work.most == 3


async def test_without_time_each_worker_does_one_thing() -> None:
    work = Work()
    await run_concurrently(range(10), work, workers=3, seconds=0.0)
    assert work.done == [0, 1, 2]


class Making:
    """Makes numbers, and remembers how many."""

    def __init__(self) -> None:
        self.made = 0

    async def numbers(self, end: int) -> AsyncIterator[int]:
        while self.made < end:
            self.made += 1
            await asyncio.sleep(0)
            yield self.made


async def test_what_is_made_is_done_before_the_rest_is_made() -> None:
    work, making = Work(), Making()
    made: list[int] = []

    async def note(thing: int) -> None:
        made.append(making.made)
        await work(thing)

    await run_concurrently(making.numbers(10), note, workers=3, seconds=60.0)
    assert sorted(work.done) == list(range(1, 11))
    assert work.most <= 3
    assert made[0] == 1
    assert all(ahead - done <= 3 for done, ahead in enumerate(made, start=1))


async def test_a_slow_one_holds_up_no_other() -> None:
    work, waiting = Work(), asyncio.Event()

    async def first_waits(thing: int) -> None:
        if thing == 1:
            await waiting.wait()
        await work(thing)
        if thing == 9:
            waiting.set()

    await run_concurrently(Making().numbers(9), first_waits, workers=2, seconds=60.0)
    assert work.done == [*range(2, 10), 1]


async def test_what_there_is_no_time_for_is_left_to_the_caller() -> None:
    work, numbers = Work(), Making().numbers(5)
    await run_concurrently(numbers, work, workers=2, seconds=0.0)
    assert work.done == [1, 2]
    assert [thing async for thing in numbers] == [3, 4, 5]


async def test_a_bug_ends_everything() -> None:
    async def fail(thing: int) -> None:
        raise ZeroDivisionError(thing)

    with pytest.raises(ExceptionGroup):
        await run_concurrently(range(3), fail, workers=2)


def test_sliced() -> None:
    assert list(in_slices([1, 2, 3, 4, 5], 2)) == [[1, 2], [3, 4], [5]]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([1] * 7, [[1] * 3, [1] * 3, [1]], id="three at a time"),
        pytest.param([4, 6, 1], [[4, 6], [1]], id="as much as may be"),
        pytest.param([4, 7, 1], [[4], [7, 1]], id="more than may be"),
        pytest.param([2, 50, 2], [[2], [50], [2]], id="one alone is too heavy"),
        pytest.param([50, 60], [[50], [60]], id="and another one"),
        pytest.param([0, 0, 0, 0], [[0, 0, 0], [0]], id="weightless"),
    ],
)
def test_sliced_by_weight(weights: list[int], expected: list[list[int]]) -> None:
    assert list(in_slices_by_weight(weights, 3, weight=lambda own: own, most=10)) == expected

"""Bounded concurrency."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from recommender.concurrency import run_concurrently
from recommender.weighted_slices import in_slices_by_weight


class Work:
    """Records finished items and the maximum number of concurrent calls."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.now = self.most = 0

    async def __call__(self, thing: int) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        self.done.append(thing)


async def test_all_items_are_processed_with_bounded_concurrency() -> None:
    work = Work()
    await run_concurrently(range(10), work, workers=3)
    assert sorted(work.done) == list(range(10))
    assert work.most == 3


async def test_without_time_each_worker_processes_one_item() -> None:
    work = Work()
    await run_concurrently(range(10), work, workers=3, seconds=0.0)
    assert work.done == [0, 1, 2]


class Generator:
    """Generates numbers and counts them."""

    def __init__(self) -> None:
        self.made = 0

    async def numbers(self, end: int) -> AsyncIterator[int]:
        while self.made < end:
            self.made += 1
            await asyncio.sleep(0)
            yield self.made


async def test_items_are_generated_as_workers_become_free() -> None:
    work, generator = Work(), Generator()
    made: list[int] = []

    async def note(thing: int) -> None:
        made.append(generator.made)
        await work(thing)

    await run_concurrently(generator.numbers(10), note, workers=3, seconds=60.0)
    assert sorted(work.done) == list(range(1, 11))
    assert work.most <= 3
    assert made[0] == 1
    assert all(ahead - done <= 3 for done, ahead in enumerate(made, start=1))


async def test_a_slow_item_delays_no_other() -> None:
    work, waiting = Work(), asyncio.Event()

    async def first_waits(thing: int) -> None:
        if thing == 1:
            await waiting.wait()
        await work(thing)
        if thing == 9:
            waiting.set()

    await run_concurrently(Generator().numbers(9), first_waits, workers=2, seconds=60.0)
    assert work.done == [*range(2, 10), 1]


async def test_items_after_the_time_limit_are_left_in_the_iterator() -> None:
    work, numbers = Work(), Generator().numbers(5)
    await run_concurrently(numbers, work, workers=2, seconds=0.0)
    assert work.done == [1, 2]
    assert [thing async for thing in numbers] == [3, 4, 5]


async def test_an_error_is_raised_as_a_group() -> None:
    async def fail(thing: int) -> None:
        raise ZeroDivisionError(thing)

    with pytest.raises(ExceptionGroup):
        await run_concurrently(range(3), fail, workers=2)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        pytest.param([], [], id="empty"),
        pytest.param([1] * 7, [[1] * 3, [1] * 3, [1]], id="three at a time"),
        pytest.param([4, 6, 1], [[4, 6], [1]], id="exactly the maximum weight"),
        pytest.param([4, 7, 1], [[4], [7, 1]], id="above the maximum weight"),
        pytest.param([2, 50, 2], [[2], [50], [2]], id="one item above the maximum weight"),
        pytest.param([50, 60], [[50], [60]], id="two items above the maximum weight"),
        pytest.param([0, 0, 0, 0], [[0, 0, 0], [0]], id="weightless"),
    ],
)
def test_sliced_by_weight(weights: list[int], expected: list[list[int]]) -> None:
    assert list(in_slices_by_weight(weights, 3, weight=lambda own: own, most=10)) == expected

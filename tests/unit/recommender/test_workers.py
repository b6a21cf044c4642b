"""Bounded concurrency."""

import asyncio

import pytest

from recommender.workers import sliced, spread


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
    assert await spread(range(10), work, workers=3)
    assert sorted(work.done) == list(range(10))
    assert work.most == 3


async def test_without_time_each_worker_does_one_thing() -> None:
    work = Work()
    assert not await spread(range(10), work, workers=3, seconds=0.0)
    assert work.done == [0, 1, 2]


async def test_a_bug_ends_everything() -> None:
    async def fail(thing: int) -> None:
        raise ZeroDivisionError(thing)

    with pytest.raises(ExceptionGroup):
        await spread(range(3), fail, workers=2)


def test_sliced() -> None:
    assert list(sliced([1, 2, 3, 4, 5], 2)) == [[1, 2], [3, 4], [5]]

"""The work queue: each key at most once, none in two hands, plans that can be replaced."""

import asyncio

from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock
from sandbox.work_queue import WorkQueue


async def test_a_key_waits_only_once() -> None:
    queue = WorkQueue()
    for key in ("a", "b", "a"):
        queue.add(key)
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


async def test_a_key_that_is_worked_on_comes_again_afterwards() -> None:
    queue = WorkQueue()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


def test_a_later_plan_replaces_an_earlier_one() -> None:
    async def main(clock: VirtualClock) -> float:
        queue = WorkQueue()
        loop = asyncio.get_running_loop()
        queue.add_later("a", 5)
        queue.add_later("a", 30)
        await queue.get()
        return loop.time()

    assert virtual_time.run(main) == 30


def test_a_forgotten_plan_never_comes() -> None:
    async def main(clock: VirtualClock) -> int:
        queue = WorkQueue()
        queue.add_later("a", 5)
        queue.forget_plan("a")
        await asyncio.sleep(10)
        return len(queue)

    assert virtual_time.run(main) == 0

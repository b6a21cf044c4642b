"""The work queue: each key is queued and processed once at a time, and plans are replaced."""

import asyncio

from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock
from sandbox.work_queue import WorkQueue


async def test_a_key_is_queued_once() -> None:
    queue = WorkQueue()
    for key in ("a", "b", "a"):
        queue.add(key)
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


async def test_a_key_that_is_added_while_processed_is_queued_again() -> None:
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


def test_a_forgotten_plan_is_dropped() -> None:
    async def main(clock: VirtualClock) -> int:
        queue = WorkQueue()
        queue.add_later("a", 5)
        queue.cancel_timer("a")
        await asyncio.sleep(10)
        return len(queue)

    assert virtual_time.run(main) == 0

"""A deadline for what may have to wait."""

import asyncio

import pytest

from admission.deadline import within


async def test_what_need_not_wait_is_done_at_once() -> None:
    async def known() -> str:
        return "known"

    assert await within(0.0, known()) == "known"


async def test_what_it_raises_comes_through_before_and_after_a_wait() -> None:
    async def failing(pauses: int) -> str:
        for _ in range(pauses):
            await asyncio.sleep(0)
        raise LookupError("none")

    for pauses in (0, 1, 3):
        with pytest.raises(LookupError):
            await within(10.0, failing(pauses))


async def test_what_has_to_wait_goes_on_when_its_answer_is_there() -> None:
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    again: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def asking() -> str:
        return await answer + await again

    asked = asyncio.create_task(within(10.0, asking()))
    await asyncio.sleep(0)
    answer.set_result("fir")
    await asyncio.sleep(0)
    again.set_result("st")
    assert await asked == "first"


@pytest.mark.parametrize("pauses", [0, 1, 5], ids="after {} pauses".format)
async def test_what_takes_too_long_is_cancelled(pauses: int) -> None:
    ended = []

    async def slow() -> None:
        for _ in range(pauses):
            await asyncio.sleep(0)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # cleaning up may wait as well
            ended.append("cleaned up")

    with pytest.raises(TimeoutError):
        await within(0.01, slow())
    assert ended == ["cleaned up"]


async def test_who_answers_in_spite_of_being_cancelled_has_answered() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "late"
        return ""

    assert await within(0.01, stubborn()) == "late"


async def test_who_is_cancelled_from_outside_is_cancelled() -> None:
    started = asyncio.Event()

    async def waiting() -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(within(10.0, waiting()))
    await started.wait()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

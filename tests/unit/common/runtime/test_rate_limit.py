"""The token bucket, and the queue of callers that wait for tokens."""

import asyncio

import pytest

from common.runtime.rate_limit import RateLimiter, TokenBucket
from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock

# The bucket


def test_the_burst_is_available_at_once_and_further_tokens_at_the_rate() -> None:
    bucket = TokenBucket(rate=10.0, burst=3.0)
    assert [bucket.try_take(100.0) for _ in range(4)] == [True, True, True, False]
    assert bucket.seconds_until(1, 100.0) == pytest.approx(0.1)
    assert bucket.seconds_until(3, 100.1) == pytest.approx(0.2)


def test_tokens_refill_up_to_the_burst() -> None:
    bucket = TokenBucket(rate=10.0, burst=2.0)
    for _ in range(2):
        bucket.try_take(100.0)
    assert [bucket.try_take(1000.0) for _ in range(3)] == [True, True, False]


def test_a_fraction_of_a_token_is_not_available() -> None:
    bucket = TokenBucket(rate=1.0, burst=1.0)
    assert bucket.try_take(0.0)
    assert not bucket.try_take(0.99)
    assert bucket.try_take(1.0)


@pytest.mark.parametrize("rate", [0.0, -1.0])
def test_a_rate_of_zero_or_below_is_no_limit(rate: float) -> None:
    bucket = TokenBucket(rate=rate, burst=1.0)
    assert all(bucket.try_take(0.0) for _ in range(100))
    assert bucket.seconds_until(1, 0.0) == 0.0


def test_a_burst_below_one_counts_as_one() -> None:
    assert TokenBucket(rate=1.0, burst=0.0).try_take(0.0)


# The queue


def acquisition_times(limiter: RateLimiter, callers: int) -> list[float]:
    """Return the times in seconds at which concurrent callers get their tokens."""
    return virtual_time.run(lambda clock: acquire_concurrently(clock, limiter, callers))


async def acquire_concurrently(
    _clock: VirtualClock, limiter: RateLimiter, callers: int
) -> list[float]:
    loop = asyncio.get_running_loop()
    through: list[tuple[int, float]] = []

    async def call(number: int) -> None:
        await limiter.acquire()
        through.append((number, round(loop.time(), 3)))

    async with asyncio.TaskGroup() as group:
        for number in range(callers):
            group.create_task(call(number))
    assert [number for number, _ in through] == list(range(callers)), "first come, first"
    return [when for _, when in through]


@pytest.mark.parametrize(
    ("rate", "burst", "expected"),
    [
        pytest.param(50, 2, [0, 0, 0.04, 0.04, 0.08], id="no batch is larger than the burst"),
        pytest.param(
            50,
            100,
            [0] * 100 + [0.2] * 10 + [0.4] * 10 + [0.6],
            id="a batch every fifth of a second",
        ),
        pytest.param(2, 3, [0, 0, 0, 0.5, 1.0], id="less than one token in a fifth of a second"),
        pytest.param(100, 1, [0, 0.01, 0.02, 0.03], id="a burst of one"),
        pytest.param(0, 1, [0, 0, 0, 0], id="no limit"),
    ],
)
def test_waiting_callers_are_released_in_batches(
    rate: float, burst: float, expected: list[float]
) -> None:
    assert acquisition_times(RateLimiter(rate, burst), len(expected)) == pytest.approx(expected)


@pytest.mark.parametrize("callers", [1, 3, 10])
@pytest.mark.parametrize(("rate", "burst"), [(50, 100), (30, 7), (1000 / 3, 50), (0.7, 1)])
def test_batches_do_not_lower_the_rate(rate: float, burst: float, callers: int) -> None:
    """Each caller acquires again after its token, so that few callers wait at a time."""
    calls = round(burst + 20 * rate)

    async def work(_clock: VirtualClock) -> float:
        limiter = RateLimiter(rate, burst)
        left = iter(range(calls))

        async def call() -> None:
            for _ in left:
                await limiter.acquire()

        async with asyncio.TaskGroup() as group:
            for _ in range(callers):
                group.create_task(call())
        return asyncio.get_running_loop().time()

    assert virtual_time.run(work) == pytest.approx((calls - burst) / rate, rel=0.02)


def test_a_caller_that_leaves_the_queue_takes_no_token() -> None:
    async def work(_clock: VirtualClock) -> float:
        limiter = RateLimiter(rate=0.01, burst=1)
        await limiter.acquire()
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await limiter.acquire()
        await limiter.acquire()
        return asyncio.get_running_loop().time()

    assert virtual_time.run(work) == pytest.approx(100)


@pytest.mark.parametrize("after_token", [False, True], ids=["before its token", "after its token"])
def test_a_caller_that_is_cancelled_with_its_token_passes_it_to_the_next(
    *, after_token: bool
) -> None:
    async def work(_clock: VirtualClock) -> float:
        loop = asyncio.get_running_loop()
        limiter = RateLimiter(rate=0.1, burst=1)
        await limiter.acquire()
        first, second = (asyncio.create_task(limiter.acquire()) for _ in range(2))
        if after_token:
            await asyncio.sleep(0)  # the limiter's timer is older than ours, and goes off first
        loop.call_at(10, first.cancel)
        await second
        assert first.cancelled()
        return loop.time()

    assert virtual_time.run(work) == pytest.approx(10, abs=0.01)

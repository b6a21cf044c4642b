"""The token bucket."""

import asyncio

import pytest

from common.runtime.rate_limit import RateLimiter, TokenBucket


def test_the_burst_goes_through_and_then_it_is_the_rate() -> None:
    bucket = TokenBucket(rate=10.0, burst=3.0)
    waits = [bucket.reserve(100.0) for _ in range(5)]
    assert waits == pytest.approx([0.0, 0.0, 0.0, 0.1, 0.2])


def test_tokens_come_back_up_to_the_burst() -> None:
    bucket = TokenBucket(rate=10.0, burst=2.0)
    for _ in range(4):
        bucket.reserve(100.0)
    assert bucket.reserve(100.3) == pytest.approx(0.0)
    assert [bucket.reserve(1000.0) for _ in range(3)] == pytest.approx([0.0, 0.0, 0.1])


def test_try_take_does_not_go_into_debt() -> None:
    bucket = TokenBucket(rate=1.0, burst=1.0)
    assert bucket.try_take(0.0)
    assert not bucket.try_take(0.99)
    assert bucket.try_take(1.0)


@pytest.mark.parametrize("rate", [0.0, -1.0])
def test_a_rate_of_zero_or_below_is_no_limit(rate: float) -> None:
    bucket = TokenBucket(rate=rate, burst=1.0)
    assert [bucket.reserve(0.0) for _ in range(100)] == [0.0] * 100
    assert bucket.try_take(0.0)


def test_a_burst_below_one_still_lets_one_through() -> None:
    assert TokenBucket(rate=1.0, burst=0.0).reserve(0.0) == 0.0


async def test_who_leaves_the_queue_gives_the_token_back() -> None:
    limiter = RateLimiter(rate=0.001, burst=1.0)
    await limiter.acquire()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await limiter.acquire()
    assert limiter._bucket.reserve(asyncio.get_running_loop().time()) == pytest.approx(
        1000.0, rel=0.01
    )

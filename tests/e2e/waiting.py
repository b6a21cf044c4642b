"""Waits for a condition of a cluster."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from common.errors import KubeError

T = TypeVar("T")

_POLL_INTERVAL = 0.2  # seconds


async def wait_for(
    condition: Callable[[], Awaitable[T]], description: str, *, seconds: float = 60
) -> T:
    """Wait until a condition is true, and return its value.

    An unreachable API server counts as false.

    Raises:
        AssertionError: the condition was false until the timeout; the message contains
            the description.
    """
    found: object = None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                try:
                    if answer := await condition():
                        return answer
                    found = answer
                except (KubeError, ConnectionError) as error:
                    found = error
                await asyncio.sleep(_POLL_INTERVAL)  # other processes set no event here
    raise AssertionError(f"after {seconds:.0f} s not yet: {description}; last seen: {found!r}")

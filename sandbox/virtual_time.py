"""An event loop without real waiting: when no task is ready, time jumps to the next timer.

A cluster and the project's processes can run on one such loop. A simulated day then takes minutes,
because all waits are timers of the loop and all times come from a clock on it. Rules of the jump:

- Ready callbacks and readable sockets always come first, and take no time.
- While a job of the loop's thread pool runs (a name look-up, a file), time stands still.
- While a socket connects, or the kernel holds unsent bytes of one, the loop waits in real time,
  but at most for :data:`OUTPUT_TIMEOUT`: a peer may not read. Bytes that the kernel has sent over
  the loopback interface have arrived.

No other process may take part: it runs in real time, and this loop would be too fast for it.
"""

import asyncio
import fcntl
import math
import selectors
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from contextvars import Context
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")

OUTPUT_TIMEOUT = 0.1
"""Real seconds. Nagle's algorithm waits for a delayed acknowledgement, which takes 0.04."""

_TICKS = 2**29  # in a second; asyncio runs timers up to a nanosecond early, half of a tick
_SIOCOUTQNSD = 0x894B  # linux/sockios.h
_NOTHING = bytes(4)  # an int of zero
_POLL_INTERVAL = 0.001  # real seconds between two checks for unsent bytes

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""The default start of virtual time."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A selector event loop whose ``time()`` starts at zero and skips idle periods."""

    def __init__(self) -> None:
        self._now = 0.0
        self._threads = 0  # jobs of the thread pool that are under way
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self._now

    def call_at(  # type: ignore[override]  # typeshed writes it with TypeVarTuples
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Schedule a callback at the next tick, never early.

        A task that is woken early by a rounding error waits again. On other loops time passes
        meanwhile; here it would stand still. Ticks are powers of two, so sums of them are exact.
        """
        return super().call_at(math.ceil(when * _TICKS) / _TICKS, callback, *args, context=context)

    def jump(self, seconds: float) -> None:
        """Advance time. The selector calls this when nothing else can happen."""
        self._now += seconds

    @property
    def waits_for_threads(self) -> bool:
        return self._threads > 0

    def run_in_executor(  # type: ignore[override]  # typeshed writes it with TypeVarTuples
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run a function in a thread. Time stands still until it returns."""
        future: asyncio.Future[T] = super().run_in_executor(executor, func, *args)
        self._threads += 1
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, _future: asyncio.Future[Any]) -> None:
        self._threads -= 1


class _JumpingSelector(selectors.BaseSelector):
    """The system's selector, but a timeout takes no real time."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop
        self._real = selectors.DefaultSelector()
        # Kept separately, because scanning the map of keys before every jump is slow.
        self._writers: set[int] = set()  # descriptors that connect, or wait to write
        self._senders: set[int] = set()  # descriptors whose unsent bytes the kernel reports

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._real.register(fileobj, events, data)
        if _reports_unsent(key.fd):
            self._senders.add(key.fd)
        return self._track(key)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        key = self._real.unregister(fileobj)
        self._senders.discard(key.fd)
        self._writers.discard(key.fd)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._track(self._real.modify(fileobj, events, data))

    def _track(self, key: selectors.SelectorKey) -> selectors.SelectorKey:
        if key.events & selectors.EVENT_WRITE:
            self._writers.add(key.fd)
        else:
            self._writers.discard(key.fd)
        return key

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Poll, wait for pending output, then jump.

        Without a timer (``timeout`` is None), and while a thread works, there is no time to jump
        to, so the wait is real.
        """
        found = self._real.select(0)
        if found or timeout == 0:
            return found
        if timeout is None or self._loop.waits_for_threads:
            return self._real.select(None)
        give_up = time.perf_counter() + OUTPUT_TIMEOUT
        while self._has_pending_output() and time.perf_counter() < give_up:
            found = self._real.select(_POLL_INTERVAL)
            if found:
                return found
        found = self._real.select(0)
        if not found:
            self._loop.jump(timeout)
        return found

    def _has_pending_output(self) -> bool:
        """Return True if a socket connects or has unsent bytes.

        The kernel holds bytes for Nagle's algorithm, or because the peer's buffer is full.
        """
        return bool(self._writers) or any(
            fcntl.ioctl(descriptor, _SIOCOUTQNSD, _NOTHING) != _NOTHING
            for descriptor in self._senders
        )

    def close(self) -> None:
        self._real.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()


def _reports_unsent(descriptor: int) -> bool:
    """Return True if the kernel counts unsent bytes. Linux does for connected sockets."""
    try:
        fcntl.ioctl(descriptor, _SIOCOUTQNSD, _NOTHING)
    except OSError:
        return False
    return True


class VirtualClock:
    """A clock on a virtual-time loop: ``epoch`` plus the loop's time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, epoch: datetime = EPOCH) -> None:
        self._loop = loop
        self._epoch = epoch

    def now(self) -> datetime:
        return self._epoch + timedelta(seconds=self._loop.time())


def run(main: Callable[[VirtualClock], Coroutine[Any, Any, T]], *, epoch: datetime = EPOCH) -> T:
    """Run ``main(clock)`` on a fresh virtual-time loop and return its result."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main(VirtualClock(runner.get_loop(), epoch)))

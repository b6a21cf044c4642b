"""An event loop without real waiting: when no task is ready, time jumps to the next timer.

A whole cluster and our processes can run on one such loop, and a simulated day passes in
minutes, because every wait of theirs is a timer of the loop and every time of day comes from a
clock on it. The rules of the jump:

- ready callbacks and readable sockets always go first, and cost no time at all;
- while a job of the loop's thread pool is under way (a name look-up, a file), time stands still;
- while a socket connects, or the kernel holds bytes back that were written to one, the loop
  waits, really, but no longer than :data:`PATIENCE`: a peer may not want to read. What the
  kernel has sent over the loopback interface has arrived.

Nothing outside the process may take part: another process lives in real time, and to it this
loop would seem to hurry.
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

PATIENCE = 0.1
"""Real seconds; a delayed acknowledgement, for which Nagle's algorithm waits, takes 0.04."""

_TICKS = 2**29  # in a second; asyncio runs timers up to a nanosecond early, half of a tick
_SIOCOUTQNSD = 0x894B  # linux/sockios.h
_NOTHING = bytes(4)  # an int of zero
_GLANCE = 0.001  # real seconds between two looks at bytes on their way

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""When virtual time starts, unless told otherwise."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A selector event loop whose ``time()`` starts at zero and jumps over idle stretches."""

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
        """As usual, but never early: at the next tick.

        A task that is woken early by a rounding error waits again. Elsewhere time passes
        meanwhile; here it would stand still. Ticks are powers of two, so sums of them are exact.
        """
        return super().call_at(math.ceil(when * _TICKS) / _TICKS, callback, *args, context=context)

    def jump(self, seconds: float) -> None:
        """Move time on; called by the selector when nothing else can happen."""
        self._now += seconds

    @property
    def waits_for_threads(self) -> bool:
        return self._threads > 0

    def run_in_executor(  # type: ignore[override]  # typeshed writes it with TypeVarTuples
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """As usual; time stands still until the job is done."""
        future: asyncio.Future[T] = super().run_in_executor(executor, func, *args)
        self._threads += 1
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, _future: asyncio.Future[Any]) -> None:
        self._threads -= 1


class _JumpingSelector(selectors.BaseSelector):
    """The system's selector, except that a timeout passes in no time."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop
        self._real = selectors.DefaultSelector()
        # Kept beside the map of keys, which is slow to go through before every jump.
        self._writers: set[int] = set()  # descriptors that connect, or wait to write
        self._senders: set[int] = set()  # whose unsent bytes the kernel reports

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._real.register(fileobj, events, data)
        if _can_tell(key.fd):
            self._senders.add(key.fd)
        return self._noted(key)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        key = self._real.unregister(fileobj)
        self._senders.discard(key.fd)
        self._writers.discard(key.fd)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._noted(self._real.modify(fileobj, events, data))

    def _noted(self, key: selectors.SelectorKey) -> selectors.SelectorKey:
        if key.events & selectors.EVENT_WRITE:
            self._writers.add(key.fd)
        else:
            self._writers.discard(key.fd)
        return key

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Poll; wait for what is on its way; then jump.

        Without a timer (``timeout`` is None), and while a thread works, there is nowhere to
        jump to, and the wait is a real one.
        """
        found = self._real.select(0)
        if found or timeout == 0:
            return found
        if timeout is None or self._loop.waits_for_threads:
            return self._real.select(None)
        give_up = time.perf_counter() + PATIENCE
        while self._anything_on_its_way() and time.perf_counter() < give_up:
            found = self._real.select(_GLANCE)
            if found:
                return found
        found = self._real.select(0)
        if not found:
            self._loop.jump(timeout)
        return found

    def _anything_on_its_way(self) -> bool:
        """Whether a socket connects, or was given what is not sent yet.

        The kernel holds bytes back for Nagle's algorithm, or because the peer is full.
        """
        return bool(self._writers) or any(
            fcntl.ioctl(descriptor, _SIOCOUTQNSD, _NOTHING) != _NOTHING
            for descriptor in self._senders
        )

    def close(self) -> None:
        self._real.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()


def _can_tell(descriptor: int) -> bool:
    """Whether the kernel counts what it has yet to send: Linux does, for connected sockets."""
    try:
        fcntl.ioctl(descriptor, _SIOCOUTQNSD, _NOTHING)
    except OSError:
        return False
    return True


class VirtualClock:
    """The time of day on a virtual-time loop: ``epoch`` plus the loop's time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, epoch: datetime = EPOCH) -> None:
        self._loop = loop
        self._epoch = epoch

    def now(self) -> datetime:
        return self._epoch + timedelta(seconds=self._loop.time())


def run(main: Callable[[VirtualClock], Coroutine[Any, Any, T]], *, epoch: datetime = EPOCH) -> T:
    """Run ``main(clock)`` on a fresh virtual-time loop and return its result."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main(VirtualClock(runner.get_loop(), epoch)))

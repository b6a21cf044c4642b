"""The life of a process: one loop, its background, and the signals that end it."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeAlias

import uvloop

from common.errors import ConfigError, LeadershipLostError

Background: TypeAlias = Callable[[], Awaitable[None]]

# For the present cycle, once a signal came. Together with what follows (a Lease that is given
# back, Events that wait) it stays below five seconds.
_GRACE_SECONDS = 2.0


async def serve(
    main: Callable[[asyncio.Event], Awaitable[None]],
    *,
    background: tuple[Background, ...] = (),
) -> None:
    """Run ``main`` until SIGTERM or SIGINT, and ``background`` exactly as long.

    A signal sets the event that ``main`` receives; ``main`` finishes the present cycle
    and returns, and then the background is cancelled. The first failure anywhere
    cancels everything else and leaves as an ``ExceptionGroup``.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_endless(run)) for run in background]
            await main(stop)
            for task in tasks:
                task.cancel()
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


class Pause(Protocol):
    """Waits until the event loop's time ``due``, until ``stop`` is set, or as it sees fit."""

    async def __call__(self, due: float, *, stop: asyncio.Event) -> None: ...


async def pause_until(due: float, *, stop: asyncio.Event) -> None:
    """Wait until the event loop's time ``due``, or until ``stop`` is set."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(due):
            await stop.wait()


async def every(
    seconds: float, cycle: Background, *, stop: asyncio.Event, rest: Pause = pause_until
) -> None:
    """Start ``cycle`` every ``seconds``; one that overruns delays the next, never overlaps it.

    ``rest`` is what happens in between; it may end sooner, and the next cycle then begins sooner.

    Once ``stop`` is set, the present cycle has two seconds left, and then it is cancelled: a
    call that hangs must not delay the end of the process.
    """
    loop = asyncio.get_running_loop()
    while not stop.is_set():
        due = loop.time() + seconds
        await _with_grace(cycle, stop=stop)
        await rest(due, stop=stop)


async def unless_stopped(work: Background, *, stop: asyncio.Event) -> bool:
    """Do ``work``, but leave it once ``stop`` is set; return whether it was done.

    For what has no end of its own: waiting for caches to fill, or for a Lease.
    """
    async with asyncio.TaskGroup() as group:
        task = group.create_task(_as_coroutine(work))
        stopped = group.create_task(stop.wait())
        await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
        done = task.done()
        task.cancel()
        stopped.cancel()
    return done


def run(program: str, main: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Run a program to its end on an event loop of uvloop; the exit code.

    ``main`` reads the flags and returns the coroutine to run. What an operator can put
    right (ConfigError) is one line on standard error and exit code 2; a lost Lease is one
    line and exit code 1. Any other exception is a bug and shows its traceback.
    """
    code = 0
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main())
    except* ConfigError as group:
        code = _complain(program, group, code=2)
    except* LeadershipLostError as group:
        code = _complain(program, group, code=1)
    except* KeyboardInterrupt:
        pass  # before ``serve`` had taken over the signal; nothing had begun
    return code


def _complain(program: str, group: BaseExceptionGroup[Any], *, code: int) -> int:
    for error in leaves(group):
        sys.stderr.write(f"{program}: {' '.join(str(error).split())}\n")
    return code


def leaves(group: BaseExceptionGroup[Any]) -> list[BaseException]:
    """Return the exceptions of a group and of the groups in it."""
    found: list[BaseException] = []
    for error in group.exceptions:
        found += leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


async def _endless(run: Background) -> None:
    """Run a task that must not return: a watch that ended would leave a stale cache."""
    await run()
    raise RuntimeError(f"background task ended: {run!r}")


async def _with_grace(work: Background, *, stop: asyncio.Event) -> None:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(_as_coroutine(work))

        async def watch() -> None:
            await stop.wait()
            await asyncio.wait({task}, timeout=_GRACE_SECONDS)
            task.cancel()

        watcher = group.create_task(watch())
        await asyncio.wait({task})
        watcher.cancel()


async def _as_coroutine(work: Background) -> None:
    await work()

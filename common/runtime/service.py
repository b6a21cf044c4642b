"""The life cycle of a process: its loop, background tasks, and termination signals."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeAlias

import uvloop

from common.errors import ConfigError, LeadershipLostError

Background: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

# Seconds for the current cycle after a signal. With the steps after it (releasing the Lease,
# sending queued Events) the total stays below five seconds.
_GRACE_SECONDS = 2.0


async def serve(
    main: Callable[[asyncio.Event], Awaitable[None]],
    *,
    background: tuple[Background, ...] = (),
) -> None:
    """Run ``main`` until SIGTERM or SIGINT, and ``background`` for the same time.

    A signal sets the event that ``main`` receives; ``main`` finishes the current cycle
    and returns, and then the background is cancelled. The first failure of any task
    cancels all other tasks and is raised in an ``ExceptionGroup``.
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
    """A wait until the event loop's time ``due``, until ``stop`` is set, or until earlier work."""

    async def __call__(self, due: float, *, stop: asyncio.Event) -> None: ...


async def pause_until(due: float, *, stop: asyncio.Event) -> None:
    """Wait until the event loop's time ``due``, or until ``stop`` is set."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(due):
            await stop.wait()


async def every(
    seconds: float, cycle: Background, *, stop: asyncio.Event, rest: Pause = pause_until
) -> None:
    """Start ``cycle`` every ``seconds``; an overrun delays the next one, without overlap.

    ``rest`` waits between cycles; if it ends early, the next cycle starts early.

    When ``stop`` is set, the current cycle is cancelled after two seconds, so that a hanging call
    can't delay the end of the process.
    """
    loop = asyncio.get_running_loop()
    while not stop.is_set():
        due = loop.time() + seconds
        await unless_stopped(cycle, stop=stop, grace=_GRACE_SECONDS)
        await rest(due, stop=stop)


async def unless_stopped(work: Background, *, stop: asyncio.Event, grace: float = 0.0) -> bool:
    """Do ``work``, but cancel it ``grace`` seconds after ``stop``; return whether it finished.

    Without ``grace`` it is for waits without a time limit, such as for a Lease.
    """
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work())
        stopped = group.create_task(stop.wait())
        await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait((task,), timeout=grace)
        done = task.done()
        task.cancel()
        stopped.cancel()
    return done


def run(program: str, main: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Run a program on an event loop of uvloop; return its exit code.

    ``main`` reads the flags and returns the coroutine to run. A ConfigError,
    which an operator can fix, prints one line on standard error and has exit code 2; a lost
    Lease prints one line and has exit code 1. Any other exception is a bug and prints its
    traceback.
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
        pass  # before ``serve`` handles the signal, when nothing has started
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
    """Run a task that must not return: without its watch a cache would be stale."""
    await run()
    raise RuntimeError(f"background task ended: {run!r}")

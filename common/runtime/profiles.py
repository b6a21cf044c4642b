"""Profiles of the running process, for ``--profiling``."""

import cProfile
import io
import pstats
import tracemalloc
from collections.abc import Awaitable, Callable

LONGEST = 300.0  # seconds

Wait = Callable[[], Awaitable[object]]
_ROWS = 60


class BusyError(Exception):
    """Another profile is being taken; the interpreter allows one at a time."""


async def cpu_profile(wait: Wait) -> str:
    """Return the CPU profile of the event loop's thread during ``wait``, as a table of functions.

    Raises:
        BusyError: another profile is being taken.
    """
    profile = cProfile.Profile()
    try:
        profile.enable()
    except ValueError as error:
        raise BusyError(str(error)) from error
    try:
        await wait()
    finally:
        profile.disable()
    text = io.StringIO()
    pstats.Stats(profile, stream=text).strip_dirs().sort_stats("cumulative").print_stats(_ROWS)
    return text.getvalue()


async def heap_growth(wait: Wait) -> str:
    """Return the growth of memory during ``wait`` by line of code, largest first.

    Raises:
        BusyError: another profile is being taken.
    """
    if tracemalloc.is_tracing():
        raise BusyError("memory is being traced already")
    tracemalloc.start()
    try:
        before = tracemalloc.take_snapshot()
        await wait()
        growth = tracemalloc.take_snapshot().compare_to(before, "lineno")
    finally:
        tracemalloc.stop()
    return "\n".join(str(line) for line in growth[:_ROWS]) + "\n"

"""The logs of containers: one file for each run, each line with its time.

The format is that of the container runtimes: ``2026-01-02T15:04:05.000000Z stdout F text``.
Standard output and error share one pipe to keep their order.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from common.runtime.clock import Clock
from sandbox.times import micro_time

_POLL_INTERVAL = 0.2  # seconds between two reads of a log that is followed
_LONGEST = 16 * 1024  # bytes of one line; runtimes also split longer ones


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """The options of ``kubectl logs``."""

    tail: int | None = None  # lines
    since: datetime | None = None
    timestamps: bool = False
    follow: bool = False
    limit: int | None = None  # bytes


async def keep(stream: asyncio.StreamReader, path: Path, clock: Clock) -> None:
    """Write ``stream`` into a new file until it ends."""
    with _created(path) as log:
        rest = b""
        while chunk := await stream.read(_LONGEST):
            *lines, rest = (rest + chunk).split(b"\n")
            _write(log, clock, lines)
            if len(rest) >= _LONGEST:
                _write(log, clock, [rest])
                rest = b""
        if rest:
            _write(log, clock, [rest])


def complain(path: Path, text: str, clock: Clock) -> None:
    """Create a log of one line for a container that could not be started."""
    with _created(path) as log:
        _write(log, clock, [" ".join(text.split()).encode()])


def _created(path: Path) -> BinaryIO:
    path.touch(mode=0o600)
    return path.open("wb")


def _write(log: BinaryIO, clock: Clock, lines: list[bytes]) -> None:
    head = f"{micro_time(clock.now())} stdout F ".encode()
    log.writelines(head + line + b"\n" for line in lines)
    log.flush()


async def read(
    path: Path, options: LogOptions, *, ended: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """Yield the requested lines. A log that is followed ends when ``ended`` returns True."""
    left = options.limit
    with path.open("rb") as log:
        found = [line for line in _whole_lines(log) if _is_since(line, options.since)]
        if options.tail is not None:
            found = found[len(found) - options.tail :] if options.tail < len(found) else found
        while True:
            shown = b"".join(_shown(line, timestamps=options.timestamps) for line in found)
            if left is not None:
                shown = shown[:left]
                left -= len(shown)
            if shown:
                yield shown
            if left == 0 or not options.follow:
                return
            last = ended()  # checked before the last read, so that no line is missed
            found = list(_whole_lines(log))
            if not found and last:
                return
            if not found:
                await asyncio.sleep(_POLL_INTERVAL)


def since_seconds(text: str, now: datetime) -> datetime:
    """Return ``sinceSeconds`` as a time."""
    return now - timedelta(seconds=int(text))


def _whole_lines(log: BinaryIO) -> Iterator[bytes]:
    """Yield the complete lines. An incomplete one is read again later."""
    while line := log.readline():
        if not line.endswith(b"\n"):
            log.seek(-len(line), os.SEEK_CUR)
            return
        yield line


def _is_since(line: bytes, since: datetime | None) -> bool:
    return since is None or datetime.fromisoformat(line.split(b" ", 1)[0].decode()) >= since


def _shown(line: bytes, *, timestamps: bool) -> bytes:
    moment, _stream, _whole, text = line.split(b" ", 3)
    return moment + b" " + text if timestamps else text

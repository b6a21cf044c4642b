"""One run of one container, as a process of this machine."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from common.runtime.clock import Clock
from controlplane import launch
from controlplane.containers import logs

_INHERITED = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "PYTHONPATH")
_DRAIN = 1.0  # seconds for the last lines, once the process is gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The process to start. ``env`` may hold secrets; it and ``argv`` are never logged."""

    argv: Sequence[str] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    folder: Path  # the working directory
    log: Path


class Process:
    """Runs a command in its own session, so that no process is left behind."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._process: asyncio.subprocess.Process | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._unwanted = False

    async def run(self, command: Command, *, beside: Callable[[], Awaitable[None]]) -> int:
        """Start the command, run ``beside`` as long as it runs, and return its exit code.

        The code of a process that a signal ended is 128 plus the signal's number, as in a
        container. A process that was stopped before its start has the code of SIGKILL.
        """
        if self._kept_from_starting():
            return 128 + signal.SIGKILL
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", launch.__file__, str(os.getpid())),
            *command.argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=command.folder,
            env={**inherited, **command.env},
            start_new_session=True,
        )
        self._process = process
        if self._kept_from_starting():
            self.kill()
        output = process.stdout
        if output is None:
            raise RuntimeError("a process without the pipe that was asked for")
        keeping = asyncio.create_task(logs.keep(output, command.log, self._clock))
        helper = asyncio.ensure_future(beside())
        try:
            code = await process.wait()
            self._kill_group()
            await asyncio.wait({keeping}, timeout=_DRAIN)
        except asyncio.CancelledError:
            self.kill()
            await process.wait()
            raise
        finally:
            helper.cancel()
            keeping.cancel()
            if self._stopping is not None:
                self._stopping.cancel()
        return 128 - code if code < 0 else code

    def _kept_from_starting(self) -> bool:
        """Return True if it was stopped before it ran. Checked again after every wait."""
        return self._unwanted

    def stop(self, grace: float, *, after: float = 0) -> None:
        """Send SIGTERM ``after`` seconds, SIGKILL after ``grace``. Only the first call counts."""
        if grace <= 0:
            self.kill()
        elif self._stopping is None:
            self._unwanted = True
            self._stopping = asyncio.create_task(self._stop(grace, min(after, grace)))

    async def _stop(self, grace: float, after: float) -> None:
        await asyncio.sleep(after)
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)
        await asyncio.sleep(grace - after)
        self.kill()

    def kill(self) -> None:
        """Send SIGKILL to all processes of its session."""
        self._unwanted = True
        if self._process is not None and self._process.returncode is None:
            self._kill_group()

    def _kill_group(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

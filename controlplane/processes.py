"""The servers as processes with their output in a file. None is left behind."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import NoReturn

from common.errors import ConfigError, VpaError
from controlplane import launch

_PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST_PORT = 20_000
_USUAL_EPHEMERAL = 32_768  # the default start of the ports of outgoing connections
_TRIES = 1000
_LOG_LINES = 20
_MIB = 1024 * 1024


class ProcessEndedError(VpaError):
    """A server ended unexpectedly; the message holds the end of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUsage:
    """The usage of a server so far; zero except on Linux."""

    cpu_seconds: float  # user and system, since its last start
    memory_mib: float  # resident


class Server:
    """A program that can be started, killed and started again with the same arguments."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name = name
        self._command = tuple(command)
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._started = asyncio.Event()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        """The process ID; 0 if it isn't running."""
        return 0 if self._process is None else self._process.pid

    async def start(self) -> None:
        """Start the process. Its output is appended to its log."""
        with self._log.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", launch.__file__, str(os.getpid())),
                *self._command,
                cwd=self._log.parent,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                # Ctrl-C reaches only this process, which ends the servers in order.
                start_new_session=True,
            )
        self._started.set()

    def end(self) -> None:
        """Kill the process without waiting."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def kill(self) -> None:
        """Kill the process, and return when its ports are free."""
        self.end()
        process, self._process = self._process, None
        self._started.clear()
        if process is not None:
            await process.wait()

    async def watch(self) -> NoReturn:
        """Raise ProcessEndedError when the process ends by itself. Wait while it is killed."""
        while True:
            await self._started.wait()
            process = self._process
            if process is not None:
                await process.wait()
                self.check()
            await asyncio.sleep(0)

    def check(self) -> None:
        """Raise ProcessEndedError if the process has ended by itself."""
        if self._process is not None and self._process.returncode is not None:
            raise ProcessEndedError(
                f"{self.name} ended with exit code {self._process.returncode}; "
                f"{self._log} ends with:\n{tail(self._log)}"
            )

    def usage(self) -> ProcessUsage:
        """Return the usage of the running process."""
        return usage_of(self.pid)


def usage_of(pid: int) -> ProcessUsage:
    """Return the usage of a process since its start; zero if it is gone. Linux only."""
    folder = Path("/proc", str(pid))
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        pages = int((folder / "statm").read_text().split()[1])
    except OSError:
        return ProcessUsage(cpu_seconds=0.0, memory_mib=0.0)
    ticks = int(fields[11]) + int(fields[12])
    return ProcessUsage(
        cpu_seconds=ticks / os.sysconf("SC_CLK_TCK"),
        memory_mib=pages * os.sysconf("SC_PAGE_SIZE") / _MIB,
    )


def tail(log: Path, lines: int = _LOG_LINES) -> str:
    """Return the last lines of a log, indented."""
    text = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(f"    {line}" for line in text[-lines:]) or "    (it wrote nothing)"


def free_ports(count: int) -> list[int]:
    """Return free ports below those of outgoing connections.

    With a port from the ephemeral range, a client that dials a restarting server can connect to
    itself, and the server never gets its port back.

    Raises:
        ConfigError: there are none.
    """
    draw, found = SystemRandom(), set[int]()
    for _ in range(_TRIES):
        if len(found) == count:
            return list(found)
        port = draw.randrange(_LOWEST_PORT, _ephemeral())
        if _is_free(port):
            found.add(port)
    raise ConfigError(f"no free ports between {_LOWEST_PORT} and {_ephemeral()}")


def _ephemeral() -> int:
    try:
        lowest = int(_PORT_RANGE.read_text().split()[0])
    except OSError:
        return _USUAL_EPHEMERAL
    return lowest if lowest > _LOWEST_PORT else _USUAL_EPHEMERAL


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True

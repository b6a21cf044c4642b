"""The servers as processes: started with their output in a file, watched, and never left behind."""

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

_LAUNCHER = Path(__file__).with_name("launch.py")
_PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST_PORT = 20_000
_USUAL_EPHEMERAL = 32_768  # where outgoing connections' ports begin, unless the system says
_TRIES = 1000
_LOG_LINES = 20
_MIB = 1024 * 1024


class ProcessEndedError(VpaError):
    """A server ended that should run on; the message holds the end of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUsage:
    """What a server has used so far; Linux only, elsewhere zero."""

    cpu_seconds: float  # user and system, since its last start
    memory_mib: float  # resident


class Server:
    """One program that can be started, killed and started again with the same arguments."""

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
        """The process's number; 0 when it isn't running."""
        return 0 if self._process is None else self._process.pid

    async def start(self) -> None:
        """Start it; what it says is added to its log."""
        with self._log.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid())),
                *self._command,
                cwd=self._log.parent,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                # Ctrl-C reaches us alone; we end the servers, in order.
                start_new_session=True,
            )
        self._started.set()

    def end(self) -> None:
        """Kill it, and wait for nothing."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def kill(self) -> None:
        """Kill it, and return when its ports are free."""
        self.end()
        process, self._process = self._process, None
        self._started.clear()
        if process is not None:
            await process.wait()

    async def watch(self) -> NoReturn:
        """Raise ProcessEndedError when it ends by itself; wait while it is killed."""
        while True:
            await self._started.wait()
            process = self._process
            if process is not None:
                await process.wait()
                self.check()
            await asyncio.sleep(0)

    def check(self) -> None:
        """Raise ProcessEndedError if it has ended by itself."""
        if self._process is not None and self._process.returncode is not None:
            raise ProcessEndedError(
                f"{self.name} ended with exit code {self._process.returncode}; "
                f"{self._log} ends with:\n{tail(self._log)}"
            )

    def usage(self) -> ProcessUsage:
        """What the running process has used."""
        return usage_of(self.pid)


def usage_of(pid: int) -> ProcessUsage:
    """What a process has used since its start; zero when it is gone. Linux only."""
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
    """The last lines of a log, indented."""
    text = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(f"    {line}" for line in text[-lines:]) or "    (it wrote nothing)"


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on at this moment, below those of outgoing connections.

    From the ephemeral range, a client that dials a server which is being restarted can end up
    connected to itself, and the server never gets its port back.

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

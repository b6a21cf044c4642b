"""The processes of the demo. Each writes its output to a file; they are stopped in order."""

import asyncio
import contextlib
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from common.errors import VpaError
from controlplane.processes import free_ports, tail

STOP_WITHIN = 10.0  # seconds; the processes end within five


class ProcessDiedError(VpaError):
    """A process ended unexpectedly; the message contains the end of its log."""


@dataclass(slots=True)
class Running:
    """One process, its command line and its log file."""

    name: str
    arguments: tuple[str, ...]
    log: Path
    process: asyncio.subprocess.Process

    @property
    def command(self) -> str:
        """Return the command as an operator would type it."""
        return f"python -P -m {shlex.join(self.arguments)}"

    def check(self) -> None:
        """Raise ProcessDiedError if the process has ended."""
        if self.process.returncode is not None:
            raise ProcessDiedError(
                f"{self.name} ended with exit code {self.process.returncode}; its log ends with:\n"
                f"{tail(self.log)}"
            )


@dataclass(slots=True)
class Processes:
    """Starts processes that log to one folder, and stops them in reverse order."""

    folder: Path
    running: list[Running] = field(default_factory=list)

    async def start(self, name: str, arguments: Sequence[str]) -> Running:
        """Run ``python -P -m <arguments>`` with the environment of this process."""
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                # Ctrl-C reaches only the demo, which stops the other processes in order.
                start_new_session=True,
            )
        running = Running(name=name, arguments=tuple(arguments), log=log, process=process)
        self.running.append(running)
        return running

    def check(self) -> None:
        """Raise ProcessDiedError if any process has ended."""
        for running in self.running:
            running.check()

    async def stop(self) -> None:
        """Terminate all processes, the last started first; kill those that don't end in time."""
        while self.running:
            process = self.running.pop().process
            if process.returncode is not None:
                continue
            process.terminate()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_WITHIN):
                    await process.wait()
            if process.returncode is None:
                process.kill()
                await process.wait()


def free_port() -> int:
    """Return a currently free port on loopback that no outgoing connection takes."""
    (port,) = free_ports(1)
    return port

"""Several processes that answer reviews at one port: ``--workers``.

The process that was started becomes a supervisor. It opens the webhook's port and starts workers,
which are the same program with the same flags. All of them accept from that one socket, so a
connection that nobody has taken yet is not lost with the worker that might have. Worker 0 has all
duties that a process alone would have; the others follow the cluster and answer reviews.

A worker holds one end of a pair of sockets, its lifeline. It says there that its flags are good,
and reads from it until the supervisor is gone, however that came about.
"""

import asyncio
import contextlib
import json
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Self

from common.errors import ConfigError, VpaError
from common.runtime import service
from common.runtime.web import listen

logger = logging.getLogger(__name__)

PROGRAM = "vpa-admission-controller"
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds before a worker is started again

_VARIABLE = "VPA_ADMISSION_WORKER"
_COUNTS = "PROMETHEUS_MULTIPROC_DIR"  # the client library's name
_MEMORY = "/dev/shm"  # noqa: S108 - what is made there has a name of its own, and mode 0700
_BAD_FLAGS = 2  # exit code; see common.runtime.service
# From SIGTERM to SIGKILL. Workers promise to end within five seconds, and so do we.
_GRACE_SECONDS = 4.5
_GOOD = b"."


class RefusedError(VpaError):
    """A worker can't use its flags, and has said so in a line of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """What a worker is told by its supervisor; descriptors are those of inherited files."""

    number: int  # 0 has all duties
    again: bool  # another worker of this number has been there before
    listening: int  # descriptor of the webhook's port
    lifeline: int  # descriptor

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Self | None:
        """Read it from the environment; None where nobody supervises."""
        text = environ.get(_VARIABLE)
        return None if text is None else cls(**json.loads(text))

    def environ(self, folder: str) -> dict[str, str]:
        """Write it for the environment; ``folder`` is where all workers count."""
        return {_VARIABLE: json.dumps(asdict(self)), _COUNTS: folder}

    async def until_orphaned(self) -> None:
        """Say that the flags are good, and end this process with its supervisor.

        An endless background task: the end comes as the signal that an operator would send.
        """
        lifeline = socket.socket(fileno=self.lifeline)
        reader, writer = await asyncio.open_unix_connection(sock=lifeline)
        with contextlib.suppress(ConnectionError):
            writer.write(_GOOD)
            await reader.read()
        logger.error("the supervisor is gone, ending")
        shutil.rmtree(os.environ[_COUNTS], ignore_errors=True)  # nobody else is there to do it
        signal.raise_signal(signal.SIGTERM)
        await asyncio.Event().wait()


def pause_after(lived: float, last: float) -> float:
    """Decide how long a worker that ended by itself stays away.

    ``lived`` is how long it ran, ``last`` the pause before that, 0 for none; all in seconds. A
    worker that ends soon is given twice as long each time, up to ``LONGEST_PAUSE``; one that ran
    for longer than that begins anew.
    """
    if lived > LONGEST_PAUSE or last == 0:
        return FIRST_PAUSE
    return min(2 * last, LONGEST_PAUSE)


async def supervise(argv: Sequence[str], *, count: int, port: int) -> None:
    """Run ``count`` workers with the flags ``argv`` until a signal.

    Raises:
        ConfigError: the port can't be listened on, or no temporary files can be written.
        RefusedError: a worker can't use the flags.
    """
    with listen(f":{port}") as listening, _folder() as folder:
        await service.serve(_Supervisor(argv, count, listening, folder).run)


@contextmanager
def _folder() -> Iterator[str]:
    """Where workers count, for a scrape sees them all; in memory, where the system has that.

    A container with a root that is read-only has nothing else.
    """
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    try:
        found = tempfile.mkdtemp(prefix="vpa-admission-", dir=place)
    except OSError as error:
        told = error.strerror or str(error)
        raise ConfigError(f"--workers needs a folder for temporary files: {told}") from error
    try:
        yield found
    finally:
        shutil.rmtree(found, ignore_errors=True)


class _Supervisor:
    def __init__(
        self, argv: Sequence[str], count: int, listening: socket.socket, folder: str
    ) -> None:
        self._command = (sys.executable, "-P", "-m", "admission", *argv)
        self._count = count
        self._listening = listening.fileno()
        self._folder = folder
        self._good = asyncio.Event()  # worker 0 can use the flags

    async def run(self, stop: asyncio.Event) -> None:
        """Keep all workers alive; the others wait for the first, to complain once is enough."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep(0, stop))
            if await service.unless_stopped(self._until_good, stop=stop):
                for number in range(1, self._count):
                    group.create_task(self._keep(number, stop))

    async def _until_good(self) -> None:
        await self._good.wait()

    async def _keep(self, number: int, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        good, again, pause = asyncio.Event(), False, 0.0
        while not stop.is_set():
            began = loop.time()
            code = await self._live(number, stop, again=again, good=good)
            if stop.is_set():
                return
            # Flags that were good once: a file has changed, and may change back. The others answer.
            if code == _BAD_FLAGS and not good.is_set():
                raise RefusedError(f"worker {number} can't use the flags")
            pause = pause_after(loop.time() - began, pause)
            logger.warning(
                "worker ended, starting it again",
                extra={"worker": number, "code": code, "seconds": pause},
            )
            again = True
            await service.pause_until(loop.time() + pause, stop=stop)

    async def _live(
        self, number: int, stop: asyncio.Event, *, again: bool, good: asyncio.Event
    ) -> int | None:
        """One life of a worker, which ends at the latest when we are to stop; the exit code."""
        ours, theirs = socket.socketpair()
        with theirs:
            worker = Worker(
                number=number, again=again, listening=self._listening, lifeline=theirs.fileno()
            )
            process = await asyncio.create_subprocess_exec(
                *self._command,
                env=os.environ | worker.environ(self._folder),
                pass_fds=(self._listening, theirs.fileno()),
                stdin=DEVNULL,
                start_new_session=True,  # Ctrl-C is for us, and we tell the workers
            )
        reader, writer = await asyncio.open_unix_connection(sock=ours)

        async def life() -> None:
            if await reader.read(len(_GOOD)):
                good.set()
                self._good.set()
            await process.wait()

        try:
            await service.unless_stopped(life, stop=stop)
        finally:
            await _end(process)
            writer.close()
        return process.returncode


async def _end(process: Process) -> None:
    """SIGTERM, and SIGKILL for who doesn't hear."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            async with asyncio.timeout(_GRACE_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
    await process.wait()

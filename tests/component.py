"""One component as its own process, against an API server that keeps still."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from common.runtime.web import listen
from fake_api import FakeApi


class Process:
    """The running process, and what it has said."""

    def __init__(self, process: asyncio.subprocess.Process, ops: int) -> None:
        self.process = process
        self.ops = ops
        self.log: list[str] = []
        self._told = asyncio.Condition()

    async def read_log(self) -> None:
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            async with self._told:
                self.log.append(line.decode())
                self._told.notify_all()

    async def logged(self, sentence: str) -> None:
        async with asyncio.timeout(20), self._told:
            await self._told.wait_for(lambda: any(sentence in line for line in self.log))

    async def get(self, path: str) -> tuple[int, str]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.ops)
        writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        return int(head.split()[1]), body.decode()

    async def ended(self, *, within: float = 5) -> int:
        """The exit code; five seconds are what is promised after a signal."""
        async with asyncio.timeout(within):
            return await self.process.wait()


def kubeconfig(folder: Path, api: FakeApi) -> Path:
    path = folder / "kubeconfig"
    cluster = {"name": "fake", "cluster": {"server": f"http://127.0.0.1:{api.port}"}}
    context = {"name": "fake", "context": {"cluster": "fake", "user": "nobody"}}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "fake",
        "clusters": [cluster],
        "contexts": [context],
        "users": [{"name": "nobody", "user": {}}],
    }
    path.write_text(json.dumps(content))
    return path


@asynccontextmanager
async def running_component(
    name: str, api: FakeApi, folder: Path, *arguments: str
) -> AsyncIterator[Process]:
    """Run ``python -P -m <name>``; what still runs at the end is killed."""
    with listen("127.0.0.1:0") as found:
        ops = int(found.getsockname()[1])
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", name, f"--kubeconfig={kubeconfig(folder, api)}"),
        f"--address=127.0.0.1:{ops}",
        *arguments,
        cwd=folder,
        stderr=asyncio.subprocess.PIPE,
    )
    process = Process(started, ops)
    async with asyncio.TaskGroup() as group:
        group.create_task(process.read_log())
        try:
            yield process
        finally:
            if started.returncode is None:
                started.kill()
            await started.wait()

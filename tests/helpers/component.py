"""Components as processes of the operating system, and their flags."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from demo.processes import free_port
from fake_api import TIMEOUT, FakeApi

LOOPBACK = "127.0.0.1"


@dataclass
class Process:
    """A running component and its log."""

    name: str
    process: asyncio.subprocess.Process
    ops: int  # port of the ops address
    log: list[str] = field(default_factory=list)
    _logged: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def read_log(self) -> None:
        """Read its output until it ends."""
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            async with self._logged:
                self.log.append(line.decode())
                self._logged.notify_all()

    def said(self, sentence: str) -> list[str]:
        """Return the log lines that contain a text."""
        return [line for line in self.log if sentence in line]

    async def logged(self, sentence: str) -> None:
        """Wait until the log contains a text."""
        async with asyncio.timeout(TIMEOUT), self._logged:
            await self._logged.wait_for(lambda: self.said(sentence))

    async def get(self, path: str) -> tuple[int, str]:
        """Return HTTP status and body of a response of the ops address."""
        return await http_get(self.ops, path)

    async def cycles(self) -> int:
        """Return the number of finished cycles, successful or not."""
        _, metrics = await self.get("/metrics")
        for line in metrics.splitlines():
            if "execution_latency_seconds_count" in line and 'step="total"' in line:
                return int(float(line.rpartition(" ")[2]))
        return 0

    async def ended(self, *, within: float = 5) -> int:
        """Wait five seconds for its end, the limit after a signal; return the exit code."""
        async with asyncio.timeout(within):
            return await self.process.wait()

    async def stop(self) -> tuple[int, float]:
        """Send SIGTERM; return the exit code and the seconds until the end."""
        began = asyncio.get_running_loop().time()
        self.process.terminate()
        code = await self.process.wait()
        return code, asyncio.get_running_loop().time() - began

    async def kill(self) -> None:
        """Send SIGKILL if it runs."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


async def start_process(command: Sequence[str]) -> asyncio.subprocess.Process:
    """Run ``python -P -m <command>`` without the environment variable NAMESPACE."""
    environ = {key: value for key, value in os.environ.items() if key != "NAMESPACE"}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", *command),
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )


async def http_get(port: int, path: str) -> tuple[int, str]:
    """Return HTTP status and body of a response from a loopback port."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), body.decode()


def webhook_flags(folder: Path, port: int) -> list[str]:
    """Return admission's flags for the certificates of a folder and a registration on loopback."""
    return [
        f"--port={port}",
        "--register-by-url",
        f"--webhook-address=https://{LOOPBACK}",
        f"--webhook-port={port}",
        f"--tls-cert-file={folder / 'serverCert.pem'}",
        f"--tls-private-key={folder / 'serverKey.pem'}",
        f"--client-ca-file={folder / 'caCert.pem'}",
    ]


@asynccontextmanager
async def running_component(
    name: str, api: FakeApi, folder: Path, *arguments: str
) -> AsyncIterator[Process]:
    """Run a component against an API server that sends no events; kill it at the end."""
    ops, kubeconfig = free_port(), folder / "kubeconfig"
    kubeconfig.write_text(_kubeconfig(f"http://{LOOPBACK}:{api.port}"))
    flags = (f"--kubeconfig={kubeconfig}", f"--address={LOOPBACK}:{ops}", *arguments)
    process = Process(name, await start_process([name, *flags]), ops)
    async with asyncio.TaskGroup() as group:
        group.create_task(process.read_log())
        try:
            yield process
        except BaseException:
            print(f"--- {name}\n{''.join(process.log)}")  # noqa: T201 - shown when a test fails
            raise
        finally:
            await process.kill()


def _kubeconfig(server: str) -> str:
    cluster = {"name": "fake", "cluster": {"server": server}}
    context = {"name": "fake", "context": {"cluster": "fake", "user": "anonymous"}}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "fake",
        "clusters": [cluster],
        "contexts": [context],
        "users": [{"name": "anonymous", "user": {}}],
    }
    return json.dumps(content)

"""Benchmark of floods against admission's two ports: memory and latency meanwhile.

    make bench-floods

Admission runs against an API server that only lists. Each flood comes from a separate process and
a separate address. Meanwhile one caller sends reviews on a kept connection, as API servers do,
another opens a connection for each review, and a third probes liveness. Printed are latencies and
the memory of the process before, during (maximum) and after the flood.
"""

import argparse
import asyncio
import contextlib
import json
import resource
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from admission_process import LEASES, POD, prepare, running
from benchmarks.load_world import Watched
from certificates import new_bundle
from certs.certificate_stores import Directory
from component import Process
from fake_api import FakeApi
from webhook_client import Connection
from webhook_harness import pod_request

_ATTACKER = "127.0.0.9"
_MIB = 1024 * 1024
_HEAD = b"POST / HTTP/1.1\r\nHost: vpa\r\nContent-Type: application/json\r\n"
_TRUSTING = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_TRUSTING.check_hostname, _TRUSTING.verify_mode = False, ssl.CERT_NONE
_REVIEW = json.dumps({"request": pod_request(POD, namespace="shop")}).encode()


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of the process."""

    webhook: int
    ops: int

    async def connect(self, *, ops: bool, tls: bool = True) -> asyncio.StreamWriter | None:
        """Connect from the attacker's address; return None if the server refused or closed it."""
        try:
            async with asyncio.timeout(20):
                _, writer = await asyncio.open_connection(
                    "127.0.0.1",
                    self.ops if ops else self.webhook,
                    local_addr=(_ATTACKER, 0),
                    ssl=_TRUSTING if tls and not ops else None,
                )
        except (OSError, TimeoutError):
            return None
        return writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The process under test, and its ports and files."""

    process: Process
    ports: Ports
    authority: bytes  # PEM

    @property
    def rss(self) -> float:
        """Return the resident memory in MiB."""
        return Watched(self.process.process.pid).rss


Flood = Callable[[Ports, contextlib.AsyncExitStack], Awaitable[None]]


@dataclass(slots=True)
class Figures:
    """Latencies in seconds and memory in MiB during a flood."""

    kept: list[float] = field(default_factory=list)
    fresh: list[float] = field(default_factory=list)
    alive: list[float] = field(default_factory=list)
    failed: int = 0
    most: float = 0.0


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(20):
            writer.write(data)
            await writer.drain()


async def _many(
    ports: Ports,
    stack: contextlib.AsyncExitStack,
    count: int,
    data: Sequence[bytes],
    *,
    ops: bool,
    tls: bool = True,
) -> None:
    """Open ``count`` connections, send ``data`` on each, and keep them open."""
    places = asyncio.Semaphore(64)

    async def one() -> None:
        async with places:
            writer = await ports.connect(ops=ops, tls=tls)
            if writer is None:
                return
            stack.callback(writer.transport.abort)
            for part in data:
                await _send(writer, part)

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(one())


async def idle_connections(ports: Ports, stack: contextlib.AsyncExitStack) -> None:
    """Open 10,000 silent connections to each port, a tenth of them after a TLS handshake."""
    await _many(ports, stack, 9000, [], ops=False, tls=False)
    await _many(ports, stack, 1000, [], ops=False)
    await _many(ports, stack, 10_000, [], ops=True)


async def endless_headers(ports: Ports, stack: contextlib.AsyncExitStack) -> None:
    """Open 500 connections to each port that send up to 4 MiB of headers."""
    lines = b"".join(b"X-%d: %b\r\n" % (number, b"y" * 4000) for number in range(64))
    for ops in (True, False):
        await _many(ports, stack, 500, [_HEAD, *[lines] * 16], ops=ops)


async def slow_bodies(ports: Ports, stack: contextlib.AsyncExitStack) -> None:
    """Open 1,000 connections to each port with 2 of 4 MiB of a body."""
    head = _HEAD + b"Content-Length: %d\r\n\r\n" % (4 * _MIB)
    for ops in (True, False):
        await _many(ports, stack, 1000, [head, b" " * (2 * _MIB)], ops=ops)


async def scrapes(ports: Ports, stack: contextlib.AsyncExitStack) -> None:
    """Send 200 concurrent scrapes, five times, each for different names."""
    for times in range(5):
        head = b"GET /metrics?name[]=vpa_%d HTTP/1.1\r\nHost: vpa\r\n\r\n" % times
        await _many(ports, stack, 200, [head], ops=True)


FLOODS: dict[str, Flood] = {
    each.__name__: each for each in (idle_connections, endless_headers, slow_bodies, scrapes)
}


async def _review_kept(site: Site, figures: Figures) -> None:
    async with Connection.to(site.ports.webhook, site.authority) as connection:
        while True:
            await _timed(figures, figures.kept, connection.send(_REVIEW))
            await asyncio.sleep(0.01)


async def _review_fresh(site: Site, figures: Figures) -> None:
    async def review() -> tuple[int, bytes]:
        async with Connection.to(site.ports.webhook, site.authority) as connection:
            return await connection.send(_REVIEW)

    while True:
        await _timed(figures, figures.fresh, review())
        await asyncio.sleep(0.1)


async def _be_alive(site: Site, figures: Figures) -> None:
    while True:
        await _timed(figures, figures.alive, site.process.get("/health-check"))
        await asyncio.sleep(0.1)


async def _timed(
    figures: Figures, found: list[float], answer: Awaitable[tuple[int, object]]
) -> None:
    began = time.perf_counter()
    try:
        status, _ = await answer
    except (OSError, IndexError, asyncio.IncompleteReadError):
        status = 0
    figures.failed += status != 200
    found.append(time.perf_counter() - began)


async def _watch_memory(site: Site, figures: Figures) -> None:
    while True:
        figures.most = max(figures.most, site.rss)
        await asyncio.sleep(0.05)


async def measure(site: Site, flood: str = "") -> Figures:
    """Measure during a flood, with callers beside it; without a flood, measure for two seconds."""
    figures = Figures()
    beside = (_review_kept, _review_fresh, _be_alive, _watch_memory)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each(site, figures)) for each in beside]
        if flood:
            command = (__file__, "--webhook", site.ports.webhook, "--ops", site.ports.ops, flood)
            attacker = await asyncio.create_subprocess_exec(
                sys.executable, "-P", *map(str, command), "--attack"
            )
            await attacker.wait()
        else:
            await asyncio.sleep(2)
        for task in tasks:
            task.cancel()
    return figures


async def attack(flood: Flood, ports: Ports) -> None:
    """Run the flood, and keep it up for two seconds."""
    async with contextlib.AsyncExitStack() as stack:
        await flood(ports, stack)
        await asyncio.sleep(2)


@contextlib.asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Site]:
    """Run admission; yield when it is ready."""
    bundle = new_bundle()
    await Directory(folder).save(bundle)
    async with FakeApi() as api:
        prepare(api)
        async with running(api, folder) as (process, port):
            await api.asked(f"POST {LEASES}")  # then it is ready
            ports = Ports(port, process.ops)
            yield Site(process=process, ports=ports, authority=bundle.authority.certificate)


def _row(name: str, before: float, figures: Figures, after: float) -> str:
    def at(found: list[float], share: float) -> str:
        ordered = sorted(found)
        return f"{1000 * ordered[min(int(share * len(ordered)), len(ordered) - 1)]:.0f}"

    return (
        f"{name:<18}{before:>6.0f}{figures.most:>6.0f}{after:>6.0f}{figures.most / before:>7.2f}"
        f"{at(figures.kept, 0.5):>8}{at(figures.kept, 0.99):>6}{at(figures.fresh, 0.99):>8}"
        f"{max(figures.alive) * 1000:>8.0f}{figures.failed:>8}"
    )


async def run(names: Sequence[str]) -> None:
    """Measure each flood against a new process."""
    print("memory in MiB, latencies in ms")
    print(f"{'flood':<18}{'rest':>6}{'most':>6}{'after':>6}{'ratio':>7}", end="")
    print(f"{'review':>8}{'p99':>6}{'new p99':>8}{'alive':>8}{'failed':>8}")
    for name in names or FLOODS:
        with tempfile.TemporaryDirectory() as folder:
            async with serving(Path(folder)) as site:
                await measure(site)
                before = site.rss
                figures = await measure(site, name)
                print(_row(name, before, figures, site.rss), flush=True)


def main() -> int:
    """Run the program and return its exit code."""
    parser = argparse.ArgumentParser(description="Flood admission's ports.")
    parser.add_argument("flood", nargs="*", choices=[*FLOODS, []], help=", ".join(FLOODS))
    for option in ("--webhook", "--ops"):
        parser.add_argument(option, type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--attack", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if options.attack:
            (name,) = options.flood
            runner.run(attack(FLOODS[name], Ports(options.webhook, options.ops)))
        else:
            runner.run(run(options.flood))
    return 0


if __name__ == "__main__":
    sys.exit(main())

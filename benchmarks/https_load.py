"""A load generator for HTTPS that sends prepared POST requests on kept connections.

It parses only the end of a response, so that it takes little CPU from the server.
"""

import asyncio
import random
import re
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import uvloop

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_GIVE_UP_SECONDS = 10.0  # timeout of the last answers


@dataclass(slots=True)
class Result:
    """The results of a run."""

    seconds: float = 0.0
    cpu: float = 0.0  # seconds, of this process
    failed: int = 0
    latencies: list[float] = field(default_factory=list)  # seconds

    def percentile(self, percent: float) -> float:
        """Return a percentile of the latencies in milliseconds."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] * 1e3


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[bool] | None = None
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head + b"\r\n") if found else None
        if length is not None and len(body) >= int(length[1]):
            self._received = b""
            self._end(good=head[9:12] == b"200")

    def connection_lost(self, _error: Exception | None) -> None:
        self._end(good=False)

    def ask(self, request: bytes) -> "asyncio.Future[bool]":
        """Send a request; the result is True if the status is 200."""
        self._answer = asyncio.get_running_loop().create_future()
        assert self._transport is not None
        self._transport.write(request)
        return self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _end(self, *, good: bool) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result(good)


def send(
    port: int, bodies: Sequence[bytes], *, connections: int, seconds: float, rate: float = 0.0
) -> Result:
    """Send requests for ``seconds``, at ``rate`` per second or as fast as possible.

    The bodies are drawn at random. At a fixed rate a latency starts when the request is due.
    Opening the connections isn't measured.
    """
    return uvloop.run(_send(port, bodies, connections, seconds, rate))


async def _send(
    port: int, bodies: Sequence[bytes], connections: int, seconds: float, rate: float
) -> Result:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # on loopback, with a new self-signed certificate
    requests = [_request(port, body) for body in bodies]
    drawn = random.Random(1)
    loop = asyncio.get_running_loop()
    opened = [
        (await loop.create_connection(_Connection, "127.0.0.1", port, ssl=context))[1]
        for _ in range(connections)
    ]
    result = Result()
    began, cpu = loop.time(), time.process_time()
    number = 0

    async def work(connection: _Connection) -> None:
        nonlocal number
        while True:
            due = loop.time()
            if rate:
                due = began + number / rate
                number += 1
                await asyncio.sleep(max(0.0, due - loop.time()))
            if due >= began + seconds:
                return
            if await connection.ask(drawn.choice(requests)):
                result.latencies.append(loop.time() - due)
            else:
                result.failed += 1

    async with asyncio.timeout(seconds + _GIVE_UP_SECONDS), asyncio.TaskGroup() as group:
        for connection in opened:
            group.create_task(work(connection))
    result.seconds, result.cpu = loop.time() - began, time.process_time() - cpu
    for connection in opened:
        connection.close()
    await asyncio.sleep(0)
    return result


def _request(port: int, body: bytes) -> bytes:
    head = (
        f"POST /?timeout=10s HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body

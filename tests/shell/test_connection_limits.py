"""The limits of a port's connections, in total and by peer."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from certificates import new_bundle, write_pair
from common.runtime.limited_http import HttpLimits
from common.runtime.web_server import WebServer

GET = b"GET / HTTP/1.1\r\nHost: ops\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: ops\r\nContent-Length: 1000\r\n\r\n"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class SlowApp:
    """An application that responds to ``/`` immediately, and to other paths after ``released``."""

    def __init__(self) -> None:
        self.requested = asyncio.Semaphore(0)  # released by each request
        self.released = asyncio.Event()

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        self.requested.release()
        while (await receive()).get("more_body"):
            pass
        if scope["path"] != "/":
            await self.released.wait()
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"OK"})


class Clients:
    """Clients of a server."""

    def __init__(self, server: WebServer) -> None:
        self._server = server
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self, host: str = "127.0.0.1") -> Streams:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._server.port, local_addr=(host, 0)
        )
        self._writers.append(writer)
        return reader, writer

    async def used_connection(self, host: str = "127.0.0.1") -> Streams:
        """Open a connection, and complete a request."""
        reader, writer = await self.connect(host)
        assert await request_status(reader, writer) == 200
        return reader, writer

    async def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def serving(
    app: SlowApp, *, tls: ssl.SSLContext | None = None, **limits: int
) -> AsyncIterator[Clients]:
    options: dict[str, Any] = {} if tls is None else {"ssl_context_factory": lambda *_: tls}
    server = WebServer(app, "0.0.0.0:0", name="test", limits=HttpLimits(**limits), **options)
    running = asyncio.create_task(server.run())
    clients = Clients(server)
    try:
        async with asyncio.timeout(20):
            yield clients
    finally:
        app.released.set()
        await clients.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def request_status(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    """Send a request, and return the status; 0 if the connection ended."""
    try:
        writer.write(GET)
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(2)
    except (ConnectionError, asyncio.IncompleteReadError):
        return 0
    return int(head.split()[1])


async def is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


async def test_a_peer_with_too_many_connections_loses_the_longest_idle_one() -> None:
    async with serving(SlowApp(), connections_of_peer=3) as clients:
        first, second, third = [await clients.used_connection() for _ in range(3)]
        assert await request_status(*first) == 200  # now it is the least idle one
        other = await clients.used_connection("127.0.0.2")
        fourth = await clients.used_connection()
        assert await is_closed(second[0])
        for each in (first, third, fourth, other):
            assert await request_status(*each) == 200


async def test_above_the_total_limit_the_peer_with_most_connections_loses_one() -> None:
    async with serving(SlowApp(), connections=3) as clients:
        other = await clients.used_connection("127.0.0.2")
        first, second = [await clients.used_connection() for _ in range(2)]
        third = await clients.used_connection("127.0.0.3")
        assert await is_closed(first[0])
        for each in (other, second, third):
            assert await request_status(*each) == 200


async def test_a_connection_with_a_pending_response_is_never_closed_for_another() -> None:
    app = SlowApp()
    async with serving(app, connections_of_peer=1) as clients:
        reader, writer = await clients.connect()
        writer.write(GET.replace(b"/ ", b"/slow ", 1))
        await app.requested.acquire()
        late, _ = await clients.connect()
        assert await is_closed(late)
        app.released.set()
        assert (await reader.readuntil(b"OK")).startswith(b"HTTP/1.1 200")


async def test_slow_requests_block_no_other_client() -> None:
    async with serving(SlowApp(), connections=2) as clients:
        for _ in range(10):
            _, writer = await clients.connect()
            writer.write(POST + b"x")
            await writer.drain()
        assert await request_status(*await clients.connect("127.0.0.2")) == 200
        assert await request_status(*await clients.connect()) == 200


async def test_the_total_size_of_bodies_is_bounded() -> None:
    app = SlowApp()
    async with serving(app, bodies=2500) as clients:
        slow = []
        for size in (900, 999, 400):
            reader, writer = await clients.connect()
            writer.write(POST + b"x" * size)
            await app.requested.acquire()
            slow.append((reader, writer))
        first, most, third = slow
        assert await request_status(*await clients.connect()) == 200
        third[1].write(b"x" * 500)
        assert await is_closed(most[0])
        for reader, writer in (third, first):
            writer.write(b"x" * 100)
            assert (await reader.readuntil(b"OK")).startswith(b"HTTP/1.1 200")


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    folder: Path = tmp_path_factory.mktemp("pair")
    made.load_cert_chain(*write_pair(folder, new_bundle().server))
    return made


async def test_a_slow_handshake_times_out(context: ssl.SSLContext) -> None:
    async with serving(SlowApp(), tls=context, handshake=1) as clients:
        began = asyncio.get_running_loop().time()
        reader, _ = await clients.connect()
        assert await is_closed(reader)
        assert asyncio.get_running_loop().time() - began < 10


async def test_handshakes_block_no_other_client(context: ssl.SSLContext) -> None:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    async with serving(SlowApp(), tls=context, connections=3) as clients:
        for _ in range(20):
            await clients.connect()
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", clients._server.port, local_addr=("127.0.0.2", 0), ssl=trusting
        )
        assert await request_status(reader, writer) == 200
        writer.transport.abort()

"""Connections of a port: how many, from whom, and which of them makes room for another."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from certificates import new_bundle, write_pair
from common.runtime.limited_http import HttpLimits
from common.runtime.web import WebServer

GET = b"GET / HTTP/1.1\r\nHost: ops\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: ops\r\nContent-Length: 1000\r\n\r\n"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Slow:
    """Reads the body, and answers ``/`` at once and everything else when it is told to."""

    def __init__(self) -> None:
        self.asked = asyncio.Semaphore(0)  # released by each request
        self.go_on = asyncio.Event()

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        self.asked.release()
        while (await receive()).get("more_body"):
            pass
        if scope["path"] != "/":
            await self.go_on.wait()
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"OK"})


class Door:
    """A server, and clients of it."""

    def __init__(self, server: WebServer) -> None:
        self._server = server
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self, host: str = "127.0.0.1") -> Streams:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._server.port, local_addr=(host, 0)
        )
        self._writers.append(writer)
        return reader, writer

    async def used(self, host: str = "127.0.0.1") -> Streams:
        """A connection that had an answer."""
        reader, writer = await self.connect(host)
        assert await ask(reader, writer) == 200
        return reader, writer

    async def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def serving(
    app: Slow, *, tls: ssl.SSLContext | None = None, **limits: int
) -> AsyncIterator[Door]:
    options: dict[str, Any] = {} if tls is None else {"ssl_context_factory": lambda *_: tls}
    server = WebServer(app, "0.0.0.0:0", name="test", limits=HttpLimits(**limits), **options)
    running = asyncio.create_task(server.run())
    door = Door(server)
    try:
        async with asyncio.timeout(20):
            yield door
    finally:
        app.go_on.set()
        await door.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    """The status of an answer; 0: the connection ended."""
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


async def test_a_peer_with_too_many_loses_the_one_that_waits_longest() -> None:
    async with serving(Slow(), connections_of_peer=3) as door:
        first, second, third = [await door.used() for _ in range(3)]
        assert await ask(*first) == 200  # and waits no longer than the others now
        other = await door.used("127.0.0.2")
        fourth = await door.used()
        assert await is_closed(second[0])
        for each in (first, third, fourth, other):
            assert await ask(*each) == 200


async def test_too_many_together_cost_the_peer_that_has_most() -> None:
    async with serving(Slow(), connections=3) as door:
        other = await door.used("127.0.0.2")
        first, second = [await door.used() for _ in range(2)]
        third = await door.used("127.0.0.3")
        assert await is_closed(first[0])
        for each in (other, second, third):
            assert await ask(*each) == 200


async def test_who_is_being_answered_is_never_closed_for_another() -> None:
    app = Slow()
    async with serving(app, connections_of_peer=1) as door:
        reader, writer = await door.connect()
        writer.write(GET.replace(b"/ ", b"/slow ", 1))
        await app.asked.acquire()
        late, _ = await door.connect()
        assert await is_closed(late)
        app.go_on.set()
        assert (await reader.readuntil(b"OK")).startswith(b"HTTP/1.1 200")


async def test_slow_requests_keep_nobody_out() -> None:
    async with serving(Slow(), connections=2) as door:
        for _ in range(10):
            _, writer = await door.connect()
            writer.write(POST + b"x")
            await writer.drain()
        assert await ask(*await door.connect("127.0.0.2")) == 200
        assert await ask(*await door.connect()) == 200


async def test_bodies_together_are_bounded() -> None:
    app = Slow()
    async with serving(app, bodies=2500) as door:
        slow = []
        for size in (900, 999, 400):
            reader, writer = await door.connect()
            writer.write(POST + b"x" * size)
            await app.asked.acquire()
            slow.append((reader, writer))
        first, most, third = slow
        assert await ask(*await door.connect()) == 200
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


async def test_a_handshake_that_takes_too_long_is_given_up(context: ssl.SSLContext) -> None:
    async with serving(Slow(), tls=context, handshake=1) as door:
        began = asyncio.get_running_loop().time()
        reader, _ = await door.connect()
        assert await is_closed(reader)
        assert asyncio.get_running_loop().time() - began < 10


async def test_handshakes_keep_nobody_out(context: ssl.SSLContext) -> None:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    async with serving(Slow(), tls=context, connections=3) as door:
        for _ in range(20):
            await door.connect()
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", door._server.port, local_addr=("127.0.0.2", 0), ssl=trusting
        )
        assert await ask(reader, writer) == 200
        writer.transport.abort()

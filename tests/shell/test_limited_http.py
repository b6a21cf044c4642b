"""The HTTP server of every port: the order of requests, and their limits."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from common.runtime.limited_http import HttpLimits
from common.runtime.web_server import WebServer
from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock

MAX_BODY = 100
LENGTH_2 = (b"content-length", b"2")
HEAD = b"POST /some/path?timeout=5s HTTP/1.1\r\nHost: webhook\r\n"

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class Echo:
    """An application that returns the body; ``hold`` makes it wait, ``broken`` makes it fail."""

    def __init__(self) -> None:
        self.scopes: list[Mapping[str, Any]] = []
        self.received: list[str] = []  # types of the messages
        self.requested = asyncio.Event()
        self.released = asyncio.Event()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        body, more = b"", True
        while more:
            message = await receive()
            self.received.append(message["type"])
            body += message.get("body", b"")
            more = message.get("more_body", False)
        self.requested.set()
        if body == b"hold":
            await self.released.wait()
        if body == b"broken":
            raise RuntimeError("broken")
        reply = b"<%b>" % body
        headers = [(b"content-length", b"%d" % len(reply))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": reply})


@asynccontextmanager
async def serving(
    app: Echo, *, seconds: float = 10, **limits: int
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, asyncio.Task[None]]]:
    server = WebServer(
        app, "127.0.0.1:0", name="test", limits=HttpLimits(**{"body": MAX_BODY, **limits})
    )
    running = asyncio.create_task(server.run())
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        async with asyncio.timeout(seconds):
            yield reader, writer, running
    finally:
        writer.close()
        app.released.set()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def post(body: bytes, *more: bytes) -> bytes:
    head = b"".join(line + b"\r\n" for line in (b"Content-Length: %d" % len(body), *more))
    return HEAD + head + b"\r\n" + body


async def read_response(reader: asyncio.StreamReader) -> tuple[int, dict[bytes, bytes], bytes]:
    status = int((await reader.readline()).split()[1])
    headers: dict[bytes, bytes] = {}
    while line := (await reader.readline()).strip():
        name, _, value = line.partition(b": ")
        headers[name] = value
    return status, headers, await reader.readexactly(int(headers.get(b"content-length", b"0")))


async def test_a_request_in_many_segments_is_one_request() -> None:
    app = Echo()
    async with serving(app) as (reader, writer, _):
        for byte in post(b"hello", b"Content-Type: application/json"):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        assert (await read_response(reader))[::2] == (200, b"<hello>")
    scope = app.scopes[0]
    assert (scope["method"], scope["path"], scope["query_string"]) == (
        "POST",
        "/some/path",
        b"timeout=5s",
    )
    assert (b"content-type", b"application/json") in scope["headers"]


async def test_pipelined_requests_get_responses_in_order() -> None:
    async with serving(Echo()) as (reader, writer, _):
        writer.write(b"".join(post(b"%d" % number) for number in range(20)))
        answers = [(await read_response(reader))[2] for _ in range(20)]
    assert answers == [b"<%d>" % number for number in range(20)]


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
TOO_LARGE = {
    "announced": post(b"x" * (MAX_BODY + 1)),
    "announced, of 12 digits": HEAD + b"Content-Length: 999999999999\r\n\r\n",
    "in chunks": CHUNKED + (b"40\r\n" + b"x" * 64 + b"\r\n") * 3 + b"0\r\n\r\n",
    "announced, after a go-ahead": HEAD + b"Expect: 100-continue\r\nContent-Length: 101\r\n\r\n",
}


@pytest.mark.parametrize("request_", TOO_LARGE.values(), ids=TOO_LARGE)
async def test_a_body_that_is_too_large_is_refused_and_the_connection_closed(
    request_: bytes,
) -> None:
    app = Echo()
    async with serving(app) as (reader, writer, _):
        writer.write(post(b"first"))
        assert (await read_response(reader))[2] == b"<first>"
        writer.write(request_)
        status, headers, body = await read_response(reader)
        assert (status, headers[b"connection"]) == (413, b"close")
        assert body == b"the body is too large\n"
        assert await reader.read() == b""
    assert app.received[-1] in {"http.disconnect", "http.request"}


async def test_a_body_of_the_maximum_size_is_accepted() -> None:
    body = b"x" * MAX_BODY
    async with serving(Echo()) as (reader, writer, _):
        writer.write(post(body))
        assert (await read_response(reader))[2] == b"<%b>" % body


async def test_an_exception_of_the_application_is_a_500_and_closes_the_connection() -> None:
    async with serving(Echo()) as (reader, writer, _):
        writer.write(post(b"broken"))
        status, headers, _text = await read_response(reader)
        assert (status, headers[b"connection"]) == (500, b"close")


LAST = {
    "with a header": post(b"", b"Connection: close"),
    "http 1.0": post(b"").replace(b"HTTP/1.1", b"HTTP/1.0"),
    "another protocol": post(b"", b"Connection: upgrade", b"Upgrade: h2c"),
}


@pytest.mark.parametrize("request_", LAST.values(), ids=LAST)
async def test_a_last_request_gets_a_response_and_the_connection_is_closed(request_: bytes) -> None:
    async with serving(Echo()) as (reader, writer, _):
        writer.write(request_)
        status, headers, body = await read_response(reader)
        assert (status, headers[b"connection"], body) == (200, b"close", b"<>")
        assert await reader.read() == b""


async def test_a_client_that_expects_100_continue_gets_it() -> None:
    async with serving(Echo()) as (reader, writer, _):
        request = post(b"hello", b"Expect: 100-continue")
        writer.write(request.removesuffix(b"hello"))
        assert (await read_response(reader))[0] == 100
        writer.write(b"hello")
        assert (await read_response(reader))[2] == b"<hello>"


class EarlyResponse(Echo):
    """An application that responds without reading the body."""

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": [LENGTH_2]})
        await send({"type": "http.response.body", "body": b"OK"})


async def test_a_response_instead_of_100_continue_is_the_last() -> None:
    """The body need not be sent, so the following bytes may be the body or the next request."""
    app = EarlyResponse()
    async with serving(app) as (reader, writer, _):
        request = post(b"", b"Expect: 100-continue")
        writer.write(request.replace(b"Content-Length: 0", b"Content-Length: 100"))
        status, headers, _text = await read_response(reader)
        assert (status, headers[b"connection"]) == (200, b"close")
        writer.write(post(b"next"))
        assert await reader.read() == b""
    assert len(app.scopes) == 1


async def test_a_response_to_a_body_sent_without_100_continue_is_not_the_last() -> None:
    app = EarlyResponse()
    async with serving(app) as (reader, writer, _):
        writer.write(post(b"hello", b"Expect: 100-continue"))
        status, headers, _text = await read_response(reader)
        assert (status, headers.get(b"connection")) == (200, None)
        writer.write(post(b"next"))
        assert (await read_response(reader))[0] == 200


async def test_a_head_request_gets_no_body() -> None:
    async with serving(Echo()) as (reader, writer, _):
        writer.write(b"HEAD / HTTP/1.1\r\nHost: webhook\r\n\r\n" + post(b"next"))
        assert (await reader.readline()).split()[1] == b"200"
        assert await reader.readuntil(b"\r\n\r\n") == b"content-length: 2\r\n\r\n"
        assert (await read_response(reader))[2] == b"<next>"


async def test_a_stopping_server_responds_to_received_requests() -> None:
    app = Echo()
    async with serving(app) as (reader, writer, running):
        writer.write(post(b"hold"))
        await app.requested.wait()
        running.cancel()
        await asyncio.sleep(0)
        app.released.set()
        assert (await read_response(reader))[2] == b"<hold>"
        assert await reader.read() == b""


async def test_a_client_that_disconnects_affects_no_other_client() -> None:
    app = Echo()
    async with serving(app) as (_reader, writer, running):
        writer.write(post(b"hold"))
        await app.requested.wait()
        writer.transport.abort()
        app.released.set()
        port = writer.get_extra_info("peername")[1]
        reader, other = await asyncio.open_connection("127.0.0.1", port)
        other.write(post(b"next"))
        assert (await read_response(reader))[2] == b"<next>"
        other.close()
        assert not running.done()


async def test_trailers_are_not_headers() -> None:
    app = Echo()
    async with serving(app) as (reader, writer, _):
        writer.write(CHUNKED + b"5;x=y\r\nhello\r\n0\r\nContent-Type: a/b\r\n\r\n" + post(b"next"))
        assert (await read_response(reader))[2] == b"<hello>"
        assert (await read_response(reader))[2] == b"<next>"
    assert b"content-type" not in dict(app.scopes[0]["headers"])


async def test_http_1_0_has_no_100_continue() -> None:
    async with serving(Echo()) as (reader, writer, _):
        request = post(b"hello", b"Expect: 100-continue").replace(b"HTTP/1.1", b"HTTP/1.0")
        writer.write(request)
        assert (await read_response(reader))[::2] == (200, b"<hello>")


class LargeResponse(Echo):
    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 1_000_000})


async def test_a_client_that_does_not_read_responses_is_disconnected() -> None:
    """Unread responses would fill the memory."""
    app = LargeResponse()
    async with serving(app, unread=1) as (_reader, writer, _):
        writer.write(post(b"hello") * 30)
        with pytest.raises(ConnectionError):
            await write_on(writer)
    assert 1 < len(app.scopes) < 30


async def write_on(writer: asyncio.StreamWriter) -> None:
    while True:
        await asyncio.sleep(0.1)
        writer.write(b"POST")
        await writer.drain()


async def test_the_number_of_queued_pipelined_requests_is_bounded() -> None:
    async with serving(Echo()) as (reader, writer, _):
        writer.write(post(b"x") * 100)
        answers = [await read_response(reader) for _ in range(1)]
        while not reader.at_eof() and (line := await reader.readline()):
            answers += [] if b"HTTP/1.1 200" not in line else answers[:1]
    assert 1 <= len(answers) <= 33


async def test_a_request_before_invalid_data_gets_a_response() -> None:
    app = Echo()
    async with serving(app) as (reader, writer, _):
        writer.write(post(b"hold") + HEAD + b"X: " + b"y" * 200_000)
        await app.requested.wait()
        app.released.set()
        status, headers, body = await read_response(reader)
        assert (status, headers[b"connection"], body) == (200, b"close", b"<hold>")


async def test_a_stopping_server_waits_for_the_rest_of_a_request() -> None:
    app = Echo()
    async with serving(app) as (reader, writer, running):
        request = post(b"hello")
        writer.write(post(b"first") + request[:-1])
        assert (await read_response(reader))[2] == b"<first>"
        running.cancel()
        await asyncio.sleep(0)
        writer.write(request[-1:])
        status, headers, body = await read_response(reader)
        assert (status, headers[b"connection"], body) == (200, b"close", b"<hello>")
        assert await reader.read() == b""


async def test_a_stopping_server_closes_idle_connections() -> None:
    async with serving(Echo()) as (reader, writer, running):
        writer.write(post(b"hello"))
        await read_response(reader)
        running.cancel()
        assert await reader.read() == b""


SLOW = {
    "the head": b"POST / HTTP/1.1\r\n" + b"X: y\r\n" * 1000,
    "the body": HEAD + b"Content-Length: 100\r\n\r\n" + b"x" * 99,
}


@pytest.mark.parametrize("request_", SLOW.values(), ids=SLOW)
def test_a_slow_request_times_out(request_: bytes) -> None:
    async def main(_clock: VirtualClock) -> None:
        loop = asyncio.get_running_loop()
        async with serving(Echo(), idle=600, seconds=900) as (reader, writer, _):
            closed = asyncio.create_task(reader.read())
            began = loop.time()
            for byte in request_:
                await asyncio.sleep(5)
                if closed.done():
                    break
                writer.write(bytes([byte]))
            assert 30 <= loop.time() - began <= 70
            assert b" 408 " in await closed

    virtual_time.run(main)


def test_a_request_after_an_idle_hour_has_the_whole_timeout() -> None:
    async def main(_clock: VirtualClock) -> None:
        async with serving(Echo(), idle=7200, seconds=9000) as (reader, writer, _):
            await asyncio.sleep(3600)
            request = post(b"hello")
            writer.write(request[:40])
            await asyncio.sleep(29)
            writer.write(request[40:])
            assert (await read_response(reader))[2] == b"<hello>"
            await asyncio.sleep(3600)
            writer.write(post(b"next"))
            assert (await read_response(reader))[2] == b"<next>"

    virtual_time.run(main)


@pytest.mark.parametrize("is_used", [False, True])
def test_an_idle_connection_is_closed_after_a_minute(*, is_used: bool) -> None:
    async def main(_clock: VirtualClock) -> None:
        loop = asyncio.get_running_loop()
        async with serving(Echo(), seconds=900) as (reader, writer, _):
            if is_used:
                await asyncio.sleep(59)
                writer.write(post(b"hello"))
                await read_response(reader)
            began = loop.time()
            assert await reader.read() == b""
            assert 60 <= loop.time() - began < 61

    virtual_time.run(main)

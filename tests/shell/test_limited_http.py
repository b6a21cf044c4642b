"""The HTTP of every port: requests in order, whatever their shape, and limits on each of them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from common.runtime.limited_http import HttpLimits
from common.runtime.web import WebServer
from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock

LARGEST = 100
LENGTH_2 = (b"content-length", b"2")
HEAD = b"POST /some/path?timeout=5s HTTP/1.1\r\nHost: webhook\r\n"

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class Echo:
    """Answers what it was sent; ``hold`` makes it wait, ``broken`` makes it fail."""

    def __init__(self) -> None:
        self.scopes: list[Mapping[str, Any]] = []
        self.heard: list[str] = []  # types of the messages
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        body, more = b"", True
        while more:
            message = await receive()
            self.heard.append(message["type"])
            body += message.get("body", b"")
            more = message.get("more_body", False)
        self.asked.set()
        if body == b"hold":
            await self.go_on.wait()
        if body == b"broken":
            raise RuntimeError("broken")
        answer = b"<%b>" % body
        headers = [(b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


@asynccontextmanager
async def talking(
    app: Echo, *, patience: float = 10, **limits: int
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, asyncio.Task[None]]]:
    server = WebServer(
        app, "127.0.0.1:0", name="test", limits=HttpLimits(**{"body": LARGEST, **limits})
    )
    running = asyncio.create_task(server.run())
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        async with asyncio.timeout(patience):
            yield reader, writer, running
    finally:
        writer.close()
        app.go_on.set()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def posted(body: bytes, *more: bytes) -> bytes:
    head = b"".join(line + b"\r\n" for line in (b"Content-Length: %d" % len(body), *more))
    return HEAD + head + b"\r\n" + body


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict[bytes, bytes], bytes]:
    status = int((await reader.readline()).split()[1])
    headers: dict[bytes, bytes] = {}
    while line := (await reader.readline()).strip():
        name, _, value = line.partition(b": ")
        headers[name] = value
    return status, headers, await reader.readexactly(int(headers.get(b"content-length", b"0")))


async def test_a_request_in_many_pieces_is_one_request() -> None:
    app = Echo()
    async with talking(app) as (reader, writer, _):
        for byte in posted(b"hello", b"Content-Type: application/json"):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        assert (await answer(reader))[::2] == (200, b"<hello>")
    scope = app.scopes[0]
    assert (scope["method"], scope["path"], scope["query_string"]) == (
        "POST",
        "/some/path",
        b"timeout=5s",
    )
    assert (b"content-type", b"application/json") in scope["headers"]


async def test_requests_that_come_at_once_are_answered_in_order() -> None:
    async with talking(Echo()) as (reader, writer, _):
        writer.write(b"".join(posted(b"%d" % number) for number in range(20)))
        answers = [(await answer(reader))[2] for _ in range(20)]
    assert answers == [b"<%d>" % number for number in range(20)]


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
TOO_LARGE = {
    "announced": posted(b"x" * (LARGEST + 1)),
    "announced, of 12 digits": HEAD + b"Content-Length: 999999999999\r\n\r\n",
    "in chunks": CHUNKED + (b"40\r\n" + b"x" * 64 + b"\r\n") * 3 + b"0\r\n\r\n",
    "announced, after a go-ahead": HEAD + b"Expect: 100-continue\r\nContent-Length: 101\r\n\r\n",
}


@pytest.mark.parametrize("request_", TOO_LARGE.values(), ids=TOO_LARGE)
async def test_too_large_a_body_is_refused_and_the_connection_closed(request_: bytes) -> None:
    app = Echo()
    async with talking(app) as (reader, writer, _):
        writer.write(posted(b"first"))
        assert (await answer(reader))[2] == b"<first>"
        writer.write(request_)
        status, headers, body = await answer(reader)
        assert (status, headers[b"connection"]) == (413, b"close")
        assert body == b"the body is too large\n"
        assert await reader.read() == b""
    assert app.heard[-1] in {"http.disconnect", "http.request"}


async def test_a_body_of_the_largest_size_is_whole() -> None:
    body = b"x" * LARGEST
    async with talking(Echo()) as (reader, writer, _):
        writer.write(posted(body))
        assert (await answer(reader))[2] == b"<%b>" % body


async def test_what_the_application_raises_is_a_500_and_the_connection_closed() -> None:
    async with talking(Echo()) as (reader, writer, _):
        writer.write(posted(b"broken"))
        status, headers, _text = await answer(reader)
        assert (status, headers[b"connection"]) == (500, b"close")


LAST = {
    "told so": posted(b"", b"Connection: close"),
    "http 1.0": posted(b"").replace(b"HTTP/1.1", b"HTTP/1.0"),
    "another protocol": posted(b"", b"Connection: upgrade", b"Upgrade: h2c"),
}


@pytest.mark.parametrize("request_", LAST.values(), ids=LAST)
async def test_a_last_request_is_answered_and_the_connection_closed(request_: bytes) -> None:
    async with talking(Echo()) as (reader, writer, _):
        writer.write(request_)
        status, headers, body = await answer(reader)
        assert (status, headers[b"connection"], body) == (200, b"close", b"<>")
        assert await reader.read() == b""


async def test_a_client_that_waits_for_a_go_ahead_gets_it() -> None:
    async with talking(Echo()) as (reader, writer, _):
        request = posted(b"hello", b"Expect: 100-continue")
        writer.write(request.removesuffix(b"hello"))
        assert (await answer(reader))[0] == 100
        writer.write(b"hello")
        assert (await answer(reader))[2] == b"<hello>"


class Hasty(Echo):
    """Answers without reading the body."""

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": [LENGTH_2]})
        await send({"type": "http.response.body", "body": b"OK"})


async def test_an_answer_instead_of_a_go_ahead_is_the_last() -> None:
    """What follows may be the body or, because it needn't be sent, the next request."""
    app = Hasty()
    async with talking(app) as (reader, writer, _):
        request = posted(b"", b"Expect: 100-continue")
        writer.write(request.replace(b"Content-Length: 0", b"Content-Length: 100"))
        status, headers, _text = await answer(reader)
        assert (status, headers[b"connection"]) == (200, b"close")
        writer.write(posted(b"next"))
        assert await reader.read() == b""
    assert len(app.scopes) == 1


async def test_an_answer_after_a_body_that_came_unasked_is_not_the_last() -> None:
    app = Hasty()
    async with talking(app) as (reader, writer, _):
        writer.write(posted(b"hello", b"Expect: 100-continue"))
        status, headers, _text = await answer(reader)
        assert (status, headers.get(b"connection")) == (200, None)
        writer.write(posted(b"next"))
        assert (await answer(reader))[0] == 200


async def test_who_asks_for_the_head_gets_no_body() -> None:
    async with talking(Echo()) as (reader, writer, _):
        writer.write(b"HEAD / HTTP/1.1\r\nHost: webhook\r\n\r\n" + posted(b"next"))
        assert (await reader.readline()).split()[1] == b"200"
        assert await reader.readuntil(b"\r\n\r\n") == b"content-length: 2\r\n\r\n"
        assert (await answer(reader))[2] == b"<next>"


async def test_a_server_that_stops_answers_what_it_was_asked() -> None:
    app = Echo()
    async with talking(app) as (reader, writer, running):
        writer.write(posted(b"hold"))
        await app.asked.wait()
        running.cancel()
        await asyncio.sleep(0)
        app.go_on.set()
        assert (await answer(reader))[2] == b"<hold>"
        assert await reader.read() == b""


async def test_a_client_that_goes_away_disturbs_nobody() -> None:
    app = Echo()
    async with talking(app) as (_reader, writer, running):
        writer.write(posted(b"hold"))
        await app.asked.wait()
        writer.transport.abort()
        app.go_on.set()
        port = writer.get_extra_info("peername")[1]
        reader, other = await asyncio.open_connection("127.0.0.1", port)
        other.write(posted(b"next"))
        assert (await answer(reader))[2] == b"<next>"
        other.close()
        assert not running.done()


async def test_trailers_are_no_headers() -> None:
    app = Echo()
    async with talking(app) as (reader, writer, _):
        writer.write(
            CHUNKED + b"5;x=y\r\nhello\r\n0\r\nContent-Type: a/b\r\n\r\n" + posted(b"next")
        )
        assert (await answer(reader))[2] == b"<hello>"
        assert (await answer(reader))[2] == b"<next>"
    assert b"content-type" not in dict(app.scopes[0]["headers"])


async def test_http_1_0_knows_no_go_ahead() -> None:
    async with talking(Echo()) as (reader, writer, _):
        request = posted(b"hello", b"Expect: 100-continue").replace(b"HTTP/1.1", b"HTTP/1.0")
        writer.write(request)
        assert (await answer(reader))[::2] == (200, b"<hello>")


class Verbose(Echo):
    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 1_000_000})


async def test_who_never_reads_answers_is_not_read_either_and_loses_the_connection() -> None:
    """The answers would fill the memory."""
    app = Verbose()
    async with talking(app, unread=1) as (_reader, writer, _):
        writer.write(posted(b"hello") * 30)
        with pytest.raises(ConnectionError):
            await write_on(writer)
    assert 1 < len(app.scopes) < 30


async def write_on(writer: asyncio.StreamWriter) -> None:
    while True:
        await asyncio.sleep(0.1)
        writer.write(b"POST")
        await writer.drain()


async def test_of_requests_that_come_at_once_only_so_many_wait() -> None:
    async with talking(Echo()) as (reader, writer, _):
        writer.write(posted(b"x") * 100)
        answers = [await answer(reader) for _ in range(1)]
        while not reader.at_eof() and (line := await reader.readline()):
            answers += [] if b"HTTP/1.1 200" not in line else answers[:1]
    assert 1 <= len(answers) <= 33


async def test_what_is_no_http_after_a_request_does_not_cost_its_answer() -> None:
    app = Echo()
    async with talking(app) as (reader, writer, _):
        writer.write(posted(b"hold") + HEAD + b"X: " + b"y" * 200_000)
        await app.asked.wait()
        app.go_on.set()
        status, headers, body = await answer(reader)
        assert (status, headers[b"connection"], body) == (200, b"close", b"<hold>")


async def test_a_server_that_stops_waits_for_the_rest_of_a_request() -> None:
    app = Echo()
    async with talking(app) as (reader, writer, running):
        request = posted(b"hello")
        writer.write(posted(b"first") + request[:-1])
        assert (await answer(reader))[2] == b"<first>"
        running.cancel()
        await asyncio.sleep(0)
        writer.write(request[-1:])
        status, headers, body = await answer(reader)
        assert (status, headers[b"connection"], body) == (200, b"close", b"<hello>")
        assert await reader.read() == b""


async def test_a_server_that_stops_closes_what_is_idle() -> None:
    async with talking(Echo()) as (reader, writer, running):
        writer.write(posted(b"hello"))
        await answer(reader)
        running.cancel()
        assert await reader.read() == b""


SLOW = {
    "the head": b"POST / HTTP/1.1\r\n" + b"X: y\r\n" * 1000,
    "the body": HEAD + b"Content-Length: 100\r\n\r\n" + b"x" * 99,
}


@pytest.mark.parametrize("request_", SLOW.values(), ids=SLOW)
def test_who_sends_a_byte_now_and_then_is_not_waited_for(request_: bytes) -> None:
    async def main(_clock: VirtualClock) -> None:
        loop = asyncio.get_running_loop()
        async with talking(Echo(), idle=600, patience=900) as (reader, writer, _):
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


def test_a_slow_request_after_an_idle_hour_has_its_time() -> None:
    async def main(_clock: VirtualClock) -> None:
        async with talking(Echo(), idle=7200, patience=9000) as (reader, writer, _):
            await asyncio.sleep(3600)
            request = posted(b"hello")
            writer.write(request[:40])
            await asyncio.sleep(29)
            writer.write(request[40:])
            assert (await answer(reader))[2] == b"<hello>"
            await asyncio.sleep(3600)
            writer.write(posted(b"next"))
            assert (await answer(reader))[2] == b"<next>"

    virtual_time.run(main)


@pytest.mark.parametrize("is_used", [False, True])
def test_an_idle_connection_is_closed_after_a_minute(*, is_used: bool) -> None:
    async def main(_clock: VirtualClock) -> None:
        loop = asyncio.get_running_loop()
        async with talking(Echo(), patience=900) as (reader, writer, _):
            if is_used:
                await asyncio.sleep(59)
                writer.write(posted(b"hello"))
                await answer(reader)
            began = loop.time()
            assert await reader.read() == b""
            assert 60 <= loop.time() - began < 61

    virtual_time.run(main)

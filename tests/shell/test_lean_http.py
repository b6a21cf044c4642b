"""The webhook's HTTP: whole questions, one answer at a time, and nothing that stops the next."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from common.runtime.web import WebServer
from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock

LARGEST = 100
HEAD = b"POST /some/path?timeout=5s HTTP/1.1\r\nHost: webhook\r\n"

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class Echo:
    """Answers what it was sent; ``hold`` makes it wait, ``broken`` makes it fail."""

    def __init__(self) -> None:
        self.scopes: list[Mapping[str, Any]] = []
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        message = await receive()
        self.asked.set()
        body = message["body"]
        if body == b"hold":
            await self.go_on.wait()
        if body == b"broken":
            raise RuntimeError("broken")
        status = 413 if message["more_body"] else 200
        answer = b"too large" if message["more_body"] else b"<%b>" % body
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": answer})


@asynccontextmanager
async def talking(
    app: Echo, *, keep_alive: float = 60, patience: float = 10
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, asyncio.Task[None]]]:
    server = WebServer(
        app, "127.0.0.1:0", name="test", largest_body=LARGEST, timeout_keep_alive=keep_alive
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


async def test_a_question_in_many_pieces_is_one_question() -> None:
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


async def test_questions_that_come_at_once_are_answered_in_order() -> None:
    async with talking(Echo()) as (reader, writer, _):
        writer.write(b"".join(posted(b"%d" % number) for number in range(20)))
        answers = [(await answer(reader))[2] for _ in range(20)]
    assert answers == [b"<%d>" % number for number in range(20)]


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
TOO_LARGE = {
    "announced": posted(b"x" * (LARGEST + 1)),
    "in chunks": CHUNKED + (b"40\r\n" + b"x" * 64 + b"\r\n") * 3 + b"0\r\n\r\n",
}


@pytest.mark.parametrize("question", TOO_LARGE.values(), ids=TOO_LARGE)
async def test_too_large_a_body_costs_itself_and_not_the_next(question: bytes) -> None:
    async with talking(Echo()) as (reader, writer, _):
        writer.write(question)
        assert (await answer(reader))[::2] == (413, b"too large")
        writer.write(posted(b"next"))
        assert (await answer(reader))[2] == b"<next>"


async def test_a_body_of_the_largest_size_is_whole() -> None:
    body = b"x" * LARGEST
    async with talking(Echo()) as (reader, writer, _):
        writer.write(posted(body))
        assert (await answer(reader))[2] == b"<%b>" % body


async def test_what_the_application_raises_is_a_500_and_the_connection_lives() -> None:
    async with talking(Echo()) as (reader, writer, _):
        writer.write(posted(b"broken") + posted(b"next"))
        assert (await answer(reader))[0] == 500
        assert (await answer(reader))[2] == b"<next>"


LAST = {
    "told so": posted(b"", b"Connection: close"),
    "http 1.0": posted(b"").replace(b"HTTP/1.1", b"HTTP/1.0"),
    "another protocol": posted(b"", b"Connection: upgrade", b"Upgrade: h2c"),
}


@pytest.mark.parametrize("question", LAST.values(), ids=LAST)
async def test_a_last_question_is_answered_and_the_connection_closed(question: bytes) -> None:
    async with talking(Echo()) as (reader, writer, _):
        writer.write(question)
        status, headers, body = await answer(reader)
        assert (status, headers[b"connection"], body) == (200, b"close", b"<>")
        assert await reader.read() == b""


END = b"\r\n0\r\n\r\n"
NO_HTTP = {
    "noise": b"\x16\x03\x01 what is this\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "endless headers": HEAD + b"".join(b"X-%d: %b\r\n" % (n, b"y" * 1000) for n in range(120)),
    "an endless header": HEAD + b"X: " + b"y" * 200_000,
    "an endless address": b"POST /" + b"y" * 200_000,
    "endless trailers": HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n0\r\n"
    + b"".join(b"X-%d: %b\r\n" % (n, b"y" * 1000) for n in range(120)),
    "an endless chunk extension": HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;x=" + b"y" * 200_000,
    "no length": HEAD + b"Content-Length: ten\r\n\r\n",
    "a negative length": HEAD + b"Content-Length: -5\r\n\r\n",
    "a length with a sign": HEAD + b"Content-Length: +5\r\n\r\nhello",
    "a length beyond all numbers": HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "the same length twice": HEAD + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "chunks with a length": HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n" + END,
    "a length with chunks": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n" + END,
    "a large length with chunks": HEAD
    + b"Transfer-Encoding: chunked\r\nContent-Length: 500\r\n"
    + END,
    "an encoding after chunks": HEAD + b"Transfer-Encoding: chunked, gzip\r\n" + END,
    "a chunk of a negative size": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
    "a header over two lines": HEAD + b"X: a\r\n b\r\n\r\n",
    "a space before the colon": HEAD + b"Content-Length : 5\r\n\r\nhello",
}


@pytest.mark.parametrize("bytes_", NO_HTTP.values(), ids=NO_HTTP)
async def test_what_is_no_http_is_refused(bytes_: bytes) -> None:
    async with talking(Echo()) as (reader, writer, _):
        writer.write(bytes_)
        status, headers, _text = await answer(reader)
        assert (status, headers[b"connection"]) == (400, b"close")


async def test_a_client_that_waits_for_a_go_ahead_gets_it() -> None:
    async with talking(Echo()) as (reader, writer, _):
        question = posted(b"hello", b"Expect: 100-continue")
        writer.write(question.removesuffix(b"hello"))
        assert (await answer(reader))[0] == 100
        writer.write(b"hello")
        assert (await answer(reader))[2] == b"<hello>"


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
        question = posted(b"hello", b"Expect: 100-continue").replace(b"HTTP/1.1", b"HTTP/1.0")
        writer.write(question)
        assert (await answer(reader))[::2] == (200, b"<hello>")


class Verbose(Echo):
    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 50_000})


def test_who_asks_without_end_and_never_reads_is_not_read_either() -> None:
    """The answers would fill the memory."""
    app = Verbose()

    async def main(_clock: VirtualClock) -> None:
        async with talking(app, patience=3600) as (_reader, writer, _):
            writer.write(posted(b"x" * LARGEST) * 2000)
            await asyncio.sleep(60)
            writer.transport.abort()

    virtual_time.run(main)
    assert 10 < len(app.scopes) < 1000


async def test_what_is_no_http_after_a_question_does_not_cost_its_answer() -> None:
    app = Echo()
    async with talking(app) as (reader, writer, _):
        writer.write(posted(b"hold") + HEAD + b"X: " + b"y" * 200_000)
        await app.asked.wait()
        app.go_on.set()
        status, headers, body = await answer(reader)
        assert (status, headers[b"connection"], body) == (200, b"close", b"<hold>")


async def test_a_server_that_stops_waits_for_the_rest_of_a_question() -> None:
    app = Echo()
    async with talking(app) as (reader, writer, running):
        question = posted(b"hello")
        writer.write(posted(b"first") + question[:-1])
        assert (await answer(reader))[2] == b"<first>"
        running.cancel()
        await asyncio.sleep(0)
        writer.write(question[-1:])
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
    "the rest of what is too large": HEAD + b"Content-Length: 1000\r\n\r\n" + b"x" * 999,
}


@pytest.mark.parametrize("question", SLOW.values(), ids=SLOW)
def test_who_sends_a_byte_now_and_then_is_not_waited_for(question: bytes) -> None:
    async def main(_clock: VirtualClock) -> None:
        loop = asyncio.get_running_loop()
        async with talking(Echo(), keep_alive=600, patience=900) as (reader, writer, _):
            closed = asyncio.create_task(reader.read())
            began = loop.time()
            for byte in question:
                await asyncio.sleep(5)
                if closed.done():
                    break
                writer.write(bytes([byte]))
            assert 30 <= loop.time() - began <= 70
            assert b" 408 " in await closed or b" 413 " in await closed

    virtual_time.run(main)


def test_a_slow_question_after_an_idle_hour_has_its_time() -> None:
    async def main(_clock: VirtualClock) -> None:
        async with talking(Echo(), keep_alive=7200, patience=9000) as (reader, writer, _):
            await asyncio.sleep(3600)
            question = posted(b"hello")
            writer.write(question[:40])
            await asyncio.sleep(29)
            writer.write(question[40:])
            assert (await answer(reader))[2] == b"<hello>"
            await asyncio.sleep(3600)
            writer.write(posted(b"next"))
            assert (await answer(reader))[2] == b"<next>"

    virtual_time.run(main)


async def test_an_idle_connection_is_closed() -> None:
    async with talking(Echo(), keep_alive=0) as (reader, writer, _):
        writer.write(posted(b"hello")[:-1])
        assert await reader.read() == b""

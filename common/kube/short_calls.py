"""HTTP/1.1 for calls with short answers, in less than half of aiohttp's CPU.

An updater writes thousands of times a second, and most of what a write costs is the client
library. This one keeps connections open, sends a request as one piece, and reads the answer into
a buffer of its own. What it leaves out: proxies, redirects, compression, and streams in either
direction; these are aiohttp's.
"""

import asyncio
import re
import socket
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import httptools

_BUFFER = 32 * 1024  # bytes; two records of TLS
_MOST_BYTES = 64 * 1024 * 1024  # of an answer; objects of an API server have 3 MiB at most
_IDLE_SECONDS = 30.0  # servers close idle connections after a minute or more
_MOST_CONNECTIONS = 100
_PORTS = {"http": 80, "https": 443}
_TARGET = re.compile(r"[!-~]+")
_VALUE = re.compile(r"[ -~]*")
_OK = 200  # below it an answer only announces another one


@dataclass(slots=True, eq=False)
class Answer:
    """What came back."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)  # names in lower case
    body: bytes = b""


class BrokenAnswerError(ConnectionError):
    """The connection ended before the answer did, or it is no HTTP."""


class ShortCalls:
    """Sends requests to one server, each on a connection that nobody else uses meanwhile.

    ``prepare`` is given each new socket. Not for more than one event loop.
    """

    def __init__(
        self,
        base_url: str,
        *,
        tls: ssl.SSLContext | None,
        server_hostname: str,
        headers: Mapping[str, str],
        connect_seconds: float,
        prepare: Callable[[socket.socket], None],
    ) -> None:
        parts = urlsplit(base_url)
        self._host = parts.hostname or ""
        self._port = parts.port or _PORTS[parts.scheme]
        self._prefix = parts.path.rstrip("/")
        self._tls = None
        if parts.scheme == "https":
            self._tls = tls or ssl.create_default_context()
        self._server_hostname = (server_hostname or self._host) if self._tls else None
        self._head = _header_lines({"Host": parts.netloc.rpartition("@")[2], **headers})
        self._connect_seconds = connect_seconds
        self._prepare = prepare
        self._room = asyncio.Semaphore(_MOST_CONNECTIONS)
        self._idle: deque[_Exchange] = deque()  # the one that was used last is at the end
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed = False

    async def send(
        self,
        method: str,
        target: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        before_send: Callable[[], None] = lambda: None,
    ) -> Answer:
        """Send one request and read the whole answer; whoever gives up closes its connection.

        ``before_send`` is called when a connection is there, and keeps the request back by an
        exception.

        Raises:
            OSError: no connection, or it broke (TLS included).
            TimeoutError: connecting took too long.
        """
        if not _TARGET.fullmatch(target):
            raise ValueError(f"no target of a request: {target!r}")
        lines = f"{method} {self._prefix}{target} HTTP/1.1\r\n{self._head}{_header_lines(headers)}"
        data = body or b""
        if body is not None or method != "GET":
            lines += f"Content-Length: {len(data)}\r\n"
        async with self._room:
            exchange = self._taken() or await self._connected()
            try:
                before_send()
                answer = await exchange.ask(f"{lines}\r\n".encode("ascii") + data)
            except BaseException:
                exchange.abort()
                raise
            self._leave(exchange)
            return answer

    def close(self) -> None:
        """Close what is idle at once, and everything else with its answer."""
        self._closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        while self._idle:
            self._idle.pop().abort()

    def _taken(self) -> "_Exchange | None":
        while self._idle:
            exchange = self._idle.pop()
            if exchange.reusable:
                return exchange
            exchange.close()
        return None

    def _leave(self, exchange: "_Exchange") -> None:
        if self._closed or not exchange.reusable:
            exchange.close()
            return
        loop = asyncio.get_running_loop()
        exchange.idle_since = loop.time()
        self._idle.append(exchange)
        if self._sweeping is None:
            self._sweeping = loop.call_later(_IDLE_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Close what has not been used for a while, and look again as long as there is more."""
        loop = asyncio.get_running_loop()
        self._sweeping = None
        # A timer may be early by a rounding error: never begin it anew for nothing but that.
        while self._idle and loop.time() - self._idle[0].idle_since > _IDLE_SECONDS - 1:
            self._idle.popleft().close()
        if self._idle:
            due = self._idle[0].idle_since + _IDLE_SECONDS
            self._sweeping = loop.call_at(due, self._sweep)

    async def _connected(self) -> "_Exchange":
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._connect_seconds):
            transport, exchange = await loop.create_connection(
                _Exchange,
                self._host,
                self._port,
                ssl=self._tls,
                server_hostname=self._server_hostname,
            )
        made = transport.get_extra_info("socket")
        if made is not None:
            self._prepare(made)
        return exchange


class _Exchange(asyncio.BufferedProtocol):
    """One connection: a request, its answer, and then the next one."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self._parser = httptools.HttpResponseParser(self)
        self._view = memoryview(bytearray(_BUFFER))
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Answer] | None = None
        self._answer = Answer()
        self._parts: list[bytes] = []
        self._size = 0  # bytes of them
        self._until_end = False  # nothing but the end of the connection ends the answer
        self._ends = False  # the server closes it afterwards

    @property
    def reusable(self) -> bool:
        return self._transport is not None and not self._ends and not self._transport.is_closing()

    def ask(self, request: bytes) -> "asyncio.Future[Answer]":
        """Send a request; the answer comes later, or the error for which none comes."""
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        if self._transport is None:
            self._fail("the connection was closed")
        else:
            self._transport.write(request)
        return waiter

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close it at once: an answer may be under way that nobody waits for any more."""
        self._waiter = None
        if self._transport is not None:
            self._transport.abort()

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, _hint: int) -> memoryview:
        # Of a bytearray asyncio's TLS would take slices, which are copies: from the second record
        # on they would be filled instead.
        return self._view

    def buffer_updated(self, size: int) -> None:
        if self._waiter is None:  # nobody has asked: an answer to nothing, or a late one
            self.abort()
            return
        try:
            self._parser.feed_data(self._view[:size])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(f"the answer can't be read: {error}")
            self.abort()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._until_end and error is None:
            self._finish()
        else:
            self._fail(str(error or "the server closed the connection"))
        # It refers to us: together they would wait for the garbage collector, with the buffer.
        del self._parser

    # Called by the parser

    def on_message_begin(self) -> None:
        if self._waiter is None:  # a second answer to one request: whose is the next one?
            self._ends = True

    def on_header(self, name: bytes, value: bytes) -> None:
        self._answer.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        headers = self._answer.headers
        self._answer.status = self._parser.get_status_code()
        self._ends = self._ends or not self._parser.should_keep_alive()
        framed = "content-length" in headers or "transfer-encoding" in headers
        self._until_end = self._ends and not framed and self._answer.status >= _OK

    def on_body(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > _MOST_BYTES:
            self._fail(f"the answer has more than {_MOST_BYTES} bytes")
            self.abort()
            return
        self._parts.append(part)

    def on_message_complete(self) -> None:
        if self._answer.status < _OK:  # such as 103 Early Hints
            self._answer, self._until_end = Answer(), False
            return
        self._finish()

    def _finish(self) -> None:
        answer, self._answer = self._answer, Answer()
        answer.body = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        self._until_end = False
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(answer)

    def _fail(self, why: str) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(BrokenAnswerError(why))


def _header_lines(headers: Mapping[str, str]) -> str:
    lines = []
    for name, value in headers.items():
        if not _VALUE.fullmatch(value):
            raise ValueError(f"no value of a header: {name}")
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines)

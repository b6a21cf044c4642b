"""HTTP/1.1 for short questions with short answers, in a quarter less CPU than uvicorn's own.

uvicorn accepts connections, speaks TLS and stops; this protocol takes its place on an open
connection. It reads into a buffer of its own, which spares the TLS layer a quarter of a MiB for
each piece, calls the application once a question is there as a whole, and writes the answer as
one piece. What it leaves out: web sockets, streams in either direction, and the access log.
"""

import asyncio
import http
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote_to_bytes

import httptools
import uvicorn
from uvicorn.server import ServerState

logger = logging.getLogger(__name__)

_BUFFER = 32 * 1024  # bytes; two records of TLS
_MOST_FRAMING = 64 * 1024  # bytes of one question that are no body; as many as the body besides
_LONGEST_QUESTION = 30.0  # seconds from its first byte to its last; nobody waits longer for answers

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode()
    for status in http.HTTPStatus
}
_CLOSE = b"connection: close\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(slots=True, eq=False)
class _Question:
    """One request, while it comes in and until it is answered."""

    url: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    method: str = ""  # empty until all headers are there
    version: str = "1.1"
    parts: list[bytes] = field(default_factory=list)
    size: int = 0  # of the body, in bytes
    read: int = 0  # bytes, but those of the last piece
    cut: bool = False  # the body is too large, and the application is told so
    asked: bool = False  # the application was called, or soon will be
    keep_alive: bool = True


class LeanHttp(asyncio.BufferedProtocol):
    """One connection; what :class:`uvicorn.Config` calls an HTTP protocol class.

    A body that grows beyond ``largest_body`` bytes, or announces it, is handed over as far as it
    is there, marked as unfinished, and what comes after is dropped: the application may answer
    that it is too large, and the next question on the connection is one again. Questions that
    come before the last one is answered wait, and nothing more is read meanwhile, nor while the
    client doesn't read its answers. A question that takes longer than half a minute to come in is
    not waited for, nor is one whose headers don't end (X60).
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: Mapping[str, Any],  # noqa: ARG002 - of the lifespan protocol, which is off
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        largest_body: int,
    ) -> None:
        self._largest_body = largest_body
        self._app = config.loaded_app
        self._state = server_state
        self._loop = _loop or asyncio.get_running_loop()
        self._keep_alive = config.timeout_keep_alive
        self._parser = httptools.HttpRequestParser(self)
        self._view = memoryview(bytearray(_BUFFER))
        self._transport: asyncio.Transport | None = None
        self._client: tuple[Any, ...] | None = None
        self._incoming = _Question()
        self._waiting: deque[_Question] = deque()
        self._answering: _Question | None = None
        self._asked_since: float | None = None  # when the unfinished question began
        self._ending = False  # the next answer is the last
        self._unread = False  # the client leaves answers lying
        self._last_use = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    # Called by the transport and by uvicorn

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._client = transport.get_extra_info("peername")
        self._state.connections.add(cast("Any", self))
        self._look_later(self._keep_alive)

    def connection_lost(self, _error: Exception | None) -> None:
        self._state.connections.discard(cast("Any", self))
        self._transport = None
        self._waiting.clear()
        # It refers to us: together they would wait for the garbage collector, with the buffer.
        del self._parser, self._view
        if self._timer is not None:
            self._timer.cancel()

    def get_buffer(self, _hint: int) -> memoryview:
        # Of a bytearray asyncio's TLS would take slices, which are copies: from the second record
        # on they would be filled instead.
        return self._view

    def buffer_updated(self, size: int) -> None:
        self._last_use = self._loop.time()
        try:
            self._parser.feed_data(self._view[:size])
        except httptools.HttpParserUpgrade:
            self._ending = True  # the question is answered; what follows is another protocol
        except httptools.HttpParserError:
            self._refuse(400, b"Invalid HTTP request received.\n")
        if self._asked_since is not None:
            # The parser keeps what has no end yet: one header may be as long as it likes.
            question = self._incoming
            question.read += size
            if question.read - question.size > _MOST_FRAMING + question.size:
                self._refuse(400, b"The headers are too large.\n")

    def pause_writing(self) -> None:
        self._unread = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._unread = False
        self._read_on()

    def shutdown(self) -> None:
        """Answer the question at hand, also one that is still coming in, and close."""
        self._ending = True
        at_hand = self._answering is not None or self._asked_since is not None
        if not at_hand and self._transport is not None:
            self._transport.close()

    # Called by the parser

    def on_message_begin(self) -> None:
        self._incoming = _Question()
        self._asked_since = self._last_use

    def on_url(self, url: bytes) -> None:
        self._incoming.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        question = self._incoming
        if not question.method:  # else it comes after the body, and nobody waits for it there
            question.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        question = self._incoming
        question.method = self._parser.get_method().decode("ascii")
        question.version = self._parser.get_http_version()
        expects = False
        for name, value in question.headers:
            if name == b"content-length" and int(value) > self._largest_body:
                question.cut = True
                self._take(question)
                return
            expects = expects or (name == b"expect" and value.lower() == b"100-continue")
        expects = expects and question.version != "1.0" and self._answering is None
        if expects and self._transport is not None:
            self._transport.write(_CONTINUE)

    def on_body(self, body: bytes) -> None:
        question = self._incoming
        question.size += len(body)
        if question.asked:
            return  # the application has heard enough
        question.parts.append(body)
        if question.size > self._largest_body:
            question.cut = True
            self._take(question)

    def on_message_complete(self) -> None:
        question = self._incoming
        self._asked_since = None
        question.keep_alive = self._parser.should_keep_alive() and question.version != "1.0"
        if not question.asked:
            self._take(question)

    # Asking and answering

    def _take(self, question: _Question) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        question.asked = True
        if self._answering is not None:
            self._waiting.append(question)
            self._transport.pause_reading()
            return
        self._ask(question)

    def _ask(self, question: _Question) -> None:
        self._answering = question
        task = self._loop.create_task(self._answer(question))
        self._state.tasks.add(task)
        task.add_done_callback(self._state.tasks.discard)

    async def _answer(self, question: _Question) -> None:
        body = b"".join(question.parts)
        question.parts.clear()
        told: Mapping[str, Any] | None = {
            "type": "http.request",
            "body": body,
            "more_body": question.cut,
        }
        status, headers, answer = 0, (), b""

        async def receive() -> Mapping[str, Any]:
            nonlocal told
            now, told = told, None
            return now or {"type": "http.disconnect"}

        async def send(message: Mapping[str, Any]) -> None:
            nonlocal status, headers, answer
            if message["type"] == "http.response.start":
                status, headers = message["status"], message["headers"]
            else:
                answer += message.get("body", b"")

        try:
            await self._app(cast("Any", self._scope(question)), receive, cast("Any", send))
        except asyncio.CancelledError:  # the process ends, and this took too long
            if self._transport is not None:
                self._transport.close()
            raise
        # Whatever it is, the client gets an answer, and the connection stays of use.
        except Exception:
            logger.exception("the application failed")
            status, headers, answer = 500, (), b""
        self._write(question, status or 500, headers, answer)

    def _scope(self, question: _Question) -> dict[str, Any]:
        path, _, query = question.url.partition(b"?")
        raw = unquote_to_bytes(path) if b"%" in path else path
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": question.version,
            "method": question.method,
            "scheme": "https",
            "path": raw.decode("utf-8", "replace"),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": question.headers,
            "client": self._client,
        }

    def _write(self, question: _Question, status: int, headers: Any, answer: bytes) -> None:
        """One piece, and then the next question."""
        self._answering = None
        self._state.total_requests += 1
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        ending = self._ending or not question.keep_alive
        lines = [_STATUS_LINES[status]]
        has_length = False
        for name, value in headers:
            lines += (name, b": ", value, b"\r\n")
            has_length = has_length or name == b"content-length"
        if not has_length:
            lines.append(b"content-length: %d\r\n" % len(answer))
        if ending:
            lines.append(_CLOSE)
        lines.append(b"\r\n")
        if question.method != "HEAD":
            lines.append(answer)
        transport.write(b"".join(lines))
        if ending:
            transport.close()
        elif self._waiting:
            self._ask(self._waiting.popleft())
            self._read_on()

    def _read_on(self) -> None:
        if self._transport is not None and not self._waiting and not self._unread:
            self._transport.resume_reading()

    def _refuse(self, status: int, text: bytes) -> None:
        """Answer what is no HTTP, or too much of it, and close."""
        self._ending = True
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._answering is not None:
            transport.pause_reading()
            return
        if self._asked_since is not None and self._incoming.asked:  # and so it has its answer
            transport.close()
            return
        head = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n" % len(text)
        transport.write(_STATUS_LINES[status] + head + _CLOSE + b"\r\n" + text)
        transport.close()

    def _look_later(self, seconds: float) -> None:
        wait = min(max(seconds, 1.0), _LONGEST_QUESTION)
        self._timer = self._loop.call_later(wait, self._look_at_time)

    def _look_at_time(self) -> None:
        """Close a connection that is idle, or whose question doesn't come to an end."""
        if self._transport is None:
            return
        now, since = self._loop.time(), self._asked_since
        left = self._last_use + self._keep_alive - now
        if self._answering is None:
            if left <= 0:
                self._transport.close()
                return
            if since is not None and now - since >= _LONGEST_QUESTION:
                self._refuse(408, b"The request takes too long.\n")
                return
        self._look_later(left)

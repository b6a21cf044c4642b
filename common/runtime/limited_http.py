"""uvicorn's HTTP/1.1 protocol, with limits on sizes and times of a client's requests.

Every port has the same limits. A client that exceeds one gets an error response, if that is still
possible, and the connection is closed.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import httptools
import uvicorn
from uvicorn._types import (
    ASGI3Application,
    ASGIReceiveCallable,
    ASGISendCallable,
    ASGISendEvent,
    Scope,
)
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from common.runtime.connection_limits import Connections, Place

_MOST_PIPELINED = 32  # requests behind the one that is being answered
_VERSIONS = ("1.0", "1.1")
_LINGER = 1.0  # seconds
_TEXTS = {
    400: b"not a valid HTTP request\n",
    408: b"the request takes too long\n",
    413: b"the body is too large\n",
    431: b"the headers are too large\n",
    501: b"chunked is the only transfer encoding that is supported\n",
    503: b"too many requests at once\n",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """The limits for clients; sizes are in bytes, times in seconds."""

    head: int = 64 * 1024  # of request line and headers, and also of chunk framing
    headers: int = 100
    body: int = 5 * 1024 * 1024
    bodies: int = 16 * 1024 * 1024  # of all connections together
    handshake: float = 10.0
    request: float = 30.0  # from the first byte of a request to its last
    idle: int = 60
    unread: float = 30.0  # until the client reads an answer
    connections: int = 512
    connections_of_peer: int = 256


class _RefusedError(Exception):
    """An error that a callback raises to end the parser; ``status`` is the answer."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def _closing_unread(cycle: RequestResponseCycle, app: ASGI3Application) -> ASGI3Application:
    """Close the connection after a final answer in place of 100 Continue.

    The client may omit the body then. The following bytes may be the body or the next request,
    which behind a proxy may belong to another client.

    Source: RFC 9110 10.1.1.
    """

    async def run(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        async def send_last(message: ASGISendEvent) -> None:
            if cycle.waiting_for_100_continue and cycle.more_body:
                cycle.keep_alive = False
            await send(message)

        await app(scope, receive, send_last)

    return run


class LimitedHttp(HttpToolsProtocol):
    """The protocol of one connection.

    Transport and parser call back one object, uvicorn's protocol, so it also counts for the limits.
    That is why it has more attributes than other classes: each is a count, a flag or a timer of the
    incoming request or of the one that is being answered.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        *,
        limits: HttpLimits,
        connections: Connections,
        place: Place,
        refused: Callable[[int], None],
    ) -> None:
        """Call ``refused`` with the status of each error response that this class sends."""
        super().__init__(config, server_state, app_state={})
        self._limits = limits
        self._all = connections
        self._place = place
        self._refused = refused
        self._extensions: dict[str, dict[object, object]] = {}
        self._answering: RequestResponseCycle | None = None
        self._refusal = 0  # the status of a refusal, after which nothing is read
        self._ends = False  # the incoming request is the last
        self._incoming = False  # a request has started and not ended
        self._has_headers = False  # its headers are complete, so self.cycle belongs to it
        self._head = self._body = self._read = 0  # bytes of it
        self._piece = 0  # bytes of what is being parsed
        self._slow: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    # Called by the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows it, too
        super().connection_made(transport)
        self._place.abort = transport.abort
        certificate = transport.get_extra_info("peercert")
        if certificate:
            parts = (part for parts in certificate.get("subject", ()) for part in parts)
            name = ",".join(f"{key}={value}" for key, value in parts)
            self._extensions = {"tls": {"client_cert_name": name}}
        if not self._place.is_taken:  # since its handshake was done
            transport.abort()
        self._start_idle_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.leave(self._place)
        self._unset_keepalive_if_required()
        self._unset_slow()
        if self._unread is not None:
            self._unread.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._refusal:
            return
        self._piece = len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(400)  # this request is answered; the bytes after it are no HTTP/1.1
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._refuse(cause.status if isinstance(cause, _RefusedError) else 400)
        else:
            self._update_timers()

    def _update_timers(self) -> None:
        if self._incoming:
            # The parser buffers an incomplete header without a limit.
            self._read += self._piece
            if self._read - self._body > self._limits.head + self._body:
                self._refuse(431)
            elif self._slow is None:
                self._slow = self.loop.call_later(self._limits.request, self._refuse, 408)
        else:
            self._unset_slow()
            if self._answering is None:
                self._start_idle_timer()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self._limits.unread, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    # Called by the parser

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = self._extensions
        self._unset_slow()
        self._incoming, self._has_headers = True, False
        self._head = self._body = 0
        self._read = -self._piece  # earlier bytes of the same piece belong to another request

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value))
        if self._has_headers:
            return  # a trailer; applications don't read any
        if len(self.headers) >= self._limits.headers:
            raise _RefusedError(431)
        lower = name.lower()
        if lower == b"content-length" and value.isdigit() and int(value) > self._limits.body:
            raise _RefusedError(413)
        if lower == b"transfer-encoding" and value.strip(b" \t").lower() != b"chunked":
            raise _RefusedError(501)  # RFC 9112 6.1; a proxy may see another end of the body
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        version = self.parser.get_http_version()
        if version not in _VERSIONS:
            raise _RefusedError(400)
        if self.parser.get_method() == b"CONNECT":
            raise _RefusedError(400)  # a client would treat any success as a tunnel
        if version == "1.0":
            self.expect_100_continue = False  # HTTP/1.0 has no 100 Continue
        if len(self.pipeline) >= _MOST_PIPELINED:
            raise _RefusedError(503)
        super().on_headers_complete()
        self._has_headers = True
        if self._ends:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        if self._body > self._limits.body:
            raise _RefusedError(413)
        if not self._all.hold(self._place, len(body)):
            raise _RefusedError(503)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._incoming = False
        super().on_message_complete()
        if not self.parser.should_keep_alive():
            # A trailer can also request this. The parser drops further requests without an answer.
            self.cycle.keep_alive = False
            if self.cycle.response_complete:
                self.transport.close()
        if self._answering is None:
            self._all.release(self._place)  # it was answered before its end
        else:
            self._all.answer(self._place)

    def _count_head(self, size: int) -> None:
        self._head += size
        if self._head > self._limits.head:
            raise _RefusedError(431)

    # Answers

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answering = cycle
        if cycle.waiting_for_100_continue:
            app = _closing_unread(cycle, app)
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        self._answering = None
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self.pipeline:
            self.flow.pause_reading()
        if self._answering is None:
            if not self._incoming:
                self._all.release(self._place)
            self._all.wait(self._place)

    def shutdown(self) -> None:
        """Answer the current request, even if it is still incomplete, and close."""
        self._ends = True
        if self._answering is not None:
            self._answering.keep_alive = False
        elif not self._incoming:
            self.transport.close()

    def _refuse(self, status: int) -> None:
        """Answer earlier requests, then send an error and close."""
        self._refusal = status
        self._refused(status)
        self._unset_slow()
        if self.transport.is_closing():
            return
        answering, has_headers = self._answering, self._incoming and self._has_headers
        if answering is not None and not (has_headers and answering is self.cycle):
            answering.keep_alive = False
            self.pipeline.clear()
            self.flow.pause_reading()
            return
        if has_headers and (answering is None or answering.response_started):
            self.transport.close()  # the client has its answer
            return
        if answering is not None:
            answering.disconnected = True
            answering.message_event.set()
        self._answer_with(status)

    def _answer_with(self, status: int) -> None:
        """Answer with an error, and close when the client has had time to read it.

        Drop the data that it sends until then: closing with unread data would reset the connection
        before the client reads the answer.
        """
        text = _TEXTS[status]
        headers = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n" % len(text)
        end = b"connection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + headers + end + text)
        self._all.release(self._place)
        self._all.wait(self._place)
        # Frees what it buffers of an unfinished header.
        self.parser = None  # type: ignore[assignment]  # uvicorn does so in connection_lost
        if self._incoming and not self._has_headers:
            self.headers.clear()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._slow = self.loop.call_later(_LINGER, self.transport.close)

    def _start_idle_timer(self) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            self._limits.idle, self.timeout_keep_alive_handler
        )

    def _unset_slow(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

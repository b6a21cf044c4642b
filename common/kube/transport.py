"""One HTTP session to one API server: time-outs, limits, credentials and typed errors."""

import asyncio
import functools
import io
import random
import re
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from urllib.parse import urlencode

import aiohttp
from prometheus_client import CollectorRegistry
from yarl import URL

from common.errors import InvalidRequestError, KubeError, ServerError, UnreachableError
from common.kube.client_metrics import NO_ANSWER, ClientMetrics
from common.kube.connection import Connection
from common.kube.connectivity import Connectivity
from common.kube.status_errors import answer_error
from common.runtime.rate_limit import RateLimiter

Query = Mapping[str, str | int]

CALL_SECONDS = 30.0
"""The time limit of a call, including its whole answer, in seconds."""

MOST_BYTES = 512 * 1024 * 1024
"""Size limit of an answer's body; lists are paged, and the usage of 150,000 pods has 90 MiB."""

_MOST_BYTES_OF_WRITE = 64 * 1024 * 1024  # of the answer to a write; objects have 3 MiB at most
_MOST_BYTES_AT_ONCE = 1024 * 1024  # of a request; aiohttp warns of more
_CONNECT_SECONDS = 10.0
_IDLE_SECONDS = 30.0  # servers close idle connections after a minute or more
_MOST_CONNECTIONS = 128  # a dozen of them are watches
_TRIES = 4  # of a read
_FIRST_PAUSE = 0.1  # seconds before the second try; each further one is three times as long
_LONGEST_PAUSE = 10.0  # seconds; if a server requests a longer one, the error is raised
_RETRIED = frozenset({429, 500, 502, 503, 504})
_SENDABLE = re.compile(r"/[!$-;=?-Z_a-z~]*")  # characters of a path with a query
_UNLIMITED = RateLimiter(0, 0)  # for watches, which are few and needed by everything else
_FAILURES = (aiohttp.ClientError, OSError, TimeoutError, ValueError)


def no_check() -> None:
    """Allow every request."""


# Passes the call to aiohttp's request within one task.
_before_send: ContextVar[Callable[[], None]] = ContextVar("before_send", default=no_check)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request other than a watch; the attributes are its options."""

    method: str
    path: str
    query: Query | None = None
    body: bytes | None = None
    content_type: str = ""
    seconds: float = CALL_SECONDS
    retry: bool = False
    limiter: RateLimiter = _UNLIMITED  # each try takes a token
    accept: str = ""  # media types of the answer; empty: JSON
    most_bytes: int = MOST_BYTES  # of the answer's body
    timeout_is_outage: bool = True  # a time-out means that the API server is unreachable
    before_send: Callable[[], None] = no_check  # a KubeError from it prevents the request


class Transport:
    """The transport of requests; only it handles HTTP statuses and aiohttp's exceptions.

    After a 401 it renews the credentials and sends the request once more, because the server has
    not carried it out. Calls that allow it are retried with growing pauses, unless the server is
    unreachable: a thousand look-ups would wait for it one after the other.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        user_agent: str,
        rng: random.Random,
        metrics: ClientMetrics | None = None,
    ) -> None:
        self.connectivity = Connectivity(connection.base_url)
        self._connection = connection
        self._user_agent = user_agent
        self._rng = rng
        self._metrics = metrics or ClientMetrics(CollectorRegistry())
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> None:
        """Create the session; connections are opened on demand."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=self._connection.ssl_context or True,
                limit=_MOST_CONNECTIONS,
                keepalive_timeout=_IDLE_SECONDS,
                socket_factory=_keepalive_socket,
            ),
            request_class=_CheckedRequest,
            trust_env=False,  # the environment's proxies are not for the API server
            headers={"User-Agent": self._user_agent, "Accept": "application/json"},
            read_bufsize=2**18,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def request(self, call: Call) -> bytes:
        """Send the request and return the body of the answer.

        Raises:
            KubeError: the server refused, or there was no answer.
        """
        tries = _TRIES if call.retry and self.connectivity.reachable else 1
        pause = _FIRST_PAUSE
        while True:
            tries -= 1
            with self._metrics.waiting(call.method):
                await call.limiter.acquire()
            try:
                return await self._call(call)
            except KubeError as error:
                hint = error.retry_after or 0.0
                if not tries or not _is_temporary(error, call) or hint > _LONGEST_PAUSE:
                    raise
            await asyncio.sleep(max(hint, pause * self._rng.uniform(0.5, 1.5)))
            pause *= 3

    async def stream(
        self,
        path: str,
        query: Query,
        *,
        seconds: float,
        idle: float,
        accept: str = "",
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Yield the body of a watch chunk by chunk.

        It ends without an error when the server ends it, and after ``idle`` seconds without a
        byte: the next watch shows whether the server is reachable. ``seconds`` is the duration
        that the watch requested.
        """
        timeout = aiohttp.ClientTimeout(
            total=seconds + CALL_SECONDS, sock_connect=_CONNECT_SECONDS, sock_read=idle
        )
        call = Call(method="GET", path=path, query=query, accept=accept)
        response = await self._open(call, timeout)
        self.connectivity.answered()
        if on_open is not None:
            on_open()
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except TimeoutError:
            return
        except _FAILURES as error:
            raise UnreachableError(
                f"watch of {path} broke: {_text(error)}", reason="Unreachable"
            ) from error
        finally:
            response.close()

    async def _call(self, call: Call) -> bytes:
        with self._metrics.timed(call.method, call.path):
            answer = await self._open(call, _timeout(call.seconds))
            try:
                async with answer:
                    content = await read_body(answer, most=_most_bytes(call))
            except _FAILURES as error:
                raise self._error(call, error) from error
        self.connectivity.answered()
        return content

    async def _open(self, call: Call, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """Return the successful answer to a request, with an unread body."""
        renewed = False
        while True:
            identification = await self._connection.headers()
            try:
                async with asyncio.timeout(call.seconds):
                    answer = await self._send(call, identification, limits)
                    if answer.status < 300:
                        return answer
                    async with answer:
                        content = await read_body(answer, most=_most_bytes(call))
            except _FAILURES as error:
                raise self._error(call, error) from error
            self.connectivity.answered()
            if answer.status != 401 or renewed or not await self._connection.renew(identification):
                raise answer_error(answer.status, answer.headers, content)
            renewed = True

    async def _send(
        self, call: Call, identification: Mapping[str, str], limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("the client is not open: use it as an asynchronous context manager")
        _before_send.set(call.before_send)
        code = NO_ANSWER
        try:
            answer = await self._session.request(
                call.method,
                URL(self._connection.base_url + _target(call), encoded=True),
                headers=_headers(call, identification),
                data=_payload(call.body),
                timeout=limits,
                allow_redirects=False,
                proxy=self._connection.proxy or None,
                server_hostname=self._connection.server_hostname or None,
                middlewares=(_send_once,) if call.method in ("PUT", "DELETE") else None,
            )
            code = str(answer.status)
            return answer
        finally:
            self._metrics.answered(call.method, call.path, code)

    def _error(self, call: Call, cause: Exception) -> KubeError:
        # aiohttp's InvalidURL is a ValueError, but so are its certificate errors.
        unsent = isinstance(cause, ValueError)
        if unsent and not isinstance(cause, aiohttp.ClientConnectionError):
            return InvalidRequestError(
                f"{call.method} {call.path!r} can't be sent: {_text(cause)}",
                reason="InvalidRequest",
            )
        error = UnreachableError(
            f"{call.method} {call.path}: no answer: {_text(cause)}", reason="Unreachable"
        )
        if call.timeout_is_outage or not isinstance(cause, TimeoutError):
            self.connectivity.lost(error)
        return error


class _CheckedRequest(aiohttp.ClientRequest):
    """A request that is checked when it has a connection, immediately before it is sent."""

    async def send(self, conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        _before_send.get()()
        return await super().send(conn)


async def _send_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Keep aiohttp from sending a PUT or DELETE twice.

    aiohttp does so if a kept-alive connection breaks, although the server may have carried out the
    first request.
    """
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientConnectionError(_text(error)) from error


def _most_bytes(call: Call) -> int:
    """Return the size limit of the answer."""
    return call.most_bytes if call.method == "GET" else _MOST_BYTES_OF_WRITE


async def read_body(answer: aiohttp.ClientResponse, *, most: int = MOST_BYTES) -> bytes:
    """Read the whole body.

    Raises:
        ServerError: it is larger than ``most`` bytes; the rest stays unread.
    """
    parts: list[bytes] = []
    size = 0
    while chunk := await answer.content.readany():
        parts.append(chunk)
        size += len(chunk)
        if size > most:
            answer.close()
            raise ServerError(f"the answer has more than {most} bytes", reason="AnswerTooLarge")
    return b"".join(parts)


def _target(call: Call) -> str:
    """Return the path and query of a call, encoded.

    Raises:
        ValueError: the path has characters that have to be quoted.
    """
    if not _SENDABLE.fullmatch(call.path):
        raise ValueError("the path has characters that are no part of a URL")
    return f"{call.path}?{urlencode(call.query)}" if call.query else call.path


def _headers(call: Call, identification: Mapping[str, str]) -> dict[str, str]:
    headers = dict(identification)
    if call.accept:
        headers["Accept"] = call.accept
    if call.body is not None:
        headers["Content-Type"] = call.content_type
    return headers


def _payload(body: bytes | None) -> bytes | io.BytesIO | None:
    """Return the body, as a file if it is large, which aiohttp writes in pieces."""
    return io.BytesIO(body) if body is not None and len(body) > _MOST_BYTES_AT_ONCE else body


@functools.lru_cache(maxsize=64)
def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds, sock_connect=_CONNECT_SECONDS)


def _is_temporary(error: KubeError, call: Call) -> bool:
    """Return True if a retry of the same read may succeed soon."""
    hung = isinstance(error.__cause__, TimeoutError) and not call.timeout_is_outage
    if hung or error.reason == "AnswerTooLarge":
        return False
    return isinstance(error, UnreachableError) or error.status in _RETRIED


def _text(cause: Exception) -> str:
    return " ".join(str(cause).split()) or type(cause).__name__


def _keepalive_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Return a socket that detects an unreachable peer within a minute or two."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):  # Linux has all of them
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made

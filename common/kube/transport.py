"""One HTTP session to one API server: time-outs, limits, credentials, and errors by name."""

import asyncio
import functools
import random
import re
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from common.errors import InvalidRequestError, KubeError, ServerError, UnreachableError
from common.kube.answers import answer_error
from common.kube.connection import Connection
from common.kube.connectivity import Connectivity
from common.kube.short_calls import ShortCalls
from common.runtime.rate_limit import RateLimiter

Query = Mapping[str, str | int]

CALL_SECONDS = 30.0
"""How long a call may take, its whole answer included."""

MOST_BYTES = 512 * 1024 * 1024
"""Of the body of an answer; lists come in pages, and the usage of 150,000 pods takes 90 MiB."""

_CONNECT_SECONDS = 10.0
_TRIES = 4  # of a read
_FIRST_PAUSE = 0.1  # seconds before the second try; each further one is three times as long
_LONGEST_PAUSE = 10.0  # seconds; where a server asks for more, the caller gets the error
_RETRIED = frozenset({429, 500, 502, 503, 504})
_SENDABLE = re.compile(r"/[!$-;=?-Z_a-z~]*")  # what a path, and a query within it, may have
_UNLIMITED = RateLimiter(0, 0)  # watches: there are few, and everything waits for them
_FAILURES = (aiohttp.ClientError, OSError, TimeoutError)


def no_check() -> None:
    """Keep no request back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request that is answered at once."""

    method: str
    path: str
    query: Query
    body: bytes | None
    content_type: str
    seconds: float
    retry: bool
    limiter: RateLimiter  # whose turn each try takes
    accept: str = ""  # media types of the answer; empty: JSON
    most_bytes: int = MOST_BYTES  # of the answer's body
    tells_reachability: bool = True  # a time-out means that the API server is away
    before_send: Callable[[], None] = no_check  # a KubeError that it raises keeps the request back


class Transport:
    """Sends requests; the only place that sees HTTP statuses and aiohttp's exceptions.

    A refused credential (401) is renewed, and the request sent once more: it was not carried
    out. Calls that allow it are tried again after growing pauses, unless the server is known to
    be away: a thousand questions would wait for it one after the other.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        user_agent: str,
        rng: random.Random,
    ) -> None:
        self.connectivity = Connectivity(connection.base_url)
        self._connection = connection
        self._user_agent = user_agent
        self._rng = rng
        self._session: aiohttp.ClientSession | None = None
        self._short: ShortCalls | None = None

    def open(self) -> None:
        connector = aiohttp.TCPConnector(
            ssl=self._connection.ssl_context or True,
            limit=100,
            keepalive_timeout=30,
            socket_factory=_watchful_socket,
        )
        headers = {"User-Agent": self._user_agent, "Accept": "application/json"}
        if not self._connection.proxy:
            self._short = ShortCalls(
                self._connection.base_url,
                tls=self._connection.ssl_context,
                server_hostname=self._connection.server_hostname,
                headers=headers,
                connect_seconds=_CONNECT_SECONDS,
                prepare=_make_watchful,
            )
        self._session = aiohttp.ClientSession(
            connector=connector,
            trust_env=False,  # the environment's proxies are not for the API server
            headers=headers,
            read_bufsize=2**18,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def close(self) -> None:
        if self._short is not None:
            self._short.close()
            self._short = None
            await asyncio.sleep(0)  # connections close with the loop's next turn
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def request(self, call: Call) -> bytes:
        """The body of the answer.

        Raises:
            KubeError: the server refused, or there was no answer.
        """
        tries = _TRIES if call.retry and self.connectivity.reachable else 1
        pause = _FIRST_PAUSE
        while True:
            tries -= 1
            await call.limiter.acquire()
            try:
                return await self._call(call)
            except KubeError as error:
                hint = error.retry_after or 0.0
                if not tries or not _passes(error, call) or hint > _LONGEST_PAUSE:
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
        """The body of a watch, chunk by chunk as it comes.

        It ends quietly when the server ends it, and after ``idle`` seconds without a byte:
        who is still there tells so on the next watch. ``seconds`` is what the server was
        asked to keep it open for.
        """
        timeout = aiohttp.ClientTimeout(
            total=seconds + CALL_SECONDS, sock_connect=_CONNECT_SECONDS, sock_read=idle
        )
        call = Call(
            method="GET",
            path=path,
            query=query,
            body=None,
            content_type="",
            seconds=CALL_SECONDS,
            retry=False,
            limiter=_UNLIMITED,
            accept=accept,
        )
        response = await self._open_stream(call, timeout)
        if on_open is not None:
            on_open()
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except TimeoutError:
            return
        except _FAILURES as error:
            raise UnreachableError(
                f"watch of {path} broke: {_told(error)}", reason="Unreachable"
            ) from error
        finally:
            response.close()

    async def _call(self, call: Call) -> bytes:
        renewed = False
        while True:
            identification = await self._connection.headers()
            try:
                status, headers, content = await self._answer(call, identification)
            except ValueError as error:  # aiohttp's InvalidURL is one, too
                raise _invalid(call, error) from error
            except _FAILURES as error:
                raise self._unreachable(call, error) from error
            self.connectivity.answered()
            if status < 300:
                return content
            if status != 401 or renewed or not await self._connection.renew(identification):
                raise answer_error(status, headers, content)
            renewed = True

    async def _answer(
        self, call: Call, identification: Mapping[str, str]
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body. Reads may be long, and are better compressed."""
        if call.method == "GET" or call.accept or self._short is None:
            call.before_send()
            async with await self._send(call, identification, _within(call.seconds)) as answer:
                return answer.status, answer.headers, await read_body(answer, most=call.most_bytes)
        async with asyncio.timeout(call.seconds):
            found = await self._short.send(
                call.method,
                _target(call),
                headers=_headers(call, identification),
                body=call.body,
                before_send=call.before_send,
            )
        return found.status, found.headers, found.body

    async def _open_stream(
        self, call: Call, limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        renewed = False
        while True:
            identification = await self._connection.headers()
            try:
                async with asyncio.timeout(call.seconds):
                    answer = await self._send(call, identification, limits)
                    if answer.status < 300:
                        self.connectivity.answered()
                        return answer
                    async with answer:
                        content = await read_body(answer)
            except ValueError as error:
                raise _invalid(call, error) from error
            except _FAILURES as error:
                raise self._unreachable(call, error) from error
            self.connectivity.answered()
            if answer.status != 401 or renewed or not await self._connection.renew(identification):
                raise answer_error(answer.status, answer.headers, content)
            renewed = True

    async def _send(
        self, call: Call, identification: Mapping[str, str], limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("the client is not open: use it as an asynchronous context manager")
        return await self._session.request(
            call.method,
            URL(self._connection.base_url + _target(call), encoded=True),
            headers=_headers(call, identification),
            data=call.body,
            timeout=limits,
            allow_redirects=False,
            proxy=self._connection.proxy or None,
            server_hostname=self._connection.server_hostname or None,
        )

    def _unreachable(self, call: Call, cause: Exception) -> UnreachableError:
        error = UnreachableError(
            f"{call.method} {call.path}: no answer: {_told(cause)}", reason="Unreachable"
        )
        if call.tells_reachability or not isinstance(cause, TimeoutError):
            self.connectivity.lost(error)
        return error


async def read_body(answer: aiohttp.ClientResponse, *, most: int = MOST_BYTES) -> bytes:
    """Read the whole body.

    Raises:
        ServerError: it is larger than ``most`` bytes; the rest stays unread.
    """
    parts: list[bytes] = []
    size = 0
    async for chunk in answer.content.iter_any():
        parts.append(chunk)
        size += len(chunk)
        if size > most:
            answer.close()
            raise ServerError(f"the answer has more than {most} bytes", reason="AnswerTooLarge")
    return b"".join(parts)


def _invalid(call: Call, cause: Exception) -> InvalidRequestError:
    return InvalidRequestError(
        f"{call.method} {call.path!r} can't be sent: {_told(cause)}", reason="InvalidRequest"
    )


def _target(call: Call) -> str:
    """Return path and query as they are sent.

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


@functools.lru_cache(maxsize=64)
def _within(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds, sock_connect=_CONNECT_SECONDS)


def _passes(error: KubeError, call: Call) -> bool:
    """Whether the trouble may be over in a moment."""
    hung = isinstance(error.__cause__, TimeoutError) and not call.tells_reachability
    if hung or error.reason == "AnswerTooLarge":
        return False
    return isinstance(error, UnreachableError) or error.status in _RETRIED


def _told(cause: Exception) -> str:
    return " ".join(str(cause).split()) or type(cause).__name__


def _watchful_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    _make_watchful(made)
    return made


def _make_watchful(made: socket.socket) -> None:
    """Let it notice within a minute or two that its peer is gone without a word."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):  # Linux has all of them
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

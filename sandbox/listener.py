"""ASGI applications over TLS or plain HTTP, on loopback, on any event loop.

The protocol is uvicorn's. Its server object isn't used: it reads the clock ten times a second, and
on a virtual-time loop each reading would be a jump.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from types import TracebackType
from typing import Any, Self

import uvicorn
from uvicorn.server import ServerState

from common.errors import ConfigError

logger = logging.getLogger(__name__)

_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

DROP = "sandbox.drop"
"""An extension of the ASGI scope: a function that breaks the connection of the request."""

_KEEP_ALIVE = 3600  # seconds; virtual ones pass quickly
_GRACE = 1.0  # seconds for open requests, once the listener closes


class Listener:
    """Serve ``app`` while the context is entered. The port is bound on construction.

    On exit connections are aborted, which a long watch sees as a disconnect. Requests that don't
    end then are cancelled.
    """

    def __init__(
        self, app: Any, *, tls: ssl.SSLContext | None, port: int = 0, host: str = "127.0.0.1"
    ) -> None:
        """Bind ``port`` of ``host``; 0 selects a free one. Without ``tls`` serve plain HTTP.

        Raises:
            ConfigError: the port is in use, or not permitted.
        """
        self._host = host
        self._socket = _bound(host, port)
        self._tls = tls
        self._app = app
        self._config = uvicorn.Config(
            self._answer,
            interface="asgi3",
            lifespan="off",
            proxy_headers=False,
            http="httptools",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=_KEEP_ALIVE,
        )
        self._state = ServerState()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The bound port."""
        return int(self._socket.getsockname()[1])

    @property
    def url(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://{self._host}:{self.port}"

    async def __aenter__(self) -> Self:
        self._config.load()
        await self.resume()
        return self

    async def pause(self) -> None:
        """Break all connections and refuse new ones, but keep the port.

        A bound socket that doesn't listen reserves the port. Otherwise a client that reconnects
        could get it as its own port, and connect to itself.
        """
        port = self.port
        self.close()
        self._socket = _bound(self._host, port)
        await self._cut()

    async def resume(self) -> None:
        """Accept connections on the same port."""
        self._server = await asyncio.get_running_loop().create_server(
            self._protocol, sock=self._socket, ssl=self._tls, backlog=2048
        )
        logger.debug("listening", extra={"port": self.port})

    async def _answer(
        self, scope: MutableMapping[str, Any], receive: _Receive, send: _Send
    ) -> None:
        scope.setdefault("extensions", {})[DROP] = partial(self._drop, scope.get("client"))
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            # Only ``_cut`` cancels, after the client has left; uvicorn would log it as a bug.
            logger.debug("request was cut off", extra={"path": scope.get("path")})

    def _drop(self, client: tuple[str, int] | None) -> None:
        for connection in list(self._state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None and getattr(connection, "client", None) == client:
                transport.abort()

    def _protocol(self) -> asyncio.Protocol:
        protocol: asyncio.Protocol = self._config.http_protocol_class(  # type: ignore[call-arg]  # a class, or its name before load()
            config=self._config, server_state=self._state, app_state={}
        )
        return protocol

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        await self._cut()

    async def _cut(self) -> None:
        for connection in list(self._state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                transport.abort()
        tasks = list(self._state.tasks)
        if tasks:
            _, unfinished = await asyncio.wait(tasks, timeout=_GRACE)
            for task in unfinished:
                task.cancel()

    def close(self) -> None:
        """Stop accepting connections, and release the port."""
        if self._server is not None:
            self._server.close()
        self._socket.close()


def _bound(host: str, port: int) -> socket.socket:
    """Return a bound socket with an explicit protocol.

    asyncio disables Nagle's algorithm only for these sockets. With the algorithm a response that
    follows a TLS ticket would wait for 40 ms.
    """
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise ConfigError(f"can't listen on {host}:{port}: {error.strerror}") from error
    return bound

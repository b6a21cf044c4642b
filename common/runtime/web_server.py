"""A uvicorn server as a task, without signals and lifespan; it listens from the start."""

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable, Iterator
from typing import Any, cast

import uvicorn

from common.errors import ConfigError
from common.runtime.connection_limits import Connections, Place
from common.runtime.limited_http import HttpLimits, LimitedHttp

logger = logging.getLogger(__name__)

_PAUSE_SECONDS = 1.0  # after a failed accept, usually due to too many open files
_GRACE_SECONDS = 2  # for the current requests, when the server stops
_NO_IPV6 = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EINVAL, errno.ENOPROTOOPT})


def parse_address(text: str) -> tuple[str, int]:
    """Split ``host:port`` as Go does; an empty host (``:8942``) means every interface.

    Raises:
        ConfigError: there is no port, or it is no number from 0 to 65535.
    """
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"not an address of the form host:port: {text!r}")
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], int(port)
    if ":" in host:
        raise ConfigError(f"an IPv6 address needs brackets, as in [::1]:8942: {text!r}")
    return host, int(port)


def listen(address: str) -> socket.socket:
    """Return a listening socket on ``host:port``; port 0 selects a free one.

    Without a host it listens on IPv6 and IPv4, if the machine has them.

    Raises:
        ConfigError: the address is malformed, in use, or not ours.
    """
    host, port = parse_address(address)
    try:
        if not host and socket.has_dualstack_ipv6():
            try:
                return socket.create_server(
                    ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=2048
                )
            except OSError as error:
                if error.errno not in _NO_IPV6:
                    raise
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"can't listen on {address}: {reason}") from error


class _Acceptor:
    """An acceptor of the connections of one socket, instead of :class:`asyncio.Server`.

    :class:`asyncio.Server` starts any number of TLS handshakes, without reporting their peers.
    """

    def __init__(
        self, listening: socket.socket, serve: Callable[[socket.socket, str], None]
    ) -> None:
        listening.setblocking(False)
        self._task = asyncio.create_task(self._accept(listening, serve))

    async def _accept(
        self, listening: socket.socket, serve: Callable[[socket.socket, str], None]
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as error:
                logger.warning("no connection accepted", extra={"error": str(error)})
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            serve(accepted, address[0])
            await asyncio.sleep(0)  # let open connections be served between two accepts

    def close(self) -> None:
        self._task.cancel()

    async def wait_closed(self) -> None:
        await asyncio.wait([self._task])


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to ``service.serve``, and has no periodic tick.

    uvicorn's tick, ten times a second, refreshes the date of answers, which ours omit. Without it
    an idle process uses no CPU, and tests can simulate time.
    """

    def __init__(
        self, config: uvicorn.Config, limits: HttpLimits, refused: Callable[[int], None]
    ) -> None:
        super().__init__(config)
        self._refused = refused
        self._limits = limits
        self._connections = Connections(
            most=limits.connections,
            most_of_peer=limits.connections_of_peer,
            most_bytes=limits.bodies,
        )
        self._ending = asyncio.Event()
        self._opening: set[asyncio.Task[None]] = set()

    def end(self) -> None:
        """Make ``serve`` stop accepting, finish the present requests, and return."""
        self.should_exit = True
        self._ending.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.servers = [cast("asyncio.Server", _Acceptor(one, self._open)) for one in sockets or ()]
        self.started = True

    async def main_loop(self) -> None:
        await self._ending.wait()
        for opening in self._opening:
            opening.cancel()

    def _open(self, accepted: socket.socket, peer: str) -> None:
        place = self._connections.enter(peer, accepted.close)
        if place is None:
            accepted.close()
            return
        opening = asyncio.create_task(self._serve_one(accepted, place))
        place.abort = opening.cancel
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)

    async def _serve_one(self, accepted: socket.socket, place: Place) -> None:
        def protocol() -> LimitedHttp:
            return LimitedHttp(
                self.config,
                self.server_state,
                limits=self._limits,
                connections=self._connections,
                place=place,
                refused=self._refused,
            )

        loop, tls, is_open = asyncio.get_running_loop(), self.config.ssl, False
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.connect_accepted_socket(
                protocol,
                accepted,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else self._limits.handshake,
            )
            is_open = True
        except OSError as error:  # TLS errors and handshake time-outs are subclasses
            logger.debug("connection not opened", extra={"error": str(error)})
        finally:
            if not is_open:
                self._connections.leave(place)
                accepted.close()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _ignore(_status: int) -> None:
    """Ignore refused requests."""


class WebServer:
    """A server of an ASGI application on ``address``.

    The constructor opens the socket, so that a port in use is a clear error before anything
    starts. ``run`` is an endless background task that answers. When it is cancelled it stops
    accepting, finishes the current requests, and closes.
    """

    def __init__(
        self,
        app: Any,
        address: str,
        *,
        name: str,
        limits: HttpLimits | None = None,
        refused: Callable[[int], None] = _ignore,
        **options: Any,
    ) -> None:
        """Open the socket.

        ``refused`` is called with the HTTP status of each request that the server refuses.
        ``options`` go to ``uvicorn.Config``: TLS, and what kind of application it is.
        """
        self._socket = listen(address)
        self.port = int(self._socket.getsockname()[1])  # the actual port, if 0 was configured
        self._name = name
        limits = limits or HttpLimits()
        config = uvicorn.Config(
            app,
            lifespan="off",
            http="httptools",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=limits.idle,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            **options,
        )
        self._server = _Server(config, limits, refused)

    async def run(self) -> None:
        """Answer until cancelled."""
        logger.info("listening", extra={"server": self._name, "port": self.port})
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(self._server.serve(sockets=[self._socket]))
            try:
                await asyncio.shield(serving)
            except asyncio.CancelledError:
                self._server.end()
                await serving
                raise

"""A uvicorn server as one task among others: no signals, no lifespan, a port known at once."""

import asyncio
import contextlib
import errno
import functools
import logging
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn

from common.errors import ConfigError
from common.runtime.lean_http import LeanHttp

logger = logging.getLogger(__name__)

_GRACE_SECONDS = 2  # for the requests at hand, once the server is to stop
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
    """A listening socket on ``host:port``; port 0 takes a free one.

    Without a host it serves IPv6 and IPv4, as far as the machine has them.

    Raises:
        ConfigError: the address is malformed, in use, or not ours.
    """
    host, port = parse_address(address)
    try:
        if not host and socket.has_dualstack_ipv6():
            try:
                return _of_named_protocol(
                    socket.create_server(
                        ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=2048
                    )
                )
            except OSError as error:
                if error.errno not in _NO_IPV6:
                    raise
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return _of_named_protocol(socket.create_server((host, port), family=family, backlog=2048))
    except OSError as error:
        told = error.strerror or str(error)
        raise ConfigError(f"can't listen on {address}: {told}") from error


def inherited(descriptor: int) -> socket.socket:
    """The listening socket that the process which started this one has opened."""
    return _of_named_protocol(socket.socket(fileno=descriptor))


def _of_named_protocol(made: socket.socket) -> socket.socket:
    """The same socket, of which Python knows that it speaks TCP.

    asyncio switches Nagle's algorithm off only where it is, and with it the second part of an
    answer could wait for 40 ms.
    """
    return socket.socket(made.family, made.type, socket.IPPROTO_TCP, fileno=made.detach())


class _Server(uvicorn.Server):
    """Leaves the signals to ``service.serve``, and sleeps where uvicorn ticks ten times a second.

    A tick would refresh the date that answers carry, which nobody needs. Without it an idle
    process is idle, and time can be simulated.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Let ``serve`` stop to accept, finish the requests at hand, and return."""
        self.should_exit = True
        self._ending.set()

    async def main_loop(self) -> None:
        await self._ending.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class WebServer:
    """Serves an ASGI application on ``address`` from construction's port on.

    The socket listens as soon as the object exists, so that a port in use is a clear error
    before anything starts; ``run`` is an endless background task that answers. When it is
    cancelled it stops to accept, finishes the requests at hand, and closes.
    """

    def __init__(
        self,
        app: Any,
        address: str | socket.socket,
        *,
        name: str,
        largest_body: int = 0,
        **options: Any,
    ) -> None:
        """``address`` may be a socket that listens already.

        ``options`` go to ``uvicorn.Config``: TLS, keep-alive, limits.

        ``largest_body`` bytes make it a server of short questions and answers, which takes less
        CPU: see :mod:`common.runtime.lean_http`.
        """
        self._socket = listen(address) if isinstance(address, str) else address
        self.port = int(self._socket.getsockname()[1])  # also where 0 was asked for
        self._name = name
        http: Any = "httptools"
        if largest_body:
            http = functools.partial(LeanHttp, largest_body=largest_body)
        config = uvicorn.Config(
            app,
            lifespan="off",
            http=http,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            **options,
        )
        self._server = _Server(config)

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

    def close(self) -> None:
        """Give the port back; only needed where ``run`` never ran."""
        self._socket.close()

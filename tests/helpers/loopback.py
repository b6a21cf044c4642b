"""HTTP servers of tests on a loopback port."""

import abc
import ssl
from types import TracebackType
from typing import Self

from aiohttp import web


class LoopbackServer(abc.ABC):
    """An HTTP server that runs while it is entered, and can be stopped and started meanwhile."""

    route = r"/{path:[\s\S]*}"  # every path, also with line breaks

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._runner: web.AppRunner | None = None
        self.port = 0

    @abc.abstractmethod
    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen; later starts use the same port."""
        application = web.Application()
        application.router.add_route("*", self.route, self.answer)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self._tls).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening, and finish the requests in progress."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

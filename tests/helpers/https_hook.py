"""A webhook of tests: one handler over HTTPS for every path."""

import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from aiohttp import web

from certificates import write_pair
from certs.authority import Pair
from loopback import LoopbackServer

Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _Hook(LoopbackServer):
    def __init__(self, handle: Handle, tls: ssl.SSLContext) -> None:
        super().__init__(tls=tls)
        self._handle = handle

    async def answer(self, request: web.Request) -> web.StreamResponse:
        return await self._handle(request)


@contextlib.asynccontextmanager
async def serving_hook(handle: Handle, pair: Pair, folder: Path) -> AsyncIterator[int]:
    """Serve ``handle`` on loopback with the certificate of ``pair``; yield the port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*write_pair(folder, pair))
    async with _Hook(handle, context) as hook:
        yield hook.port

"""A webhook of tests: one handler over HTTPS, whatever the path."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from aiohttp import web

from certificates import write_pair
from certs.authority import Pair


@contextlib.asynccontextmanager
async def serving_hook(
    handle: Callable[[web.Request], Awaitable[web.StreamResponse]], pair: Pair, folder: Path
) -> AsyncIterator[int]:
    """Serve ``handle`` on loopback with the certificate of ``pair``; the port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*write_pair(folder, pair))
    app = web.Application()
    app.router.add_post("/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    assert isinstance(site._server, asyncio.Server)
    try:
        yield site._server.sockets[0].getsockname()[1]
    finally:
        await runner.cleanup()

"""Relays of tests that pass bytes from a port of this machine to another address."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self, TypeAlias

from component import LOOPBACK

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Relay:
    """A server that relays connections while it is open.

    ``dial`` gets the address to which a client connected, and opens the outgoing connection; if it
    raises ConnectionError, the incoming one is closed. Bytes wait for ``may_pass``, whose argument
    is True for those of the client.
    """

    def __init__(
        self,
        dial: Callable[[str], Awaitable[Streams]],
        may_pass: Callable[[bool], Awaitable[None]] | None = None,
        *,
        host: str = LOOPBACK,
        port: int = 0,
    ) -> None:
        """Initialize; port 0 selects a free one."""
        self._dial = dial
        self._may_pass = may_pass
        self._server: asyncio.Server | None = None
        self._transports: set[asyncio.WriteTransport] = set()
        self._relays: set[asyncio.Task[None]] = set()
        self._host = host
        self.port = port

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shut()

    async def open(self) -> None:
        """Listen; later calls use the same port."""
        self._server = await asyncio.start_server(self._relay, self._host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def shut(self) -> None:
        """Refuse new connections, and close the present ones."""
        assert self._server is not None
        self._server.close()
        for transport in list(self._transports):
            transport.abort()
        await asyncio.gather(*self._relays)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        here = asyncio.current_task()
        assert here is not None
        self._relays.add(here)
        self._transports.add(writer.transport)
        try:
            await self._joined(reader, writer)
        except ConnectionError:
            writer.transport.abort()
        finally:
            self._transports.discard(writer.transport)
            self._relays.discard(here)

    async def _joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await self._dial(writer.get_extra_info("sockname")[0])
        self._transports.add(there_writer.transport)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, there_writer, asks=True))
                group.create_task(self._pump(there_reader, writer, asks=False))
        finally:
            self._transports.discard(there_writer.transport)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, asks: bool
    ) -> None:
        try:
            while chunk := await reader.read(2**16):
                if self._may_pass is not None:
                    await self._may_pass(asks)
                writer.write(chunk)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

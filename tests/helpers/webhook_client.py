"""A client of the webhook over TLS that behaves like an API server."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any


class Connection:
    """One kept connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    @asynccontextmanager
    async def to(
        cls,
        port: int,
        authority: bytes,
        *,
        host: str = "127.0.0.1",
        pair: tuple[Path, Path] | None = None,
    ) -> AsyncIterator["Connection"]:
        """Connect to a port of this machine; ``authority`` is the only trusted one, as PEM.

        ``host`` is the name that the certificate has to contain. ``pair`` are the files of a client
        certificate and its key.
        """
        context = ssl.create_default_context(cadata=authority.decode())
        if pair is not None:
            context.load_cert_chain(*pair)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname=host
        )
        try:
            yield cls(reader, writer)
        finally:
            # A clean shutdown of TLS would wait up to half a minute for a webhook that hangs.
            writer.transport.abort()

    async def send(
        self, body: bytes, *, path: str = "/?timeout=5s", length: int | None = None
    ) -> tuple[int, bytes]:
        """Post a body; ``length`` replaces its Content-Length.

        Raises:
            IncompleteReadError: the webhook closed the connection before its response was complete.
        """
        head = (
            f"POST {path} HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body) if length is None else length}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        await self._writer.drain()
        status = int((await self._reader.readuntil()).split()[1])
        size = 0
        while (line := await self._reader.readuntil()).strip():
            name, _, value = line.partition(b":")
            size = int(value) if name.lower() == b"content-length" else size
        return status, await self._reader.readexactly(size)

    async def review(self, request: dict[str, Any]) -> dict[str, Any]:
        status, body = await self.send(json.dumps({"request": request}).encode())
        assert status == 200
        response: dict[str, Any] = json.loads(body)["response"]
        return response

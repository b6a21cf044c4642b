"""The webhook behind its real server: TLS, kept connections, rotation, large bodies."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from webhook_harness import FakeCluster, Harness, pod_request

from admission.app import LARGEST_BODY, Match
from admission.tls import KeyPair
from builders import recommendation, vpa
from certs import authority
from common.runtime.clock import SystemClock
from common.runtime.web import WebServer

HOSTS = ["127.0.0.1"]
POD = {"metadata": {"generateName": "web-"}, "spec": {"containers": [{"name": "app"}]}}
WEB = vpa(recommendations=(recommendation(),))


def new_bundle() -> authority.Bundle:
    # The handshake checks dates against the computer's clock.
    return authority.create(
        HOSTS, make_key=authority.rsa_key, now=SystemClock().now(), lifetime=timedelta(hours=1)
    )


def write(folder: Path, bundle: authority.Bundle) -> tuple[Path, Path]:
    certificate, key = folder / "serverCert.pem", folder / "serverKey.pem"
    certificate.write_bytes(bundle.server.certificate)
    key.write_bytes(bundle.server.key)
    return certificate, key


class Connection:
    """A client that trusts one authority and keeps its connection, as API servers do."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    @asynccontextmanager
    async def to(cls, port: int, trusted: authority.Bundle) -> AsyncIterator["Connection"]:
        context = ssl.create_default_context(cadata=trusted.authority.certificate.decode())
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        try:
            yield cls(reader, writer)
        finally:
            writer.close()
            await writer.wait_closed()

    async def send(
        self, body: bytes, *, path: str = "/?timeout=5s", length: int | None = None
    ) -> tuple[int, bytes]:
        """Post a body; ``length`` announces another one than is sent."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body) if length is None else length}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        await self._writer.drain()
        status = int((await self._reader.readline()).split()[1])
        size = 0
        while (line := await self._reader.readline()).strip():
            name, _, value = line.partition(b":")
            size = int(value) if name.lower() == b"content-length" else size
        return status, await self._reader.readexactly(size)

    async def review(self, request: dict[str, Any]) -> dict[str, Any]:
        status, body = await self.send(json.dumps({"request": request}).encode())
        assert status == 200
        response: dict[str, Any] = json.loads(body)["response"]
        return response


@pytest.fixture(scope="module")
def bundles() -> tuple[authority.Bundle, authority.Bundle]:
    return new_bundle(), new_bundle()


@asynccontextmanager
async def serving(pair: KeyPair) -> AsyncIterator[int]:
    harness = Harness(FakeCluster(Match(WEB)))
    server = WebServer(
        harness.app,
        "127.0.0.1:0",
        name="webhook",
        ssl_context_factory=lambda *_: pair.context,
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(server.run())
        yield server.port
        running.cancel()


Bundles = tuple[authority.Bundle, authority.Bundle]


async def test_one_connection_carries_many_reviews(bundles: Bundles, tmp_path: Path) -> None:
    pair = KeyPair(*write(tmp_path, bundles[0]))
    async with serving(pair) as port, Connection.to(port, bundles[0]) as connection:
        for number in range(5):
            response = await connection.review(pod_request(POD, uid=f"u-{number}"))
            assert response["uid"] == f"u-{number}"
            assert response["patchType"] == "JSONPatch"


async def test_a_rotation_fails_no_review(bundles: Bundles, tmp_path: Path) -> None:
    old, new = bundles
    pair = KeyPair(*write(tmp_path, old))
    async with serving(pair) as port, Connection.to(port, old) as kept:
        assert (await kept.review(pod_request(POD)))["allowed"]
        write(tmp_path, new)
        pair.reload()
        assert (await kept.review(pod_request(POD)))["allowed"]
        async with Connection.to(port, new) as fresh:
            assert (await fresh.review(pod_request(POD)))["allowed"]
        with pytest.raises(ssl.SSLCertVerificationError):
            async with Connection.to(port, old):
                pass


async def test_a_body_that_is_too_large_is_refused(bundles: Bundles, tmp_path: Path) -> None:
    pair = KeyPair(*write(tmp_path, bundles[0]))
    async with serving(pair) as port:
        async with Connection.to(port, bundles[0]) as connection:
            status, text = await connection.send(b" " * (LARGEST_BODY + 1))
            assert (status, b"larger" in text) == (413, True)
        async with Connection.to(port, bundles[0]) as connection:
            assert (await connection.send(b"", length=10**12))[0] == 413


async def test_every_path_is_a_review(bundles: Bundles, tmp_path: Path) -> None:
    pair = KeyPair(*write(tmp_path, bundles[0]))
    async with serving(pair) as port, Connection.to(port, bundles[0]) as connection:
        status, body = await connection.send(b"{}", path="/metrics")
        assert (status, json.loads(body)["response"]) == (200, {"uid": "", "allowed": True})

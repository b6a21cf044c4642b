"""The webhook with its real server: TLS, persistent connections, rotation, large bodies."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from admission.app import LARGEST_BODY
from admission.pod_reviews import VpaMatch
from admission.tls import KeyPair
from builders import recommendation, vpa
from certificates import new_bundle, write_pair
from certs import authority
from common.runtime.web_server import WebServer
from webhook_client import Connection
from webhook_harness import FakeCluster, Harness, pod_request

POD = {"metadata": {"generateName": "web-"}, "spec": {"containers": [{"name": "app"}]}}
WEB = vpa(recommendations=(recommendation(),))


@pytest.fixture(scope="module")
def bundles() -> tuple[authority.Bundle, authority.Bundle]:
    return new_bundle(), new_bundle()


@asynccontextmanager
async def serving(pair: KeyPair) -> AsyncIterator[int]:
    harness = Harness(FakeCluster(VpaMatch(WEB)))
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
    pair = KeyPair(*write_pair(tmp_path, bundles[0].server))
    async with (
        serving(pair) as port,
        Connection.to(port, bundles[0].authority.certificate) as connection,
    ):
        for number in range(5):
            response = await connection.review(pod_request(POD, uid=f"u-{number}"))
            assert response["uid"] == f"u-{number}"
            assert response["patchType"] == "JSONPatch"


async def test_a_rotation_fails_no_review(bundles: Bundles, tmp_path: Path) -> None:
    old, new = bundles
    pair = KeyPair(*write_pair(tmp_path, old.server))
    async with serving(pair) as port, Connection.to(port, old.authority.certificate) as kept:
        assert (await kept.review(pod_request(POD)))["allowed"]
        write_pair(tmp_path, new.server)
        pair.reload()
        assert (await kept.review(pod_request(POD)))["allowed"]
        async with Connection.to(port, new.authority.certificate) as fresh:
            assert (await fresh.review(pod_request(POD)))["allowed"]
        with pytest.raises(ssl.SSLCertVerificationError):
            async with Connection.to(port, old.authority.certificate):
                pass


async def test_a_body_that_is_too_large_is_refused(bundles: Bundles, tmp_path: Path) -> None:
    pair = KeyPair(*write_pair(tmp_path, bundles[0].server))
    async with serving(pair) as port:
        async with Connection.to(port, bundles[0].authority.certificate) as connection:
            status, text = await connection.send(b" " * (LARGEST_BODY + 1))
            assert (status, b"too large" in text) == (413, True)
        async with Connection.to(port, bundles[0].authority.certificate) as connection:
            assert (await connection.send(b"", length=10**12))[0] == 413


async def test_every_path_is_a_review(bundles: Bundles, tmp_path: Path) -> None:
    pair = KeyPair(*write_pair(tmp_path, bundles[0].server))
    async with (
        serving(pair) as port,
        Connection.to(port, bundles[0].authority.certificate) as connection,
    ):
        status, body = await connection.send(b"{}", path="/metrics")
        assert (status, json.loads(body)["response"]) == (200, {"uid": "", "allowed": True})

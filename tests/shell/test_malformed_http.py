"""Malformed, ambiguous and unusual HTTP at the webhook's port and at an ops port."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import fastapi
import pytest

from admission.pod_reviews import VpaMatch
from builders import recommendation, vpa
from certificates import new_bundle, write_pair
from common.runtime.clock import SystemClock
from common.runtime.health import Health, ops_server
from common.runtime.web_server import WebServer
from malformed_http import ANSWERED, LAST, SHAPES, SMUGGLED, Answers, Shape
from sandbox import virtual_time
from sandbox.virtual_time import EPOCH, VirtualClock
from webhook_client import Connection
from webhook_harness import FakeCluster, Harness, pod_request

REFUSALS = frozenset({400, 408, 413, 431, 501, 503})
HEADERS = frozenset({b"allow", b"connection", b"content-length", b"content-type", b"location"})
POD = {"metadata": {"generateName": "web-"}, "spec": {"containers": [{"name": "app"}]}}
HEALTH = b"GET /health-check HTTP/1.1\r\nHost: port\r\nConnection: close\r\n\r\n"
PROMPT = timedelta(seconds=2)  # a refused connection stays for one, so that the answer is read
TIMEOUT = 300  # virtual seconds


class Caller(asyncio.Protocol):
    """A client that keeps the received data even if the connection is reset."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.ended = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


@dataclass(kw_only=True)
class Port:
    """A port, and the requests that its application has served."""

    number: int = 0
    tls: ssl.SSLContext | None = None  # the client's TLS context
    authority: bytes = b""
    smuggled: int = 0  # requests for /smuggled

    async def exchange(self, *pieces: bytes, half_closes: bool = False) -> list["Response"]:
        """Send the pieces on one connection; return all answers once it has ended.

        ``leaves``: the client sends nothing more, and says so.
        """
        return list(
            parse_responses(await self.send(*pieces, tls=self.tls, half_closes=half_closes))
        )

    async def send(
        self, *pieces: bytes, tls: ssl.SSLContext | None = None, half_closes: bool = False
    ) -> bytes:
        """Send the pieces as ``exchange`` does, but return the raw data."""
        loop = asyncio.get_running_loop()
        transport, caller = await loop.create_connection(Caller, "127.0.0.1", self.number, ssl=tls)
        for piece in pieces:
            if caller.ended.is_set():
                break
            transport.write(piece)
            await asyncio.sleep(0)  # a separate segment for the server
        if half_closes and transport.can_write_eof():
            transport.write_eof()
        elif half_closes:
            transport.close()  # TLS has no half-closed connections
        await caller.ended.wait()
        return bytes(caller.received)

    async def check_valid_requests(self) -> None:
        """Assert that valid requests get a response."""
        (answer,) = await self.exchange(HEALTH)
        assert answer.status == 200
        if self.authority:
            async with Connection.to(self.number, self.authority) as connection:
                response = await connection.review(pod_request(POD))
                assert response["patchType"] == "JSONPatch"


@dataclass(frozen=True, kw_only=True)
class Response:
    status: int
    headers: Mapping[bytes, bytes]
    body: bytes


def parse_responses(received: bytes) -> Iterator[Response]:
    """Split the data of a server into its final responses."""
    while received:
        head, _, received = received.partition(b"\r\n\r\n")
        line, *lines = head.split(b"\r\n")
        version, status, _ = line.split(b" ", 2)
        assert version == b"HTTP/1.1", line
        if status == b"100":
            continue
        headers = dict(each.split(b": ", 1) for each in lines)
        assert headers.keys() <= HEADERS, headers
        size = int(headers[b"content-length"])
        body, received = received[:size], received[size:]
        assert len(body) == size
        yield Response(status=int(status), headers=headers, body=body)


def statuses(found: list[Response]) -> Answers:
    return tuple(str(each.status) if each.status in REFUSALS else ANSWERED for each in found)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The webhook's certificate, and the authority that its callers trust."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    authority: bytes


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    bundle = new_bundle()
    files = write_pair(tmp_path_factory.mktemp("pair"), bundle.server)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*files)
    authority = bundle.authority.certificate
    client = ssl.create_default_context(cadata=authority.decode())
    return Pair(server=server, client=client, authority=authority)


@asynccontextmanager
async def running(server: WebServer, port: Port) -> AsyncIterator[Port]:
    port.number = server.port
    task = asyncio.create_task(server.run())
    try:
        async with asyncio.timeout(TIMEOUT):
            yield port
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def webhook_port(pair: Pair) -> AsyncIterator[Port]:
    port = Port(tls=pair.client, authority=pair.authority)
    app = Harness(FakeCluster(VpaMatch(vpa(recommendations=(recommendation(),))))).app

    async def counting(scope: Any, receive: Any, send: Any) -> None:
        port.smuggled += scope["path"] == SMUGGLED
        await app(scope, receive, send)

    server = WebServer(
        counting, "127.0.0.1:0", name="webhook", ssl_context_factory=lambda *_: pair.server
    )
    async with running(server, port):
        yield port


@asynccontextmanager
async def ops_port(_pair: Pair) -> AsyncIterator[Port]:
    port, router = Port(), fastapi.APIRouter()

    @router.get(SMUGGLED)
    async def smuggled() -> None:
        port.smuggled += 1

    health = Health(SystemClock(), timedelta(minutes=5))
    async with running(ops_server(health, "127.0.0.1:0", routers=(router,)), port):
        yield port


PORTS = {"webhook": webhook_port, "ops": ops_port}
every_port = pytest.mark.parametrize("serving", PORTS.values(), ids=PORTS)


def whole(sent: bytes) -> list[bytes]:
    return [sent]


def bytewise(sent: bytes) -> list[bytes]:
    return [bytes([each]) for each in sent]


CUT_SHAPES = [
    pytest.param(cut, shape, id=f"{shape.id}, {how}")
    for shape in SHAPES
    for how, cut in (("at once", whole), ("byte by byte", bytewise))
    if cut is whole or shape.is_small
]

Serving = Callable[[Pair], Any]


@every_port
@pytest.mark.parametrize(("cut", "shape"), CUT_SHAPES)
def test_a_shape(
    serving: Serving,
    cut: Callable[[bytes], list[bytes]],
    shape: Shape,
    pair: Pair,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(clock: VirtualClock) -> None:
        async with serving(pair) as port:
            found = await port.exchange(*cut(shape.sent + (LAST if shape.followed else b"")))
            waited = clock.now() - EPOCH
            assert shape.waits <= waited < shape.waits + PROMPT
            assert statuses(found) in shape.allowed
            assert port.smuggled == max(0, statuses(found).count(ANSWERED) - shape.answers)
            for refusal in (each for each in found if each.status in REFUSALS):
                assert refusal.headers[b"connection"] == b"close"
            await port.check_valid_requests()

    virtual_time.run(main)
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


HALF_CLOSED = [
    pytest.param(shape.sent, id=shape.id.partition(":")[0]) for shape in SHAPES if shape.waits
]


@every_port
@pytest.mark.parametrize("sent", [*HALF_CLOSED, pytest.param(LAST, id="a whole request")])
def test_a_half_closed_connection_is_closed(serving: Serving, sent: bytes, pair: Pair) -> None:
    async def main(clock: VirtualClock) -> None:
        async with serving(pair) as port:
            found = await port.exchange(sent, half_closes=True)
            assert clock.now() - EPOCH < PROMPT
            assert statuses(found) in {(), (ANSWERED,)}
            assert port.smuggled <= (sent == LAST)
            await port.check_valid_requests()

    virtual_time.run(main)


def test_a_tls_handshake_at_a_port_without_tls_is_refused(pair: Pair) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    handshake = pair.client.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        handshake.do_handshake()

    async def main(_clock: VirtualClock) -> None:
        async with ops_port(pair) as port:
            assert statuses(await port.exchange(outgoing.read())) == ("400",)
            await port.check_valid_requests()

    virtual_time.run(main)


def test_http_at_a_port_with_tls_gets_no_response(pair: Pair) -> None:
    async def main(_clock: VirtualClock) -> None:
        async with webhook_port(pair) as port:
            received = await port.send(LAST)
            assert b"HTTP" not in received
            assert port.smuggled == 0
            await port.check_valid_requests()

    virtual_time.run(main)


def test_the_shapes_are_distinct() -> None:
    assert len({shape.id for shape in SHAPES}) == len(SHAPES)
    assert len({(shape.sent, shape.followed) for shape in SHAPES}) == len(SHAPES) >= 59

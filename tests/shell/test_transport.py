"""The transport with a scripted server, which sends responses in any segments."""

import asyncio
import random
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import pytest
import uvloop

from certificates import new_bundle, write_pair
from common.errors import (
    InvalidRequestError,
    KubeError,
    NotLeadingError,
    ServerError,
    UnreachableError,
)
from common.kube.connection import Connection, StaticCredentials, client_context
from common.kube.transport import Call, Transport, _keepalive_socket
from common.runtime.rate_limit import RateLimiter
from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass(slots=True)
class Script:
    """A server that reads requests, and sends the segments of one response for each, in order."""

    answers: list[Sequence[bytes]]
    closes: bool = False  # after each response
    closes_at: int = 0  # after the response to the request with this number, from 1
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    ended: int = 0
    port: int = 0
    hangs: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = 0
                for line in head.lower().split(b"\r\n"):
                    if line.startswith(b"content-length:"):
                        length = int(line.partition(b":")[2])
                self.requests.append(head + await reader.readexactly(length))
                if not self.answers:
                    self.hangs.set()
                    await reader.read()
                    return
                for piece in self.answers.pop(0):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                if self.closes or len(self.requests) == self.closes_at:
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.ended += 1
            writer.close()


@dataclass(frozen=True, slots=True)
class Contexts:
    """The TLS contexts of client and server."""

    server: ssl.SSLContext
    client: ssl.SSLContext


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Contexts:
    bundle = new_bundle()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*write_pair(tmp_path_factory.mktemp("tls"), bundle.server))
    return Contexts(server, client_context(ca_data=bundle.authority.certificate.decode()))


@asynccontextmanager
async def serving(
    script: Script, *, path: str = "", tls: Contexts | None = None, authorization: str = ""
) -> AsyncIterator[Transport]:
    server = await asyncio.start_server(
        script.serve, "127.0.0.1", 0, ssl=None if tls is None else tls.server
    )
    script.port = server.sockets[0].getsockname()[1]
    transport = to_port(script.port, path=path, tls=tls, authorization=authorization)
    transport.open()
    try:
        yield transport
    finally:
        await transport.close()
        server.close()
        await server.wait_closed()


def to_port(
    port: int, *, path: str = "", tls: Contexts | None = None, authorization: str = ""
) -> Transport:
    connection = Connection(
        f"{'http' if tls is None else 'https'}://127.0.0.1:{port}{path}",
        ssl_context=None if tls is None else tls.client,
        credentials=StaticCredentials(authorization),
    )
    return Transport(connection, user_agent="tests", rng=random.Random(1))


def call(
    method: str = "POST",
    path: str = "/x",
    body: bytes | None = b"{}",
    *,
    seconds: float = 10.0,
    before_send: Callable[[], None] = lambda: None,
) -> Call:
    return Call(
        method=method,
        path=path,
        query={"y": "z"},
        body=body,
        content_type="a/b",
        seconds=seconds,
        retry=False,
        limiter=RateLimiter(0, 0),
        before_send=before_send,
    )


async def post(transport: Transport, body: bytes = b"{}") -> bytes:
    return await transport.request(call(body=body))


async def test_the_bytes_of_a_request() -> None:
    script = Script([[OK]])
    async with serving(script, path="/k8s/clusters/one/", authorization="Bearer t") as transport:
        assert await post(transport) == b"ok"
    head, _, body = script.requests[0].partition(b"\r\n\r\n")
    request, *headers = head.decode().split("\r\n")
    assert request == "POST /k8s/clusters/one/x?y=z HTTP/1.1"
    assert {
        f"Host: 127.0.0.1:{script.port}",
        "Authorization: Bearer t",
        "User-Agent: tests",
        "Accept: application/json",
        "Content-Type: a/b",
        "Content-Length: 2",
    } <= set(headers)
    assert body == b"{}"


async def test_a_large_body_is_sent_unchanged() -> None:
    body = bytes(range(256)) * 12 * 1024
    script = Script([[OK]])
    async with serving(script) as transport:
        assert await post(transport, body) == b"ok"
    head, _, sent = script.requests[0].partition(b"\r\n\r\n")
    assert sent == body
    headers = head.decode().split("\r\n")[1:]
    assert {"Content-Type: a/b", f"Content-Length: {len(body)}"} <= set(headers)
    assert not [each for each in headers if each.startswith(("Transfer", "Content-Disposition"))]


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_the_check_runs_after_connecting_and_can_prevent_the_request(
    method: str,
) -> None:
    script = Script([[OK]])
    async with serving(script) as transport:

        def refuse() -> None:
            raise NotLeadingError(f"{script.connections} connections")

        with pytest.raises(NotLeadingError, match="1 connections"):
            await transport.request(call(method, before_send=refuse))
        assert await post(transport) == b"ok"
    assert len(script.requests) == 1


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
async def test_a_write_is_sent_once_even_if_a_kept_connection_breaks(method: str) -> None:
    script = Script([[OK], []], closes_at=2)
    async with serving(script) as transport:
        await post(transport)
        with pytest.raises(UnreachableError):
            await transport.request(call(method))
    assert len(script.requests) == 2


async def test_a_read_is_sent_again_if_a_kept_connection_breaks() -> None:
    script = Script([[OK], [], [OK]], closes_at=2)
    async with serving(script) as transport:
        await post(transport)
        assert await transport.request(call("GET", body=None)) == b"ok"
    assert len(script.requests) == 3


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_redirect_is_an_error_and_not_followed(method: str) -> None:
    elsewhere = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"
    script = Script([[elsewhere], [OK]])
    async with serving(script) as transport:
        with pytest.raises(KubeError, match="307"):
            await transport.request(call(method))
    assert len(script.requests) == 1


def test_a_socket_detects_that_its_peer_is_gone() -> None:
    with _keepalive_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("", 0))) as made:
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30


@pytest.mark.parametrize(
    ("pieces", "want"),
    [
        pytest.param([OK], b"ok", id="in one piece"),
        pytest.param([OK[i : i + 1] for i in range(len(OK))], b"ok", id="byte by byte"),
        pytest.param(
            [b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"],
            b"abc",
            id="in chunks",
        ),
        pytest.param(
            [b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", OK],
            b"ok",
            id="with a Connection header",
        ),
        pytest.param([b"HTTP/1.1 204 No Content\r\n\r\n"], b"", id="without a body"),
        pytest.param(
            [b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"x" * 100_000],
            b"x" * 100_000,
            id="larger than the buffer",
        ),
    ],
)
async def test_responses(pieces: Sequence[bytes], want: bytes) -> None:
    """Each response leaves the connection usable for the next call."""
    script = Script([pieces, [OK]])
    async with serving(script) as transport:
        assert await post(transport) == want
        assert await post(transport) == b"ok"
    assert script.connections == 1


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_response_in_many_tls_records(
    loop: Callable[[], asyncio.AbstractEventLoop], tls: Contexts
) -> None:
    body = bytes(range(256)) * 500
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    pieces = [head, *(body[at : at + 1000] for at in range(0, len(body), 1000))]

    async def main() -> None:
        script = Script([pieces, pieces])
        async with serving(script, tls=tls) as transport:
            assert await post(transport) == body
            assert await post(transport) == body
        assert script.connections == 1

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


async def test_a_server_whose_authority_is_unknown(tls: Contexts) -> None:
    other = Contexts(tls.server, client_context())
    script = Script([[OK]])
    async with serving(script, tls=other) as transport:
        with pytest.raises(UnreachableError, match="certificate verify failed"):
            await post(transport)
    assert script.requests == []


@pytest.mark.parametrize(
    ("pieces", "want"),
    [
        pytest.param(
            [b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"],
            b"ok",
            id="a Connection: close header",
        ),
        pytest.param(
            [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b"o", b"k"],
            b"ok",
            id="a body that ends with the connection",
        ),
        pytest.param([OK], b"ok", id="a connection closed without a header"),
        pytest.param([OK, OK], b"ok", id="an extra response"),
        pytest.param([OK + OK], b"ok", id="an extra response in the same segment"),
    ],
)
def test_a_connection_that_can_be_used_once(pieces: Sequence[bytes], want: bytes) -> None:
    script = Script([pieces, [OK.replace(b"ok", b"no")]], closes=b"".join(pieces) != OK + OK)

    async def main(_: VirtualClock) -> None:
        async with serving(script) as transport:
            assert await post(transport) == want
            await asyncio.sleep(1)
            assert await post(transport) == b"no"

    virtual_time.run(main)
    assert script.connections == 2


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([], id="no response"),
        pytest.param([b"HTTP/1.1 200 OK\r\nContent-Len"], id="half a head"),
        pytest.param([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"], id="half a body"),
        pytest.param([b"SSH-2.0-OpenSSH_9.6\r\n"], id="another protocol"),
    ],
)
async def test_broken_responses(pieces: Sequence[bytes]) -> None:
    script = Script([pieces, [OK]], closes=True)
    async with serving(script) as transport:
        with pytest.raises(UnreachableError):
            await post(transport)
        assert await post(transport) == b"ok"


async def test_a_late_response_is_not_returned_to_the_next_call() -> None:
    script = Script([])
    async with serving(script) as transport:
        first = asyncio.create_task(post(transport))
        await script.hangs.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        script.answers.append([OK])
        assert await post(transport) == b"ok"
    assert script.connections == 2


async def test_concurrent_calls_have_their_own_connections_which_are_reused() -> None:
    script = Script([[OK]] * 60)
    async with serving(script) as transport:
        for _ in range(3):
            async with asyncio.TaskGroup() as group:
                for _ in range(20):
                    group.create_task(post(transport))
    assert len(script.requests) == 60
    assert script.connections == 20


async def test_a_connection_that_was_idle_for_half_a_minute_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(aiohttp.connector, "monotonic", lambda: now)
    script = Script([[OK]] * 3)
    async with serving(script) as transport:
        await post(transport)
        now = 29.0
        await post(transport)
        assert script.connections == 1
        now = 60.0
        await post(transport)
        assert script.connections == 2


@pytest.mark.parametrize(
    ("path", "authorization"),
    [
        ("/x HTTP/1.1\r\nHost: other", ""),
        ("/a b", ""),
        ("/ä", ""),
        ("/x", "Bearer x\r\nHost: other"),
    ],
)
async def test_request_injection_is_refused(path: str, authorization: str) -> None:
    script = Script([[OK]])
    async with serving(script, authorization=authorization) as transport:
        with pytest.raises(InvalidRequestError):
            await transport.request(call(path=path))
    assert script.requests == []


async def test_a_refused_connection() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        transport = to_port(unused.getsockname()[1])
        transport.open()
        with pytest.raises(UnreachableError, match="no answer"):
            await post(transport)
        assert not transport.connectivity.reachable
        await transport.close()


async def test_a_call_ends_at_its_timeout_and_closes_its_connection() -> None:
    script = Script([])
    async with serving(script) as transport:
        with pytest.raises(UnreachableError, match="no answer"):
            await transport.request(call(seconds=0.05))
        script.answers.append([OK])
        assert await post(transport) == b"ok"
    assert script.connections == 2


async def test_an_endless_response_times_out() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    script = Script([(head, *(chunk for _ in range(65)))])
    async with serving(script) as transport:
        with pytest.raises(ServerError, match="the answer has more than 67108864 bytes"):
            await transport.request(call("PATCH"))

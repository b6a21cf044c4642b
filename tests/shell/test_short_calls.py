"""Short calls against a server that answers byte by byte what it is told to."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import uvloop

from certificates import new_bundle, write_pair
from common.kube.connection import client_context
from common.kube.short_calls import BrokenAnswerError, ShortCalls
from sandbox import virtual_time
from sandbox.virtual_time import VirtualClock

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass(slots=True)
class Script:
    """A server that reads requests and sends the pieces of one answer for each, in order."""

    answers: list[Sequence[bytes]]
    closes: bool = False  # after each answer
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
                if self.closes:
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.ended += 1
            writer.close()


@dataclass(frozen=True, slots=True)
class Contexts:
    """For both ends of a connection."""

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
    script: Script, *, path: str = "", tls: Contexts | None = None
) -> AsyncIterator[ShortCalls]:
    server = await asyncio.start_server(
        script.serve, "127.0.0.1", 0, ssl=None if tls is None else tls.server
    )
    script.port = server.sockets[0].getsockname()[1]
    prepared: list[socket.socket] = []
    calls = ShortCalls(
        f"{'http' if tls is None else 'https'}://127.0.0.1:{script.port}{path}",
        tls=None if tls is None else tls.client,
        server_hostname="",
        headers={"User-Agent": "tests"},
        connect_seconds=5,
        prepare=prepared.append,
    )
    try:
        yield calls
    finally:
        calls.close()
        await asyncio.sleep(0)
        server.close()
        await server.wait_closed()
    assert len(prepared) == script.connections


async def post(calls: ShortCalls, body: bytes = b"{}") -> tuple[int, bytes]:
    answer = await calls.send("POST", "/x?y=z", headers={"Content-Type": "a/b"}, body=body)
    return answer.status, answer.body


async def test_what_is_sent() -> None:
    script = Script([[OK]])
    async with serving(script, path="/k8s/clusters/one/") as calls:
        assert await post(calls) == (200, b"ok")
    head, _, body = script.requests[0].partition(b"\r\n\r\n")
    assert head.decode().split("\r\n") == [
        "POST /k8s/clusters/one/x?y=z HTTP/1.1",
        f"Host: 127.0.0.1:{script.port}",
        "User-Agent: tests",
        "Content-Type: a/b",
        "Content-Length: 2",
    ]
    assert body == b"{}"


async def test_what_is_kept_back_was_asked_about_with_a_connection_at_hand() -> None:
    script = Script([[OK]])
    async with serving(script) as calls:

        def kept_back() -> None:
            raise PermissionError(script.connections)

        with pytest.raises(PermissionError, match="1"):
            await calls.send("POST", "/x", headers={}, body=b"{}", before_send=kept_back)
        assert await post(calls) == (200, b"ok")
    assert len(script.requests) == 1


@pytest.mark.parametrize(
    ("pieces", "want"),
    [
        pytest.param([OK], (200, b"ok"), id="in one piece"),
        pytest.param([OK[i : i + 1] for i in range(len(OK))], (200, b"ok"), id="byte by byte"),
        pytest.param(
            [b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"],
            (201, b"abc"),
            id="in chunks",
        ),
        pytest.param(
            [b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", OK], (200, b"ok"), id="announced"
        ),
        pytest.param([b"HTTP/1.1 204 No Content\r\n\r\n"], (204, b""), id="without a body"),
        pytest.param(
            [b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"x" * 100_000],
            (200, b"x" * 100_000),
            id="larger than the buffer",
        ),
    ],
)
async def test_answers(pieces: Sequence[bytes], want: tuple[int, bytes]) -> None:
    """Each of them leaves the connection as it should be for the next call."""
    script = Script([pieces, [OK]])
    async with serving(script) as calls:
        assert await post(calls) == want
        assert await post(calls) == (200, b"ok")
    assert script.connections == 1


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_an_answer_in_many_records_of_tls(
    loop: Callable[[], asyncio.AbstractEventLoop], tls: Contexts
) -> None:
    body = bytes(range(256)) * 500
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    pieces = [head, *(body[at : at + 1000] for at in range(0, len(body), 1000))]

    async def main() -> None:
        script = Script([pieces, pieces])
        async with serving(script, tls=tls) as calls:
            assert await post(calls) == (200, body)
            assert await post(calls) == (200, body)
        assert script.connections == 1

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


async def test_a_server_that_nobody_vouches_for(tls: Contexts) -> None:
    other = Contexts(tls.server, client_context())
    script = Script([[OK]])
    with pytest.raises(ssl.SSLError):
        async with serving(script, tls=other) as calls:
            await post(calls)
    assert script.requests == []


@pytest.mark.parametrize(
    ("pieces", "want"),
    [
        pytest.param(
            [b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"],
            (200, b"ok"),
            id="the server says that it closes",
        ),
        pytest.param(
            [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b"o", b"k"],
            (200, b"ok"),
            id="the answer ends with the connection",
        ),
        pytest.param([OK], (200, b"ok"), id="the server closes without a word"),
        pytest.param([OK, OK], (200, b"ok"), id="one answer too many"),
        pytest.param([OK + OK], (200, b"ok"), id="one answer too many, in the same piece"),
    ],
)
def test_a_connection_that_can_be_used_once(
    pieces: Sequence[bytes], want: tuple[int, bytes]
) -> None:
    script = Script([pieces, [OK.replace(b"ok", b"no")]], closes=b"".join(pieces) != OK + OK)

    async def main(_: VirtualClock) -> None:
        async with serving(script) as calls:
            assert await post(calls) == want
            await asyncio.sleep(1)
            assert await post(calls) == (200, b"no")

    virtual_time.run(main)
    assert script.connections == 2


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([], id="no answer"),
        pytest.param([b"HTTP/1.1 200 OK\r\nContent-Len"], id="half a head"),
        pytest.param([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"], id="half a body"),
        pytest.param([b"SSH-2.0-OpenSSH_9.6\r\n"], id="another protocol"),
    ],
)
async def test_broken_answers(pieces: Sequence[bytes]) -> None:
    script = Script([pieces, [OK]], closes=True)
    async with serving(script) as calls:
        with pytest.raises(BrokenAnswerError):
            await post(calls)
        assert await post(calls) == (200, b"ok")


async def test_an_answer_that_nobody_waits_for_is_not_given_to_the_next() -> None:
    script = Script([])
    async with serving(script) as calls:
        first = asyncio.create_task(post(calls))
        await script.hangs.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        script.answers.append([OK])
        assert await post(calls) == (200, b"ok")
    assert script.connections == 2


async def test_calls_side_by_side_have_connections_of_their_own_which_are_used_again() -> None:
    script = Script([[OK]] * 60)
    async with serving(script) as calls:
        for _ in range(3):
            async with asyncio.TaskGroup() as group:
                for _ in range(20):
                    group.create_task(post(calls))
    assert len(script.requests) == 60
    assert script.connections == 20


def test_idle_connections_are_closed_after_half_a_minute() -> None:
    async def main(_: VirtualClock) -> None:
        script = Script([[OK]] * 4)
        async with serving(script) as calls:
            await asyncio.gather(post(calls), post(calls))
            await asyncio.sleep(20)
            await post(calls)
            await asyncio.sleep(15)
            assert script.ended == 1
            await asyncio.sleep(20)
            assert script.ended == 2

    virtual_time.run(main)


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        ("/x HTTP/1.1\r\nHost: other", {}),
        ("/a b", {}),
        ("/ä", {}),
        ("/x", {"Authorization": "Bearer x\r\nHost: other"}),
    ],
)
async def test_nothing_is_smuggled_into_a_request(target: str, headers: dict[str, str]) -> None:
    script = Script([[OK]])
    async with serving(script) as calls:
        with pytest.raises(ValueError, match="no"):
            await calls.send("POST", target, headers=headers, body=b"")
    assert script.requests == []


async def test_nobody_there() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        calls = ShortCalls(
            f"http://127.0.0.1:{unused.getsockname()[1]}",
            tls=None,
            server_hostname="",
            headers={},
            connect_seconds=5,
            prepare=lambda _: None,
        )
        with pytest.raises(ConnectionError):
            await post(calls)


async def test_an_answer_without_end_is_given_up() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    script = Script([(head, *(chunk for _ in range(65)))])
    async with serving(script) as calls:
        with pytest.raises(BrokenAnswerError, match="the answer has more than 67108864 bytes"):
            await calls.send("PATCH", "/", headers={}, body=b"{}")

"""An API server with scripted responses that records requests."""

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from aiohttp import web

from common.kube.client import KubeClient
from common.kube.connection import Connection, Credentials
from loopback import LoopbackServer

TIMEOUT = 60.0  # seconds; processes start slowly beside end-to-end cases that have priority


class Hasty(random.Random):
    """A random generator that reduces every jittered pause to zero."""

    def uniform(self, a: float, b: float) -> float:
        return 0.0 if a < b else b


@dataclass(frozen=True, kw_only=True)
class Request:
    """A received request."""

    method: str
    path: str
    target: str  # path and query as sent
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A response: a whole body, chunks of a stream, or only a closed connection."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: Sequence[bytes] | None = None
    hold: bool = False  # keep the stream open until the server stops
    cut: bool = False  # close the connection, in a stream after its chunks
    keep: str = ""  # a path: answer this request and later GETs of the path with the sent body


def status(code: int, reason: str, message: str = "no", **details: Any) -> Reply:
    """Return a failure as an API server words it."""
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason}
    return Reply(status=code, body={**body, "message": message, "details": details})


def watch_line(type: str, object: Any) -> bytes:
    return msgspec.json.encode({"type": type, "object": object}) + b"\n"


def named(name: str, version: int | str = 1, namespace: str = "shop", **more: Any) -> Any:
    """Return an object with little more than a name."""
    meta = {"name": name, "namespace": namespace, "resourceVersion": str(version)}
    return {"metadata": meta, **more}


def listing(*items: Any, version: int | str = 10, continue_: str = "") -> Reply:
    """Return one page of a list."""
    meta = {"resourceVersion": str(version), "continue": continue_}
    return Reply(body={"metadata": meta, "items": list(items)})


async def until(condition: Callable[[], bool]) -> None:
    """Run other tasks until the condition holds, for a limited time."""
    async with asyncio.timeout(TIMEOUT):
        while not condition():  # noqa: ASYNC110 - there is no event for everything
            await asyncio.sleep(0.001)


class FakeApi(LoopbackServer):
    """A server that answers by method and path. The last reply of a path repeats."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Request] = []
        self._replies: dict[str, deque[Reply]] = {}
        self._ended = asyncio.Event()
        self._arrived = asyncio.Condition()
        self._counts: Counter[str] = Counter()  # of requests by route

    def on(self, route: str, *replies: Reply) -> None:
        """Set the replies of a route, ``GET /path``; ``WATCH /path`` for watches.

        ``NAMES /path`` is for lists of metadata. Without this route they get the replies of lists.
        """
        self._replies[route] = deque(replies)

    @property
    def routes(self) -> list[str]:
        """Return the routes of all requests in order."""
        return [f"{request.method} {request.path}" for request in self.requests]

    async def asked(self, route: str, times: int = 1) -> Request:
        """Wait until ``route`` was requested ``times`` times; return the last request."""
        async with asyncio.timeout(TIMEOUT), self._arrived:
            await self._arrived.wait_for(lambda: self._counts[route] >= times)
        return next(
            each for each in reversed(self.requests) if f"{each.method} {each.path}" == route
        )

    async def start(self) -> None:
        self._ended.clear()
        await super().start()

    async def stop(self) -> None:
        self._ended.set()
        await super().stop()

    def client(self, *, credentials: Credentials | None = None, qps: float = 0.0) -> KubeClient:
        connection = Connection(f"http://127.0.0.1:{self.port}", credentials=credentials)
        return KubeClient(connection, user_agent="test", qps=qps, burst=1.0, rng=Hasty())

    async def answer(self, request: web.Request) -> web.StreamResponse:
        method = "WATCH" if request.query.get("watch") else request.method
        wants_names = "PartialObjectMetadataList" in request.headers.get("Accept", "")
        if wants_names and f"NAMES {request.path}" in self._replies:
            method = "NAMES"
        seen = Request(
            method=method,
            path=request.path,
            target=request.raw_path,
            query=dict(request.query),
            headers=dict(request.headers),
            body=await request.read(),
        )
        async with self._arrived:
            self.requests.append(seen)
            self._counts[f"{method} {request.path}"] += 1
            self._arrived.notify_all()
        replies = self._replies.get(f"{method} {request.path}", deque())
        reply = Reply(status=404, body="404 page not found\n")
        if replies:
            reply = replies.popleft() if len(replies) > 1 else replies[0]
        if reply.keep:
            reply = replace(reply, body=seen.json(), keep="")
            self.on(f"GET {replies[0].keep}", replace(reply, status=200))
        if reply.chunks is not None:
            return await self._stream(request, reply)
        if reply.cut:
            assert request.transport is not None
            request.transport.abort()
        if isinstance(reply.body, str):
            return web.Response(status=reply.status, text=reply.body, headers=reply.headers)
        return web.Response(
            status=reply.status,
            body=b"" if reply.body is None else msgspec.json.encode(reply.body),
            headers={"Content-Type": "application/json", **reply.headers},
        )

    async def _stream(self, request: web.Request, reply: Reply) -> web.StreamResponse:
        response = web.StreamResponse(status=reply.status, headers=reply.headers)
        await response.prepare(request)
        for chunk in reply.chunks or ():
            await response.write(chunk)
        if reply.hold:
            await self._ended.wait()
        if reply.cut:
            assert request.transport is not None
            request.transport.abort()
        return response

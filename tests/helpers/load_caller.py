"""A caller of the load mode's API server in this process, without a network."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

import asgi
from common.api.core import Pod
from common.kube.endpoints import PODS, Endpoint
from common.runtime.clock import SystemClock
from sandbox.load.server import LoadApi
from sandbox.load.settings import Settings

SMALL = Settings(vpas=60, pods_per_vpa=4, group_size=2)


@dataclass
class Answer:
    code: int
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass
class Caller:
    """A caller of the ASGI application."""

    api: LoadApi

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        **headers: str,
    ) -> Answer:
        named = {"content-type": content_type, **headers}
        sent = [msgspec.json.encode(body)]
        response = await asgi.call(self.api, asgi.scope_of(method, path, named), asgi.pieces(*sent))
        packed = ("content-encoding", "gzip") in response.headers
        return Answer(response.status, gzip.decompress(response.body) if packed else response.body)

    async def patch(self, path: str, *operations: tuple[str, str, Any]) -> Answer:
        body = [{"op": op, "path": at, "value": value} for op, at, value in operations]
        return await self("PATCH", path, body, content_type="application/json-patch+json")

    @asynccontextmanager
    async def watching(self, path: str) -> AsyncIterator[asyncio.Queue[Any]]:
        watch = asgi.Watching(self.api, asgi.scope_of("GET", path, {}))
        async with asyncio.TaskGroup() as group:
            group.create_task(watch.run())
            yield watch.events
            watch.leave()


def calling(settings: Settings = SMALL) -> Caller:
    return Caller(LoadApi(settings, SystemClock()))


async def everything(call: Caller, endpoint: Endpoint[Any], *, limit: int = 500) -> list[Any]:
    items: list[Any] = []
    token = ""
    while True:
        answer = await call("GET", f"{endpoint.collection()}?limit={limit}&continue={token}")
        page = msgspec.json.decode(answer.body)
        assert page["kind"] == f"{endpoint.kind}List"
        items += [
            msgspec.json.decode(msgspec.json.encode(item), type=endpoint.type)
            for item in page["items"]
        ]
        token = page["metadata"].get("continue", "")
        if not token:
            return items


def path_of(pod: Pod, subresource: str = "") -> str:
    return PODS.object(pod.metadata.name, pod.metadata.namespace, subresource)


async def report(call: Caller) -> Any:
    return (await call("GET", "/load/report")).json

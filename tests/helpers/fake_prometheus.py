"""A Prometheus with the usage of steady containers and scripted failures."""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web

from loopback import LoopbackServer

_NAMESPACE = re.compile(r'amespace="([^"]*)"')


@dataclass(frozen=True, kw_only=True)
class Steady:
    """A container with constant usage."""

    pod: str
    namespace: str = "shop"
    container: str = "app"
    cores: str = "0.5"
    bytes: str = str(2**30)
    labels: Mapping[str, str] = field(default_factory=lambda: {"app": "web"})
    since: float = 0.0  # Unix seconds of its start


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A received query."""

    method: str
    kind: str  # query_range or query
    form: Mapping[str, str]
    authorization: str

    @property
    def steps(self) -> list[float]:
        """Return the requested timestamps."""
        start, end, step = (float(self.form[name]) for name in ("start", "end", "step"))
        return [start + number * step for number in range(round((end - start) / step) + 1)]


class FakePrometheus(LoopbackServer):
    """A server for the recommender's queries, as an asynchronous context manager."""

    route = "/api/v1/{kind}"

    def __init__(self, *containers: Steady) -> None:
        super().__init__()
        self.containers = containers
        self.asked: list[Asked] = []
        self.replies: deque[web.Response] = deque()  # responses to the next queries, whichever
        self.refused: dict[str, Callable[[], web.Response]] = {}  # by namespace
        self.go = asyncio.Event()  # queries are answered when it is set
        self.go.set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def stop(self) -> None:
        self.go.set()
        await super().stop()

    async def answer(self, request: web.Request) -> web.Response:
        form = await request.post() if request.method == "POST" else request.query
        asked = Asked(
            method=request.method,
            kind=request.match_info["kind"],
            form={name: str(value) for name, value in form.items()},
            authorization=request.headers.get("Authorization", ""),
        )
        self.asked.append(asked)
        await self.go.wait()
        if self.replies:
            return self.replies.popleft()
        query = asked.form["query"]
        namespace = _NAMESPACE.findall(query)[-1]
        if namespace in self.refused:
            return self.refused[namespace]()
        result = self._result(query, namespace, asked.steps)
        data = {"resultType": "matrix", "result": result}
        return web.Response(
            body=msgspec.json.encode({"status": "success", "data": data}),
            content_type="application/json",
        )

    def _result(self, query: str, namespace: str, steps: list[float]) -> list[Any]:
        there = [one for one in self.containers if one.namespace == namespace]
        if query.startswith("count("):
            return [{"metric": {}, "values": [(at, str(len(there))) for at in steps]}]
        return [
            {"metric": metric, "values": [(at, value) for at in steps if at >= one.since]}
            for one in there
            for metric, value in [_series(query, one)]
        ]


def _series(query: str, one: Steady) -> tuple[dict[str, str], str]:
    if query.startswith("last_over_time("):
        names = {"kubernetes_namespace": one.namespace, "kubernetes_pod_name": one.pod}
        return names | {f"pod_label_{name}": text for name, text in one.labels.items()}, "1"
    names = {"namespace": one.namespace, "pod_name": one.pod, "name": one.container}
    return names, one.cores if query.startswith("rate(") else one.bytes


def refusal(status: int, kind: str, sentence: str) -> web.Response:
    """Return a failure as Prometheus words it."""
    body = {"status": "error", "errorType": kind, "error": sentence}
    return web.Response(status=status, body=msgspec.json.encode(body))

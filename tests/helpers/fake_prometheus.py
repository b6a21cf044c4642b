"""A Prometheus that tells of steady containers, and fails when a test tells it to."""

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
    """A container that used the same all the time."""

    pod: str
    namespace: str = "shop"
    container: str = "app"
    cores: str = "0.5"
    bytes: str = str(2**30)
    labels: Mapping[str, str] = field(default_factory=lambda: {"app": "web"})
    since: float = 0.0  # Unix seconds; before it there was none


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A query that came in."""

    method: str
    kind: str  # query_range or query
    form: Mapping[str, str]
    authorization: str

    @property
    def steps(self) -> list[float]:
        """The points in time that are asked for."""
        start, end, step = (float(self.form[name]) for name in ("start", "end", "step"))
        return [start + number * step for number in range(round((end - start) / step) + 1)]


class FakePrometheus(LoopbackServer):
    """Answers the recommender's queries; an asynchronous context manager."""

    route = "/api/v1/{kind}"

    def __init__(self, *containers: Steady) -> None:
        super().__init__()
        self.containers = containers
        self.asked: list[Asked] = []
        self.replies: deque[web.Response] = deque()  # what is answered first, whatever is asked
        self.refused: dict[str, Callable[[], web.Response]] = {}  # by namespace, for ever
        self.go = asyncio.Event()  # nothing is answered before
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
    """A failure as Prometheus words it."""
    body = {"status": "error", "errorType": kind, "error": sentence}
    return web.Response(status=status, body=msgspec.json.encode(body))

"""The kubelets' own HTTPS endpoint: usage for a metrics server, logs for ``kubectl logs``.

All nodes share it. ``/metrics/resource?node=NAME`` is what one node's kubelet would say, to the
letter; without ``node`` it is all of them together, and then what is about a node has a label
``node``. Callers are not asked who they are. Source: k8s.io/kubernetes pkg/kubelet/server.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs

from common.runtime.clock import Clock
from sandbox.kubelet.local.logs import LogOptions, read, since_seconds
from sandbox.kubelet.node import Node
from sandbox.kubelet.resource_metrics import ResourceMetrics

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Source(Protocol):
    """Whose endpoint it is."""

    nodes: dict[str, Node]

    def log(self, namespace: str, name: str, container: str, *, previous: bool) -> Path | None: ...

    def is_over(self, path: Path) -> bool: ...


class KubeletEndpoint:
    """An ASGI application."""

    def __init__(self, kubelets: Source, clock: Clock) -> None:
        self._kubelets = kubelets
        self._clock = clock
        self._metrics = ResourceMetrics()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        del receive  # no request has a body that matters
        query = {
            name: values[-1]
            for name, values in parse_qs(
                scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True
            ).items()
        }
        match scope["path"].strip("/").split("/"):
            case ["healthz"]:
                await _answer(send, 200, "ok")
            case ["metrics", "resource"]:
                await _answer(send, *self._usage(query))
            case ["containerLogs", namespace, pod, container]:
                await self._log(send, namespace, pod, container, query)
            case _:
                await _answer(send, 404, "404 page not found\n")

    def _usage(self, query: Mapping[str, str]) -> tuple[int, str]:
        now, name = self._clock.now(), query.get("node", "")
        if not name:
            nodes = [node for node in self._kubelets.nodes.values() if not node.frozen]
            return 200, self._metrics.text(nodes, now, named=len(self._kubelets.nodes) > 1)
        node = self._kubelets.nodes.get(name)
        if node is None:
            return 404, f"no node is called {name}\n"
        if node.frozen:
            return 503, f"the kubelet of {name} is dead\n"
        return 200, self._metrics.text([node], now, named=False)

    async def _log(
        self, send: Send, namespace: str, pod: str, container: str, query: Mapping[str, str]
    ) -> None:
        try:
            options = self._options(query)
        except ValueError as error:
            await _answer(send, 400, f"{error}\n")
            return
        previous = query.get("previous") == "true"
        path = self._kubelets.log(namespace, pod, container, previous=previous)
        if path is None:
            which = "previous terminated container" if previous else "container"
            told = f'{which} "{container}" in pod "{pod}" not found\n'
            await _answer(send, 404 if not previous else 400, told)
            return
        lines = read(path, options, ended=lambda: self._kubelets.is_over(path))
        await _stream(send, lines)

    def _options(self, query: Mapping[str, str]) -> LogOptions:
        since: datetime | None = None
        if "sinceSeconds" in query:
            since = since_seconds(query["sinceSeconds"], self._clock.now())
        elif "sinceTime" in query:
            since = datetime.fromisoformat(query["sinceTime"])
        return LogOptions(
            tail=int(query["tailLines"]) if "tailLines" in query else None,
            since=since,
            timestamps=query.get("timestamps") == "true",
            follow=query.get("follow") == "true",
            limit=int(query["limitBytes"]) if "limitBytes" in query else None,
        )


async def _answer(send: Send, status: int, text: str) -> None:
    await send(_start(status))
    await send({"type": "http.response.body", "body": text.encode()})


async def _stream(send: Send, chunks: AsyncIterator[bytes]) -> None:
    await send(_start(200))
    async for chunk in chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _start(status: int) -> dict[str, Any]:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    return {"type": "http.response.start", "status": status, "headers": headers}

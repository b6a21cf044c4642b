"""The kubelets' own HTTPS endpoint: logs for ``kubectl logs``. All nodes share it.

Callers are not authenticated. Source: k8s.io/kubernetes pkg/kubelet/server.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs

import msgspec

from common.runtime.clock import Clock
from controlplane.containers.logs import LogOptions, read, since_seconds
from controlplane.containers.pods import LocalPods
from sandbox.kubelet.containers import Container
from sandbox.kubelet.node import Node
from sandbox.kubelet.pod_lifecycle import PodRun

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class KubeletEndpoint:
    """An ASGI application."""

    def __init__(self, nodes: Mapping[str, Node], pods: LocalPods, clock: Clock) -> None:
        self._nodes = nodes
        self._pods = pods
        self._clock = clock

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
            case ["containerLogs", namespace, pod, container]:
                await self._log(send, namespace, pod, container, query)
            case _:
                await _answer(send, 404, "404 page not found\n")

    async def _log(
        self, send: Send, namespace: str, pod: str, container: str, query: Mapping[str, str]
    ) -> None:
        try:
            options = self._options(query)
            found = self._pod(namespace, pod)
            run = _run_of(found, container, previous=query.get("previous") == "true")
        except ValueError as error:
            await _answer(send, 400, str(error))
            return
        except LookupError as error:
            await _answer(send, 404, str(error.args[0]))
            return
        if not found.containers[container].local:
            await _answer(send, 200, _simulated(found.containers[container]))
            return
        path = self._pods.log(found.uid, container, run)
        if not path.exists():  # the container was just started
            await _answer(
                send, 400, f"{_named(found, container)} is waiting to start - no logs yet"
            )
            return
        lines = read(path, options, ended=lambda: self._pods.is_over(path))
        await _stream(send, lines)

    def _pod(self, namespace: str, name: str) -> PodRun:
        for node in self._nodes.values():
            for pod in node.pods.values():
                meta = pod.object.metadata
                if (meta.namespace, meta.name) == (namespace, name):
                    return pod
        raise LookupError(f'pod "{name}" does not exist')

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


def _run_of(pod: PodRun, name: str, *, previous: bool) -> int:
    """Return the run whose log is requested, as the number of restarts before it.

    A container that waits for its next run still shows its last one. Source:
    ``validateContainerLogStatus``, k8s.io/kubernetes pkg/kubelet/kubelet_pods.go.

    Raises:
        LookupError: the pod has no such container.
        ValueError: there is no such run; the sentence is a kubelet's.
    """
    container = pod.containers.get(name)
    if container is None:
        raise LookupError(f'container "{name}" not found in pod "{pod.object.metadata.name}"')
    if previous and container.last is None:
        raise ValueError(f"previous terminated {_named(pod, name)} not found")
    if container.waiting is not None and container.last is None:
        raise ValueError(f"{_named(pod, name)} is waiting to start: {container.waiting[0]}")
    if previous and container.waiting is None:
        return container.restarts - 1
    return container.restarts


def _named(pod: PodRun, container: str) -> str:
    return f'container "{container}" in pod "{pod.object.metadata.name}"'


def _simulated(container: Container) -> str:
    """Return the container's state, because a simulated container has no output."""
    state = msgspec.json.encode(container.state).decode()
    text = f"simulated container, restarts {container.restarts}, state {state}"
    return f"{container.name}: {text}\n"


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

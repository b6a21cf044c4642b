"""A metrics server: ``metrics.k8s.io/v1beta1`` as an ASGI application.

It samples the usage that kubelets report once per window, and serves the last sample until the next
one, like metrics-server. Source: kubernetes-resize.md 7; k8s.io/metrics pkg/apis/metrics/v1beta1.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from datetime import datetime, timedelta
from typing import Any, NoReturn, Protocol
from urllib.parse import parse_qs, unquote

import msgspec

from common.flags import show
from common.labels import EVERYTHING, LabelSelectorError, Selector, parse_selector
from common.runtime.clock import Clock
from sandbox.kubelet.usage import Usage
from sandbox.kubelet.usages import PodUsage
from sandbox.times import rfc3339

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

GROUP = "metrics.k8s.io"
VERSION = "v1beta1"
GROUP_VERSION = f"{GROUP}/{VERSION}"

_ROOT = f"/apis/{GROUP_VERSION}"


class UsageSource(Protocol):
    """The source of usage, which is the kubelets; ``window`` is in seconds."""

    def pod_usages(self, *, window: float) -> Iterable[PodUsage]: ...


class MetricsServer:
    """Samples usage (``run``, endless) and answers requests (the object is an ASGI application).

    ``fault`` is an HTTP status for all requests, for tests of clients. While ``stalled``, nothing
    is sampled and the responses get old.
    """

    def __init__(self, source: UsageSource, clock: Clock, *, window: timedelta) -> None:
        self.fault: int | None = None
        self.stalled = False
        self._source = source
        self._clock = clock
        self._window = window
        self._sampled: datetime | None = None
        self._pods: dict[tuple[str, str], PodUsage] = {}

    async def run(self) -> NoReturn:
        """Sample once per window until cancelled."""
        while True:
            await asyncio.sleep(self._window.total_seconds())
            if not self.stalled:
                self.sample()

    def sample(self) -> None:
        """Replace the served sample by the present usage."""
        window = self._window.total_seconds()
        self._pods = {
            (usage.namespace, usage.name): usage for usage in self._source.pod_usages(window=window)
        }
        self._sampled = self._clock.now()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        del receive  # no request has a body that matters
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        status, body = self.answer(
            scope["method"],
            scope["path"],
            labels=query.get("labelSelector", [""])[0],
        )
        content = msgspec.json.encode(body)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    def answer(self, method: str, path: str, *, labels: str = "") -> tuple[int, Any]:
        """Return the HTTP status and the body for one request."""
        if self.fault is not None:
            return _status(self.fault, "ServiceUnavailable", "unavailable on purpose")
        if method not in ("GET", "HEAD"):
            return _status(405, "MethodNotAllowed", f"{method} is not supported")
        if path in ("/healthz", "/livez", "/readyz"):
            return 200, "ok"
        if path in _DISCOVERY:
            return 200, _DISCOVERY[path]
        parts = [unquote(part) for part in path.removeprefix(_ROOT).strip("/").split("/")]
        if not path.startswith(f"{_ROOT}/"):
            return _status(404, "NotFound", "the server could not find the requested resource")
        if self._sampled is None:
            return _status(503, "ServiceUnavailable", "metrics not available yet")
        try:
            selector = parse_selector(labels) if labels else EVERYTHING
        except LabelSelectorError as error:
            return _status(400, "BadRequest", str(error))
        match parts:
            case ["pods"]:
                return 200, self._pod_list("", selector)
            case ["namespaces", namespace, "pods"]:
                return 200, self._pod_list(namespace, selector)
            case ["namespaces", namespace, "pods", name]:
                return self._one_pod(namespace, name)
        return _status(404, "NotFound", "the server could not find the requested resource")

    def _one_pod(self, namespace: str, name: str) -> tuple[int, dict[str, Any]]:
        for one in self._pods.values():
            if (one.namespace, one.name) == (namespace, name):
                head = {"kind": "PodMetrics", "apiVersion": GROUP_VERSION}
                return 200, {**head, **self._pod(one)}
        text = f'podmetrics.metrics.k8s.io "{namespace}/{name}" not found'
        return _status(404, "NotFound", text)

    def _pod_list(self, namespace: str, labels: Selector) -> dict[str, Any]:
        found = [
            self._pod(one)
            for one in self._pods.values()
            if namespace in ("", one.namespace) and labels.matches(one.labels)
        ]
        return {
            "kind": "PodMetricsList",
            "apiVersion": GROUP_VERSION,
            "metadata": {},
            "items": found,
        }

    def _pod(self, usage: PodUsage) -> dict[str, Any]:
        metadata: dict[str, Any] = {
            "name": usage.name,
            "namespace": usage.namespace,
            "creationTimestamp": rfc3339(self._clock.now()),
        }
        if usage.labels:
            metadata["labels"] = dict(usage.labels)
        return {
            "metadata": metadata,
            "timestamp": rfc3339(self._sampled or self._clock.now()),
            "window": show(self._window),
            "containers": [
                {"name": name, "usage": _amounts(used)} for name, used in usage.containers.items()
            ],
        }


def _amounts(usage: Usage) -> dict[str, str]:
    """Return nanocores and Ki, as metrics-server writes them."""
    nanocores = round(usage.cpu_millicores * 1_000_000)
    return {
        "cpu": f"{nanocores}n" if nanocores else "0",
        "memory": f"{usage.memory_bytes // 1024}Ki",
    }


def _status(code: int, reason: str, message: str) -> tuple[int, dict[str, Any]]:
    return code, {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


_GROUP_VERSION = {"groupVersion": GROUP_VERSION, "version": VERSION}
_API_GROUP = {
    "kind": "APIGroup",
    "apiVersion": "v1",
    "name": GROUP,
    "versions": [_GROUP_VERSION],
    "preferredVersion": _GROUP_VERSION,
}
_DISCOVERY: Mapping[str, dict[str, Any]] = {
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_API_GROUP]},
    f"/apis/{GROUP}": _API_GROUP,
    _ROOT: {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": GROUP_VERSION,
        "resources": [
            {
                "name": "pods",
                "singularName": "",
                "namespaced": True,
                "kind": "PodMetrics",
                "verbs": ["list"],
            }
        ],
    },
}

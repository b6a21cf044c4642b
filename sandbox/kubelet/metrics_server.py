"""A metrics server: ``metrics.k8s.io/v1beta1`` as an ASGI application.

It samples what kubelets tell, once per window, and serves the last sample until the next one, as
metrics-server does. Source: kubernetes-resize.md 7; k8s.io/metrics pkg/apis/metrics/v1beta1.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from datetime import datetime, timedelta
from typing import Any, NoReturn, Protocol
from urllib.parse import parse_qs, unquote

import msgspec

from common.flags import show
from common.labels import EVERYTHING, LabelSelectorError, Selector, parse_selector
from common.runtime.clock import Clock
from sandbox.kubelet.usage import Usage
from sandbox.kubelet.usages import NodeUsage, PodUsage, Taken
from sandbox.times import rfc3339

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

GROUP = "metrics.k8s.io"
VERSION = "v1beta1"
GROUP_VERSION = f"{GROUP}/{VERSION}"

_ROOT = f"/apis/{GROUP_VERSION}"
_FIELD = re.compile(r"(metadata\.name(?:space)?)(==|!=|=)(.*)")


class UsageSource(Protocol):
    """Who knows what is used: the kubelets; ``window`` is in seconds."""

    def pod_usages(self, *, window: float) -> Iterable[PodUsage]: ...

    def node_usages(self, *, window: float) -> Iterable[NodeUsage]: ...


class MetricsServer:
    """Samples usage (``run``, endless) and answers requests (the object is an ASGI application).

    ``fault`` is an HTTP status that every request is answered with, for tests of clients;
    while ``stalled``, nothing is sampled and the answers get old.
    """

    def __init__(self, source: UsageSource, clock: Clock, *, window: timedelta) -> None:
        self.fault: int | None = None
        self.stalled = False
        self._source = source
        self._clock = clock
        self._window = window
        self._sampled: datetime | None = None
        self._pods: dict[tuple[str, str], PodUsage] = {}
        self._nodes: dict[str, NodeUsage] = {}

    async def run(self) -> NoReturn:
        """Sample once per window, for ever."""
        while True:
            await asyncio.sleep(self._window.total_seconds())
            if not self.stalled:
                self.sample()

    def sample(self) -> None:
        """Replace what is served by what is used now."""
        window = self._window.total_seconds()
        self._pods = {
            (usage.namespace, usage.name): usage for usage in self._source.pod_usages(window=window)
        }
        self._nodes = {usage.name: usage for usage in self._source.node_usages(window=window)}
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
            fields=query.get("fieldSelector", [""])[0],
        )
        content = msgspec.json.encode(body)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    def answer(
        self, method: str, path: str, *, labels: str = "", fields: str = ""
    ) -> tuple[int, Any]:
        """The HTTP status and the body for one request."""
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
            return self._resource(parts, selector, _FieldTerms(fields))
        except (LabelSelectorError, ValueError) as error:
            return _status(400, "BadRequest", str(error))

    def _resource(
        self, parts: list[str], labels: Selector, fields: "_FieldTerms"
    ) -> tuple[int, Any]:
        match parts:
            case ["nodes"]:
                nodes = self._nodes.values()
                found = [self._node(one) for one in nodes if labels.matches(one.labels)]
                return 200, _list("NodeMetricsList", fields.of(found))
            case ["nodes", name]:
                node = self._nodes.get(name)
                if node is None:
                    return _not_found("nodes", name)
                return 200, {**_head("NodeMetrics"), **self._node(node)}
            case ["pods"]:
                return 200, self._pod_list("", labels, fields)
            case ["namespaces", namespace, "pods"]:
                return 200, self._pod_list(namespace, labels, fields)
            case ["namespaces", namespace, "pods", name]:
                pod = self._pods.get((namespace, name))
                if pod is None:
                    return _not_found("pods", f"{namespace}/{name}")
                return 200, {**_head("PodMetrics"), **self._pod(pod)}
        return _status(404, "NotFound", "the server could not find the requested resource")

    def _pod_list(self, namespace: str, labels: Selector, fields: "_FieldTerms") -> dict[str, Any]:
        found = [
            self._pod(one)
            for one in self._pods.values()
            if namespace in ("", one.namespace) and labels.matches(one.labels)
        ]
        return _list("PodMetricsList", fields.of(found))

    def _pod(self, usage: PodUsage) -> dict[str, Any]:
        metadata = {"name": usage.name, "namespace": usage.namespace}
        return {
            **self._common(metadata, usage.labels, usage.taken),
            "containers": [
                {"name": name, "usage": _amounts(used)} for name, used in usage.containers.items()
            ],
        }

    def _node(self, usage: NodeUsage) -> dict[str, Any]:
        return {
            **self._common({"name": usage.name}, usage.labels, usage.taken),
            "usage": _amounts(usage.usage),
        }

    def _common(
        self, metadata: dict[str, Any], labels: Mapping[str, str], taken: Taken | None
    ) -> dict[str, Any]:
        metadata["creationTimestamp"] = rfc3339(self._clock.now())
        if labels:
            metadata["labels"] = dict(labels)
        timestamp = rfc3339(taken.at if taken else self._sampled or self._clock.now())
        window = taken.window if taken else self._window
        return {"metadata": metadata, "timestamp": timestamp, "window": show(window)}


class _FieldTerms:
    """A field selector over ``metadata.name`` and ``metadata.namespace``."""

    def __init__(self, text: str) -> None:
        self._terms: list[tuple[str, bool, str]] = []
        for term in filter(None, text.split(",")):
            match = _FIELD.fullmatch(term)
            if match is None:
                raise ValueError(f"field label not supported: {term}")
            key = match[1].removeprefix("metadata.")
            self._terms.append((key, match[2] != "!=", match[3]))

    def of(self, objects: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for found in objects:
            metadata = found["metadata"]
            if all((metadata.get(key) == value) is equal for key, equal, value in self._terms):
                yield found


def _amounts(usage: Usage) -> dict[str, str]:
    """Nanocores and Ki, as metrics-server writes them."""
    nanocores = round(usage.cpu_millicores * 1_000_000)
    return {
        "cpu": f"{nanocores}n" if nanocores else "0",
        "memory": f"{usage.memory_bytes // 1024}Ki",
    }


def _head(kind: str) -> dict[str, Any]:
    return {"kind": kind, "apiVersion": GROUP_VERSION}


def _list(kind: str, items: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {**_head(kind), "metadata": {}, "items": list(items)}


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


def _not_found(plural: str, name: str) -> tuple[int, dict[str, Any]]:
    return _status(404, "NotFound", f'{plural}.{GROUP} "{name}" not found')


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
                "name": plural,
                "singularName": "",
                "namespaced": kind == "PodMetrics",
                "kind": kind,
                "verbs": ["get", "list"],
            }
            for plural, kind in (("nodes", "NodeMetrics"), ("pods", "PodMetrics"))
        ],
    },
}

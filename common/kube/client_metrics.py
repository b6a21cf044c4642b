"""Metrics of the calls to the API server.

They have client-go's names, meanings and buckets. The label ``host`` is left out, because there is
one API server, and ``api_resource`` is added.

Source: k8s.io/component-base/metrics/prometheus/restclient/metrics.go.
"""

import asyncio
import contextlib
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram

from common.kube import endpoints
from common.kube.endpoints import Endpoint

NO_ANSWER = "<error>"
"""The code of a request without an answer, as client-go writes it."""

OTHER = "other"
"""The label of resources that only users name, and of paths without a resource."""

_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
_KNOWN = frozenset(each.resource for each in vars(endpoints).values() if isinstance(each, Endpoint))
_SUBRESOURCES = frozenset({"eviction", "resize", "status"})
_METRICS_APIS = {  # by group; names of external metrics are the operator's
    "metrics.k8s.io": "pods.metrics.k8s.io",
    "external.metrics.k8s.io": "external.metrics.k8s.io",
}


def resource_label(path: str) -> str:
    """Return the resource in a path, with its subresource; names of users don't become labels."""
    root, *parts = path.removeprefix("/").split("/")
    group = parts.pop(0) if root == "apis" and parts else ""
    if group in _METRICS_APIS:
        return _METRICS_APIS[group]
    parts = parts[1:]  # without the version
    if len(parts) > 2 and parts[0] == endpoints.NAMESPACES.resource:
        parts = parts[2:]
    if not parts or parts[0] not in _KNOWN:
        return OTHER
    is_subresource = len(parts) > 2 and parts[2] in _SUBRESOURCES
    return f"{parts[0]}/{parts[2]}" if is_subresource else parts[0]


class ClientMetrics:
    """The metrics of a client; times are those of the event loop."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "rest_client_requests",
            "Requests to the API server, each try and each watch, by the code of the answer.",
            ("code", "method", "api_resource"),
            registry=registry,
        )
        self._durations = Histogram(
            "rest_client_request_duration_seconds",
            "Time from sending a request to the API server to the end of the answer, without "
            "watches and without waiting for the rate limit.",
            ("verb", "api_resource"),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._waits = Histogram(
            "rest_client_rate_limiter_duration_seconds",
            "Time that requests waited for our own rate limit (--kube-api-qps).",
            ("verb",),
            buckets=_BUCKETS,
            registry=registry,
        )

    def answered(self, method: str, path: str, code: str) -> None:
        """Count a request by the HTTP status of its answer."""
        self._requests.labels(code, method, resource_label(path)).inc()

    @contextlib.contextmanager
    def timed(self, method: str, path: str) -> Iterator[None]:
        """Measure a request with its whole answer."""
        with _observed_by(self._durations.labels(method, resource_label(path))):
            yield

    @contextlib.contextmanager
    def waiting(self, method: str) -> Iterator[None]:
        """Measure a wait for the rate limit."""
        with _observed_by(self._waits.labels(method)):
            yield


@contextlib.contextmanager
def _observed_by(histogram: Histogram) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    started = loop.time()
    try:
        yield
    finally:
        histogram.observe(loop.time() - started)

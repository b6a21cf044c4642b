"""Answers of the metrics server, from usage that the test sets."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fixed_clock import FixedClock
from sandbox.kubelet.metrics_server import MetricsServer
from sandbox.kubelet.usage import Usage
from sandbox.kubelet.usages import PodUsage

NOW = datetime(2026, 1, 2, 12, 0, 0, 500_000, tzinfo=UTC)
ROOT = "/apis/metrics.k8s.io/v1beta1"
SMALL = Usage(cpu_millicores=12.5, memory_bytes=64 * 1024 * 1024)


class FakeSource:
    """Returns its usages, and records the requested windows."""

    def __init__(self) -> None:
        self.windows: list[float] = []
        self.pods = [
            PodUsage(namespace=namespace, name=name, labels={"app": name}, containers={"c": SMALL})
            for namespace, name in (("shop", "web"), ("shop", "db"), ("demo", "web"))
        ]

    def pod_usages(self, *, window: float) -> Iterable[PodUsage]:
        self.windows.append(window)
        return self.pods


@pytest.fixture
def server() -> MetricsServer:
    server = MetricsServer(FakeSource(), FixedClock(NOW), window=timedelta(seconds=15))
    server.sample()
    return server


def names(answer: tuple[int, Any]) -> list[str]:
    status, body = answer
    assert status == 200, body
    return [
        f"{one['metadata'].get('namespace', '')}/{one['metadata']['name']}" for one in body["items"]
    ]


def test_the_metrics_of_a_pod(server: MetricsServer) -> None:
    status, body = server.answer("GET", f"{ROOT}/namespaces/shop/pods")
    assert (status, body["kind"]) == (200, "PodMetricsList")
    assert body["items"][0] == {
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "creationTimestamp": "2026-01-02T12:00:00Z",
            "labels": {"app": "web"},
        },
        "timestamp": "2026-01-02T12:00:00Z",
        "window": "15s",
        "containers": [{"name": "c", "usage": {"cpu": "12500000n", "memory": "65536Ki"}}],
    }


def test_lists(server: MetricsServer) -> None:
    assert names(server.answer("GET", f"{ROOT}/pods")) == ["shop/web", "shop/db", "demo/web"]
    assert names(server.answer("GET", f"{ROOT}/namespaces/shop/pods")) == ["shop/web", "shop/db"]
    assert names(server.answer("GET", f"{ROOT}/namespaces/none/pods")) == []


def test_selectors(server: MetricsServer) -> None:
    path = f"{ROOT}/pods"
    assert names(server.answer("GET", path, labels="app in (db)")) == ["shop/db"]
    assert server.answer("GET", path, labels="app in")[0] == 400


@pytest.mark.parametrize(
    ("method", "path", "want"),
    [
        ("GET", "/readyz", 200),
        ("GET", "/apis", 200),
        ("GET", "/apis/metrics.k8s.io", 200),
        ("GET", ROOT, 200),
        ("GET", f"{ROOT}/volumes", 404),
        ("GET", "/api/v1/pods", 404),
        ("POST", f"{ROOT}/pods", 405),
    ],
)
def test_statuses(server: MetricsServer, method: str, path: str, want: int) -> None:
    assert server.answer(method, path)[0] == want


def test_an_error_is_a_status_object(server: MetricsServer) -> None:
    _, body = server.answer("GET", f"{ROOT}/volumes")
    assert (body["kind"], body["reason"], body["code"]) == ("Status", "NotFound", 404)


def test_before_the_first_sample_metrics_are_unavailable() -> None:
    server = MetricsServer(FakeSource(), FixedClock(NOW), window=timedelta(seconds=15))
    assert server.answer("GET", f"{ROOT}/pods")[0] == 503
    assert server.answer("GET", "/readyz")[0] == 200


def test_a_sample_is_served_until_the_next_one() -> None:
    source, clock = FakeSource(), FixedClock(NOW)
    server = MetricsServer(source, clock, window=timedelta(minutes=1))
    server.sample()
    clock.time += timedelta(seconds=40)
    source.pods.clear()
    assert len(names(server.answer("GET", f"{ROOT}/pods"))) == 3
    _, body = server.answer("GET", f"{ROOT}/pods")
    assert (body["items"][0]["timestamp"], body["items"][0]["window"]) == (
        "2026-01-02T12:00:00Z",
        "1m0s",
    )
    server.sample()
    assert names(server.answer("GET", f"{ROOT}/pods")) == []
    assert source.windows == [60.0, 60.0]


def test_a_fault_applies_to_all_requests(server: MetricsServer) -> None:
    server.fault = 503
    assert server.answer("GET", f"{ROOT}/pods")[0] == 503
    assert server.answer("GET", "/apis")[0] == 503

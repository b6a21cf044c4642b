"""From what kubelets say to usage."""

from datetime import UTC, datetime, timedelta

import pytest

from sandbox.kubelet.usage import Usage
from sandbox.metrics_server.exposition import samples
from sandbox.metrics_server.measuring import Measurements, read_scrape
from sandbox.metrics_server.scraping import kubelet_url

START = datetime(2026, 1, 1, tzinfo=UTC)
POD = {("shop", "web"): {"app": "web"}}


def said(seconds: float, cpu: float, *, started: float = 1.0, memory: int = 1024) -> str:
    at = int((START.timestamp() + seconds) * 1000)
    labels = '{container="app",namespace="shop",pod="web"}'
    return (
        "# TYPE container_cpu_usage_seconds_total counter\n"
        f"container_cpu_usage_seconds_total{labels} {cpu} {at}\n"
        f"container_memory_working_set_bytes{labels} {memory} {at}\n"
        f"container_start_time_seconds{labels} {started}\n"
        f"node_cpu_usage_seconds_total {cpu * 2} {at}\n"
        f"node_memory_working_set_bytes {memory * 2} {at}\n"
    )


def measured(*texts: str) -> Measurements:
    found = Measurements()
    for text in texts:
        found.add("node-0", read_scrape(samples(text), now=START))
    return found


def test_cpu_is_the_difference_of_two_looks_over_the_time_between_them() -> None:
    (pod,) = measured(said(0, 10), said(20, 11)).pods(POD)
    assert pod.containers == {"app": Usage(cpu_millicores=50.0, memory_bytes=1024)}
    assert pod.labels == {"app": "web"}
    assert pod.taken is not None
    assert pod.taken.at == START + timedelta(seconds=20)
    assert pod.taken.window == timedelta(seconds=20)


def test_a_node_has_a_counter_of_its_own() -> None:
    (node,) = measured(said(0, 10), said(20, 11)).nodes({"node-0": {"zone": "a"}})
    assert (node.usage.cpu_millicores, node.usage.memory_bytes) == (100.0, 2048)
    assert node.labels == {"zone": "a"}


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param((said(0, 10),), id="seen once"),
        pytest.param((said(0, 10), said(20, 11, started=15)), id="restarted in between"),
        pytest.param((said(0, 10), said(20, 1)), id="a counter that fell"),
        pytest.param((said(0, 10), said(0, 10)), id="the same look twice"),
    ],
)
def test_a_pod_has_no_metrics_if_it_was(texts: tuple[str, ...]) -> None:
    assert not list(measured(*texts).pods(POD))


def test_a_pod_that_is_gone_from_the_api_server_has_no_metrics() -> None:
    assert not list(measured(said(0, 10), said(20, 11)).pods({}))


def test_a_node_that_is_gone_is_forgotten() -> None:
    found = measured(said(0, 10), said(20, 11))
    found.keep([])
    assert not list(found.nodes({}))


def test_the_kubelet_is_where_its_node_says() -> None:
    status = {
        "addresses": [
            {"type": "Hostname", "address": "node-0"},
            {"type": "InternalIP", "address": "127.0.0.1"},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 1234}},
    }
    assert kubelet_url({"status": status}) == "https://127.0.0.1:1234"
    assert kubelet_url({}) is None

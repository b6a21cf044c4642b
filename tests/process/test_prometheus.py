"""The recommender with a real Prometheus and its recorded series.

Skipped if the programs ``prometheus`` and ``promtool`` are missing.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from certificates import new_bundle, write_pair
from common.runtime.clock import SystemClock
from component import LOOPBACK, Process, running_component
from demo.processes import free_port
from fake_api import FakeApi, listing
from prometheus_programs import NEEDS_PROMETHEUS, prometheus, promtool
from recommender.model import buckets
from recommender_harness import (
    METRICS,
    NEW_CHECKPOINT,
    checkpoint_of,
    conditions,
    prepare,
    status_of,
    target,
    usage,
    written,
)

pytestmark = NEEDS_PROMETHEUS

HOURS = 30
SCRAPE_INTERVAL = 60  # seconds between two scrapes
WEB = checkpoint_of("web-app")
HALF_CORE_TARGET = "587m"  # with the margin
# bcrypt of "test", as in Prometheus' own guide
PASSWORD = "$2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay"


@dataclass(frozen=True, kw_only=True)
class Container:
    """A recorded container."""

    pod: str
    cores: float
    bytes: int
    app: str = "web"
    container: str = "app"

    @property
    def labels(self) -> str:
        names = {"namespace": "shop", "pod_name": self.pod, "name": self.container}
        return _labels(job="kubernetes-cadvisor", **names)

    @property
    def pod_labels(self) -> str:
        names = {"kubernetes_namespace": "shop", "kubernetes_pod_name": self.pod}
        return _labels(job="kubernetes-pods", **names, pod_label_app=self.app)


RECORDED = (
    Container(pod="web-1", cores=0.5, bytes=2**30),
    Container(pod="web-0", cores=0.5, bytes=2**30),  # a deleted pod
    Container(pod="web-1", cores=9.0, bytes=2**36, container="POD"),
    Container(pod="other-1", cores=9.0, bytes=2**36, app="other"),
)


def _labels(**names: str) -> str:
    return ",".join(f'{name}="{text}"' for name, text in names.items())


def open_metrics(until: datetime) -> Iterator[str]:
    """Yield the recorded series in OpenMetrics, for promtool."""
    end = int(until.timestamp())
    times = range(end - HOURS * 3600, end + 1, SCRAPE_INTERVAL)
    yield "# TYPE container_cpu_usage_seconds counter"
    for one in RECORDED:
        for at in times:
            seconds = one.cores * (at - times[0])
            yield f"container_cpu_usage_seconds_total{{{one.labels}}} {seconds} {at}"
    yield "# TYPE container_memory_working_set_bytes gauge"
    for one in RECORDED:
        for at in times:
            yield f"container_memory_working_set_bytes{{{one.labels}}} {one.bytes} {at}"
    yield "# TYPE up gauge"
    for one in {one.pod: one for one in RECORDED}.values():
        for at in times:
            yield f"up{{{one.pod_labels}}} 1 {at}"
    yield "# EOF\n"


async def create_database(folder: Path, now: datetime) -> Path:
    """Create a database with the recorded series."""
    text, data = folder / "recorded.txt", folder / "data"
    await asyncio.to_thread(text.write_text, "\n".join(open_metrics(now)), encoding="utf-8")
    await promtool("tsdb", "create-blocks-from", "openmetrics", str(text), str(data))
    return data


@contextlib.asynccontextmanager
async def start_recommender(
    api: FakeApi, folder: Path, address: str, *flags: str
) -> AsyncIterator[Process]:
    wanted = (
        *("--recommender-interval=200ms", "--storage=prometheus", "--history-length=1d"),
        f"--prometheus-address={address}",
    )
    async with running_component("recommender", api, folder, *wanted, *flags) as process:
        yield process


async def wait_for_history(api: FakeApi) -> None:
    async with asyncio.timeout(80):
        while "FetchingHistory" in conditions(api):
            await api.asked(status_of("web"), api.routes.count(status_of("web")) + 1)


def deploy_workload(api: FakeApi, now: datetime) -> None:
    prepare(api)
    api.on(METRICS, listing(usage(at=now, cpu="10m", memory="10Mi")))


async def test_history_is_loaded_from_a_real_server_that_starts_late(tmp_path: Path) -> None:
    now, port = SystemClock().now(), free_port()
    data = await create_database(tmp_path, now)
    async with FakeApi() as api:
        deploy_workload(api, now)
        async with start_recommender(api, tmp_path, f"http://{LOOPBACK}:{port}") as process:
            await process.logged("history not fetched from Prometheus, trying again")
            await api.asked(status_of("web"))
            assert "FetchingHistory" in conditions(api)
            assert target(api)["cpu"] == "25m"  # live samples count
            async with prometheus(data, port):
                await wait_for_history(api)  # needs a third attempt if the server starts slowly
                await process.logged("history from Prometheus is complete")
                await api.asked(NEW_CHECKPOINT)
            assert target(api)["cpu"] == HALF_CORE_TARGET
            checkpoint = written(api, WEB)
            _, metrics = await process.get("/metrics")
        assert len(process.said("trying again")) == 1
        assert not process.said("Traceback")
    assert 'vpa_recommender_history_namespaces{state="loaded"} 1.0' in metrics
    assert 'requests_count{code="200",method="post"}' in metrics
    # 25 points of both pods and the live sample, without sandbox containers and other pods.
    assert checkpoint["totalSamplesCount"] == 2 * 25 + 1
    assert heaviest(checkpoint["cpuHistogram"]) == buckets.CPU.of(np.array([500]))[0]
    assert heaviest(checkpoint["memoryHistogram"]) == buckets.MEMORY.of(np.array([2**30]))[0]
    first = datetime.fromisoformat(checkpoint["firstSampleStart"])
    assert timedelta(hours=23) < now - first < timedelta(hours=25)


def heaviest(histogram: Mapping[str, Any]) -> int:
    weights: Mapping[str, int] = histogram["bucketWeights"]
    return int(max(weights, key=lambda bucket: weights[bucket]))


async def test_a_server_with_tls_and_a_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, port = SystemClock().now(), free_port()
    data = await create_database(tmp_path, now)
    bundle = new_bundle()
    certificate, key = write_pair(tmp_path, bundle.server)
    (tmp_path / "ca.pem").write_bytes(bundle.authority.certificate)
    web = tmp_path / "web.yml"
    web.write_text(
        f"tls_server_config: {{cert_file: {certificate}, key_file: {key}}}\n"
        f"basic_auth_users: {{me: '{PASSWORD}'}}\n",
        encoding="utf-8",
    )
    address = f"https://{LOOPBACK}:{port}"
    async with FakeApi() as api, prometheus(data, port, f"--web.config.file={web}"):
        deploy_workload(api, now)
        credentials = ("--username=me", "--password=test")
        for flags, error in (
            (credentials, "CERTIFICATE_VERIFY_FAILED"),
            (("--prometheus-insecure", "--username=me", "--password=wrong"), "answered 401"),
        ):
            async with start_recommender(api, tmp_path, address, *flags) as process:
                await process.logged("history not fetched from Prometheus, trying again")
                assert process.said(error)
                assert not process.said("wrong")
        async with start_recommender(
            api, tmp_path, address, "--prometheus-insecure", *credentials
        ) as process:
            await process.logged("history from Prometheus is complete")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        monkeypatch.setenv("PROMETHEUS_USERNAME", "me")
        monkeypatch.setenv("PROMETHEUS_PASSWORD", "test")
        async with start_recommender(api, tmp_path, address) as process:
            await process.logged("history from Prometheus is complete")
            await wait_for_history(api)
        assert target(api)["cpu"] == HALF_CORE_TARGET

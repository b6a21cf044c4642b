"""``kubectl vpa report`` with a real Prometheus whose series have the labels of kube-prometheus.

Skipped if the programs ``prometheus`` and ``promtool`` are missing.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Iterator
from datetime import datetime
from pathlib import Path

from cli_cluster import LARGE, CliCluster, cli_cluster
from cli_program import Printed, run_cli
from common.kube.endpoints import PODS
from common.runtime.clock import SystemClock
from component import LOOPBACK
from demo.processes import free_port
from prometheus_programs import NEEDS_PROMETHEUS, prometheus, promtool
from workloads import NAMESPACE

pytestmark = NEEDS_PROMETHEUS

HOURS = 30
SCRAPE_INTERVAL = 60  # seconds between two scrapes
CORES, BYTES = 0.2, 400 << 20
TARGET = ("247m", "511772986")  # the ends of their buckets, with the margin
FLAGS = (
    "--prometheus-cadvisor-job-name=kubelet",
    "--container-pod-name-label=pod",
    "--container-name-label=container",
)


def open_metrics(pods: Collection[str], until: datetime) -> Iterator[str]:
    """Yield the series of the pods: those of the container, of the sandbox, and of the cgroup."""
    end = int(until.timestamp())
    times = range(end - HOURS * 3600, end + 1, SCRAPE_INTERVAL)
    labels = [
        f'{{job="kubelet",namespace="{NAMESPACE}",pod="{pod}",container="{container}"}}'
        for pod in pods
        for container in ("app", "POD", "")
    ]
    yield "# TYPE container_cpu_usage_seconds counter"
    for each in labels:
        for at in times:
            yield f"container_cpu_usage_seconds_total{each} {CORES * (at - times[0])} {at}"
    yield "# TYPE container_memory_working_set_bytes gauge"
    for each in labels:
        for at in times:
            yield f"container_memory_working_set_bytes{each} {BYTES} {at}"
    yield "# EOF\n"


@contextlib.asynccontextmanager
async def observed(folder: Path) -> AsyncIterator[tuple[CliCluster, str]]:
    """Run a cluster with a workload without a VPA; yield it with the address of Prometheus."""
    port = free_port()
    async with cli_cluster(folder) as cluster:
        await cluster.deploy("legacy", 2, LARGE)
        await cluster.until_running(2)
        pods = [each.metadata.name for each in (await cluster.client.list(PODS)).items]
        text, data = folder / "recorded.txt", folder / "data"
        lines = "\n".join(open_metrics(pods, SystemClock().now()))
        await asyncio.to_thread(text.write_text, lines, encoding="utf-8")
        await promtool("tsdb", "create-blocks-from", "openmetrics", str(text), str(data))
        async with prometheus(data, port):
            yield cluster, f"--prometheus-address=http://{LOOPBACK}:{port}"


async def report(cluster: CliCluster, *arguments: str) -> Printed:
    return await run_cli(
        cluster.kubeconfig,
        "report",
        "-n",
        NAMESPACE,
        "-o",
        "json",
        "--history-length=1d",
        *arguments,
    )


async def test_a_workload_without_a_vpa_is_estimated_from_kube_prometheus(tmp_path: Path) -> None:
    async with observed(tmp_path) as (cluster, address):
        printed = await report(cluster, address, *FLAGS)
        while "no answer" in printed.err:  # the server doesn't listen yet
            printed = await report(cluster, address, *FLAGS)
        assert (printed.code, printed.err) == (0, "")
        (legacy,) = printed.items
        assert (legacy["source"], legacy["message"]) == ("prometheus", "")
        assert (legacy["cpu"]["recommended"], legacy["memory"]["recommended"]) == TARGET

        without = await report(cluster, address)
        assert without.code == 1
        for flag in FLAGS:
            assert flag in without.err

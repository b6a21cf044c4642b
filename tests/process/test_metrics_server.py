"""The metrics server as a process: from its start to an answer by the API server, to its end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from common.errors import ServerError
from common.kube.client import KubeClient
from common.kube.endpoints import POD_METRICS, PODS
from common.quantity import parse_milli, parse_value
from common.runtime.clock import SystemClock
from component import LOOPBACK, Process, free_port, start_process
from sandbox.cluster import Cluster, running_cluster
from sandbox.furnishing import METRICS_HOST, announce_metrics
from sandbox.scenario import parse_scenario
from sandbox.tls import NAMES, make_credentials

SCENARIO = parse_scenario("""
namespaces: [shop]
nodes: [{name: node, count: 2, cpu: 4, memory: 8Gi}]
timing: {start-delay: 10ms, heartbeat: 1s}
usage: [{match: {}, cpu: 250m, memory: 100Mi}]
""")
NODE_METRICS = "/apis/metrics.k8s.io/v1beta1/nodes"
PATIENCE = 20  # seconds


@dataclass(frozen=True, slots=True)
class World:
    """A cluster without a metrics server of its own, and one that is a process."""

    cluster: Cluster
    client: KubeClient
    process: Process
    port: int

    async def measured(self) -> dict[str, Any]:
        """The pods that have metrics now; nothing while the API has none."""
        try:
            found = await self.client.list(POD_METRICS, namespace="shop")
        except ServerError:
            return {}
        return {one.metadata.name: one for one in found.items}

    async def until_measured(self, *names: str) -> dict[str, Any]:
        """The metrics, once exactly these pods have some."""
        async with asyncio.timeout(PATIENCE):
            while True:
                found = await self.measured()
                if found.keys() == set(names):
                    return found
                await asyncio.sleep(0.1)


async def start_pod(client: KubeClient, name: str, node: str) -> None:
    await client.create(
        PODS.as_dicts(),
        {
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"nodeName": node, "containers": [{"name": "app", "image": "shop:1"}]},
        },
        namespace="shop",
    )


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    credentials = make_credentials(SystemClock().now(), names=(*NAMES, METRICS_HOST))
    certificate, key = folder / "cert.pem", folder / "key.pem"
    certificate.write_text(credentials.certificate)
    key.write_text(credentials.key)
    port = free_port()
    async with (
        running_cluster(SCENARIO, metrics=False) as cluster,
        cluster.client("test") as client,
        asyncio.TaskGroup() as group,
    ):
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(cluster.kubeconfig)
        await announce_metrics(client, port, credentials.authority)
        flags = (
            f"--kubeconfig={kubeconfig}",
            f"--secure-port={port}",
            "--metric-resolution=1s",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
        )
        running = await start_process(["sandbox.metrics_server", *flags])
        process = Process("metrics-server", running, 0)
        group.create_task(process.read_log())
        try:
            yield World(cluster, client, process, port)
        finally:
            await process.kill()


async def test_usage_is_served_through_the_api_server_until_the_process_is_told_to_end(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as it:
        with pytest.raises(ServerError):
            await it.client.list(POD_METRICS, namespace="shop")  # nobody listens yet
        await start_pod(it.client, "web", "node-0")
        await start_pod(it.client, "db", "node-1")
        found = await it.until_measured("web", "db")
        (container,) = found["web"].containers
        assert container.name == "app"
        assert parse_milli(container.usage["cpu"]) == pytest.approx(250, abs=2)
        assert parse_value(container.usage["memory"]) == 100 * 1024 * 1024
        nodes = msgspec.json.decode(await it.client.request("GET", NODE_METRICS))["items"]
        assert {one["metadata"]["name"] for one in nodes} == {"node-0", "node-1"}

        code, seconds = await it.process.stop()
        assert (code, seconds < 5) == (0, True)
        assert it.process.said("Traceback") == []
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(LOOPBACK, it.port)
        with pytest.raises(ServerError):
            await it.client.list(POD_METRICS, namespace="shop")


async def test_a_kubelet_that_is_dead_costs_its_own_pods_and_an_api_server_that_is_away_none(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as it:
        await start_pod(it.client, "web", "node-0")
        await start_pod(it.client, "db", "node-1")
        await it.until_measured("web", "db")
        it.cluster.kubelets.freeze("node-1")
        await it.until_measured("web")
        await it.process.logged("kubelet doesn't answer")
        await it.cluster.restart_api_server()
        await start_pod(it.client, "new", "node-0")
        await it.until_measured("web", "new")
        it.cluster.kubelets.thaw("node-1")
        await it.until_measured("web", "new", "db")
        assert (await it.process.stop())[0] == 0
        assert it.process.said("Traceback") == []


@pytest.mark.parametrize(
    ("flag", "complaint"),
    [
        ("--metric-resolution=0s", "--metric-resolution: shorter than a second"),
        ("--tls-cert-file=/nowhere/cert", "--tls-private-key-file belong together"),
        ("--kubeconfig=/nowhere/config", "kubeconfig /nowhere/config: no such file"),
        ("--no-such-flag", "--no-such-flag"),
    ],
)
async def test_a_mistake_is_one_line_and_exit_code_2(flag: str, complaint: str) -> None:
    process = await start_process(["sandbox.metrics_server", flag])
    _, told = await process.communicate()
    (line,) = told.decode().splitlines()
    assert (process.returncode, line.startswith("metrics-server")) == (2, True)
    assert complaint in line

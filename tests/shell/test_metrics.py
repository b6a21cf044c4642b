"""The sandbox's metrics server, read by our client over TLS, in virtual time."""

from collections.abc import Iterable
from datetime import timedelta

import pytest

from common.api.metrics import PodMetrics
from common.errors import KubeError
from common.kube.client import KubeClient
from common.kube.connection import Connection, client_context
from common.kube.endpoints import POD_METRICS
from sandbox import virtual_time
from sandbox.kubelet.metrics_server import MetricsServer
from sandbox.kubelet.usage import Usage
from sandbox.kubelet.usages import PodUsage
from sandbox.listener import Listener
from sandbox.tls import make_credentials
from sandbox.virtual_time import EPOCH, VirtualClock

SMALL = Usage(cpu_millicores=30, memory_bytes=60 * 1024 * 1024)


class Source:
    def pod_usages(self, *, window: float) -> Iterable[PodUsage]:
        return [PodUsage(namespace="shop", name="web", labels={}, containers={"app": SMALL})]


def test_our_client_reads_the_usage_from_kubelets() -> None:
    async def main(clock: VirtualClock) -> tuple[PodMetrics, ...]:
        tls = make_credentials()
        server = MetricsServer(Source(), clock, window=timedelta(seconds=15))
        server.sample()
        async with Listener(server, tls=tls.server_context()) as listener:
            trusted = client_context(ca_data=tls.authority)
            connection = Connection(listener.url, ssl_context=trusted)
            async with KubeClient(connection, user_agent="test", qps=0, burst=0) as client:
                return (await client.list(POD_METRICS, namespace="shop")).items

    (found,) = virtual_time.run(main)
    assert found.timestamp == EPOCH
    assert found.containers is not None
    assert found.containers[0].usage == {"cpu": "30000000n", "memory": "61440Ki"}


def test_another_authority_is_not_trusted() -> None:
    async def main(clock: VirtualClock) -> None:
        server = MetricsServer(Source(), clock, window=timedelta(seconds=15))
        ours, theirs = (make_credentials() for _ in range(2))
        async with Listener(server, tls=ours.server_context()) as listener:
            stranger = client_context(ca_data=theirs.authority)
            connection = Connection(listener.url, ssl_context=stranger)
            async with KubeClient(connection, user_agent="test", qps=0, burst=0) as client:
                await client.list(POD_METRICS, namespace="shop")

    with pytest.raises(KubeError, match="certificate verify failed"):
        virtual_time.run(main)

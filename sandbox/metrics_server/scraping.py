"""Asks all kubelets, again and again."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, NoReturn

import aiohttp

from common.api.meta import PartialObject
from common.kube.cache import Cache
from common.kube.client import KubeClient
from common.kube.endpoints import NODES, PODS, Endpoint
from common.runtime.clock import Clock
from sandbox.kubelet.metrics_server import MetricsServer
from sandbox.kubelet.usages import NodeUsage, PodUsage
from sandbox.metrics_server.exposition import samples
from sandbox.metrics_server.measuring import Measurements, read_scrape

logger = logging.getLogger(__name__)

_POD_LABELS = Endpoint(PODS.group, PODS.version, PODS.resource, PODS.kind, PartialObject)
_AT_ONCE = 16  # kubelets that are asked at the same time
_LONGEST = 10.0  # seconds for one answer


class Scraper:
    """Knows nodes and pods by list and watch, and their usage by asking the kubelets.

    Kubelets that share an endpoint are told apart by the query ``?node=NAME``, which one that
    is alone on its endpoint ignores. Their certificates are not verified, and they are sent no
    token.
    """

    def __init__(self, client: KubeClient, clock: Clock, *, every: timedelta) -> None:
        self._clock = clock
        self._every = every.total_seconds()
        self.nodes = Cache(client, NODES)
        self.pods = Cache(client, _POD_LABELS)
        self._measurements = Measurements()
        self._silent: set[str] = set()  # nodes whose kubelet didn't answer the last time

    async def run(self, server: MetricsServer) -> NoReturn:
        """Scrape, and let ``server`` take its sample from that, for ever."""
        await self.nodes.wait_synced()
        await self.pods.wait_synced()
        connections = aiohttp.TCPConnector(ssl=False, limit=_AT_ONCE)
        async with aiohttp.ClientSession(connector=connections, trust_env=False) as session:
            while True:
                due = asyncio.get_running_loop().time() + self._every
                if await self.scrape(session):
                    server.sample()
                await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))

    async def scrape(self, session: aiohttp.ClientSession) -> bool:
        """Ask every kubelet once; whether anything can be told by now."""
        nodes = list(self.nodes.snapshot.items())
        answered = await asyncio.gather(*(self._scrape(session, node) for node in nodes))
        self._measurements.keep(name for name in answered if name)
        return any(True for _ in self.node_usages())

    async def _scrape(self, session: aiohttp.ClientSession, node: Mapping[str, Any]) -> str:
        """Ask one kubelet; its node's name, or nothing if it didn't answer."""
        name = str(node["metadata"]["name"])
        url = kubelet_url(node)
        if url is None:
            return ""
        try:
            async with asyncio.timeout(min(_LONGEST, self._every)):
                async with session.get(f"{url}/metrics/resource", params={"node": name}) as answer:
                    answer.raise_for_status()
                    text = await answer.text()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            if name not in self._silent:
                self._silent.add(name)
                told = {"node": name, "error": str(error) or type(error).__name__}
                logger.warning("kubelet doesn't answer", extra=told)
            return ""
        if name in self._silent:
            self._silent.remove(name)
            logger.info("kubelet answers again", extra={"node": name})
        self._measurements.add(name, read_scrape(samples(text), now=self._clock.now()))
        return name

    # As a source of usage: what was measured counts, over the time that was really between.

    def pod_usages(self, *, window: float) -> Iterable[PodUsage]:
        """The usage of all pods."""
        del window
        labels = {
            (pod.metadata.namespace, pod.metadata.name): pod.metadata.labels or {}
            for pod in self.pods.snapshot.items()
        }
        return self._measurements.pods(labels)

    def node_usages(self, *, window: float = 0.0) -> Iterable[NodeUsage]:
        """The usage of all nodes."""
        del window
        labels = {
            node["metadata"]["name"]: node["metadata"].get("labels") or {}
            for node in self.nodes.snapshot.items()
        }
        return self._measurements.nodes(labels)


def kubelet_url(node: Mapping[str, Any]) -> str | None:
    """Where a node's kubelet listens, by its status; None as long as that doesn't say."""
    status = node.get("status") or {}
    endpoint = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
    for address in status.get("addresses") or ():
        if address["type"] == "InternalIP" and endpoint.get("Port"):
            host = f"[{address['address']}]" if ":" in address["address"] else address["address"]
            return f"https://{host}:{endpoint['Port']}"
    return None

"""A cluster with a real API server. Its servers are processes, its nodes are simulated."""

import asyncio
import contextlib
import ipaddress
import os
import ssl
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from common.errors import NotFoundError
from common.kube.client import KubeClient
from common.kube.connection import Connection, client_context
from common.kube.endpoints import Endpoint
from common.runtime.clock import SystemClock
from controlplane import binaries as found
from controlplane.audit import AuditFile
from controlplane.binaries import Binaries
from controlplane.commands import Ports
from controlplane.containers.endpoint import KubeletEndpoint
from controlplane.containers.pods import LocalPods
from controlplane.containers.site import LOOPBACK, Site, network_of
from controlplane.files import Files, write_files
from controlplane.metrics_api import METRICS_HOST, MetricsApi
from controlplane.processes import ProcessUsage, free_ports
from controlplane.servers import READY_WITHIN, NotReadyError, Servers
from sandbox.apiserver.audit import Entry
from sandbox.components import (
    Component,
    create_namespaces,
    running_components,
    simulation_of,
)
from sandbox.kubelet.metrics_server import MetricsServer
from sandbox.kubelet.service import Kubelets
from sandbox.listener import Listener
from sandbox.scenario import Scenario
from sandbox.version import KubernetesVersion

_SERVICE_ACCOUNTS = Endpoint("", "v1", "serviceaccounts", "ServiceAccount", dict[str, Any])
_UNLIMITED = 0.0  # requests per second
_POLL_INTERVAL = 0.05  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """A running cluster with handles for tests and programs.

    Names are those of :class:`sandbox.cluster.Cluster` if both have the feature.
    """

    authority: str  # PEM
    kubeconfig: str  # YAML, the administrator's
    connection: Connection  # the administrator's
    kubelets: Kubelets
    version: KubernetesVersion  # of the API server
    servers: Servers
    files: Files
    _audit: AuditFile = field(repr=False)
    _metrics: MetricsApi | None = None

    @property
    def url(self) -> str:
        return self.servers.ports.url

    def client(self, user_agent: str) -> KubeClient:
        """Return a client of the administrator without rate limits."""
        return _client(self.connection, user_agent)

    @contextlib.asynccontextmanager
    async def without_metrics(self) -> AsyncIterator[None]:
        """Make the metrics API fail while the context is entered, as without its server."""
        if self._metrics is None:
            raise RuntimeError("there is no metrics API")
        async with self.client("controlplane") as client, self._metrics.away(client):
            yield

    async def stop_api_server(self) -> None:
        """Kill the API server. Its connections break."""
        await self.servers.api.kill()

    async def start_api_server(self) -> None:
        """Start the API server with the same port and data, and wait until it is ready.

        Raises:
            ProcessEndedError: it ended at once; the message holds the end of its log.
            NotReadyError: it didn't become ready.
        """
        await self.servers.start_api(self.connection)

    async def restart_api_server(self) -> None:
        """Kill the API server and start it again."""
        await self.stop_api_server()
        await self.start_api_server()

    async def forget_history(self) -> None:
        """Drop all past changes: watches that start at an old version get 410.

        The API server keeps recent changes in memory, so it is restarted.
        """
        await self.stop_api_server()
        await self.servers.compact()
        await self.start_api_server()

    def audit(self, **wanted: str) -> tuple[Entry, ...]:
        """Return all calls that the API server has answered, oldest first.

        Keys are those of :meth:`sandbox.apiserver.audit.AuditLog.find`: ``verb``, ``resource``, ….
        """
        return self._audit.find(wanted)

    async def metrics_text(self) -> str:
        """Return the API server's own metrics in the format of Prometheus."""
        async with self.client("controlplane") as client:
            return (await client.request("GET", "/metrics")).decode()

    def usage(self) -> Mapping[str, ProcessUsage]:
        """Return the usage of each server since its last start, by its name."""
        return self.servers.usage()


@contextlib.asynccontextmanager
async def running_control_plane(
    scenario: Scenario,
    *,
    folder: Path,
    binaries: Binaries | None = None,
    port: int = 0,
    images: Mapping[str, Sequence[str]] | None = None,
    pullable: Collection[str] | None = None,
    metrics: bool = True,
    webhooks: Sequence[str] = (),
    pod_network: str = "",
) -> AsyncIterator[ControlPlane]:
    """Run a cluster while the context is entered; on entry it is ready.

    A cluster is ready when its API server is, the nodes are registered, the scenario's namespaces
    exist with their default service accounts, and, unless ``metrics`` is False, the metrics API is
    announced. ``folder`` gets keys, data and logs, and must be new; ``port`` 0 selects a free one.
    Containers whose image ``images`` names run as processes of this machine, by the given command;
    all others are simulated. With ``pullable`` the nodes are strict: containers with another image,
    tag included, don't start, and no pod starts without its Secrets and ConfigMaps. The scenario's
    version is ignored: the programs determine it. The API server shows the client certificate
    ``files.WEBHOOK_CLIENT`` to ``webhooks``, named by their hosts, if they request one.

    Processes get addresses on loopback, which endpoints of Services can't have. With
    ``pod_network`` they get addresses of this network, all of which must be this machine's, and the
    API server dials the endpoints of Services.

    Raises:
        ConfigError: programs are missing, or there are no free ports.
        ProcessEndedError: a server ended at once; the message holds the end of its log.
        NotReadyError: the cluster was not ready in time.
    """
    binaries = binaries or found.find()
    clock = SystemClock()
    ports = _ports(port)
    files = Files.within(folder)
    written = write_files(
        files, url=ports.url, now=clock.now(), hosts=(METRICS_HOST,), webhooks=webhooks
    )
    admin = _connection(ports, files, "admin")
    servers = Servers.of(binaries, files, ports, dial_endpoints=bool(pod_network))
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(servers.running(admin))
        client = await stack.enter_async_context(_client(admin, "controlplane"))
        kubelet_client = _client(_connection(ports, files, "kubelets"), "kubelet")
        version = await _version(client)
        kubelet_client = await stack.enter_async_context(kubelet_client)
        images = images or {}
        site = Site(
            server=ports.url,
            authority=written.authority,
            folder=files.folder,
            network=pod_network or network_of(os.getpid()),
        )
        simulation = simulation_of(scenario, version, images=images, pullable=pullable)
        pods = LocalPods(site, kubelet_client, clock, images=images, can_pull=simulation.can_pull)
        stack.push_async_callback(pods.close)
        kubelets = Kubelets(
            kubelet_client,
            clock,
            shapes=[replace(shape, address=LOOPBACK) for shape in scenario.nodes],
            simulation=simulation,
            processes=pods,
        )
        tls = written.kubelets.server_context()
        endpoint = KubeletEndpoint(kubelets.nodes, pods, clock)
        kubelets.port = (await stack.enter_async_context(Listener(endpoint, tls=tls))).port
        components: list[Component] = [kubelets.run, *(server.watch for server in servers.all)]
        metrics_api: MetricsApi | None = None
        if metrics:
            server = MetricsServer(kubelets, clock, window=scenario.metrics_window)
            address = _first_address(pod_network) if pod_network else ""
            listener = Listener(server, tls=tls, host=address or LOOPBACK)
            await stack.enter_async_context(listener)
            components.append(server.run)
            metrics_api = MetricsApi(listener.port, written.authority, address)
        plane = ControlPlane(
            authority=written.authority,
            kubeconfig=written.kubeconfig,
            connection=admin,
            kubelets=kubelets,
            version=version,
            servers=servers,
            files=files,
            _audit=AuditFile(files.audit_log),
            _metrics=metrics_api,
        )
        await stack.enter_async_context(running_components(components))
        await create_namespaces(client, scenario.namespaces)
        if metrics_api is not None:
            await metrics_api.announce(client)
        await kubelets.wait_ready()
        await _accounts(client, ("default", *scenario.namespaces))
        yield plane


def _ports(port: int) -> Ports:
    etcd, peers, api, controllers, scheduler = free_ports(5)
    return Ports(
        etcd=etcd,
        etcd_peers=peers,
        api_server=port or api,
        controller_manager=controllers,
        scheduler=scheduler,
    )


def _first_address(network: str) -> str:
    """Return an address that no pod gets: :class:`Addresses` keeps the first ones free."""
    return str(ipaddress.ip_network(network)[1])


def _connection(ports: Ports, files: Files, user: str) -> Connection:
    context: ssl.SSLContext = client_context(ca_file=str(files.certificate("ca")))
    context.load_cert_chain(files.certificate(user), files.key(user))
    return Connection(ports.url, ssl_context=context)


def _client(connection: Connection, user_agent: str) -> KubeClient:
    return KubeClient(
        connection,
        user_agent=user_agent,
        qps=_UNLIMITED,
        burst=_UNLIMITED,
        rng=Random(0),  # noqa: S311 - spreads retries, guards no secret
    )


async def _version(client: KubeClient) -> KubernetesVersion:
    version = msgspec.json.decode(await client.request("GET", "/version"))
    return KubernetesVersion(int(version["minor"].rstrip("+")))


async def _accounts(client: KubeClient, namespaces: tuple[str, ...]) -> None:
    """Wait for the default ServiceAccounts, without which no pod can be created."""
    try:
        async with asyncio.timeout(READY_WITHIN):
            for namespace in namespaces:
                await _account(client, namespace)
    except TimeoutError as error:
        raise NotReadyError(
            f"no default ServiceAccount appeared within {READY_WITHIN:.0f} s"
        ) from error


async def _account(client: KubeClient, namespace: str) -> None:
    while True:
        try:
            await client.get(_SERVICE_ACCOUNTS, "default", namespace=namespace)
        except NotFoundError:
            await asyncio.sleep(_POLL_INTERVAL)
        else:
            return

"""A whole cluster in one process: API server, controllers, scheduler, kubelets, metrics.

Everything beside the API server is a client of it, with a token and a user agent of its own.
All of it takes time from one clock and waits on one event loop, so it runs as well on a
virtual-time loop.
"""

import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from random import Random

from common.kube.client import KubeClient
from common.kube.connection import Connection, StaticCredentials, client_context
from common.runtime.clock import Clock, SystemClock
from sandbox.apiserver.audit import Entry
from sandbox.apiserver.server import ApiServer, Serving, serve
from sandbox.clocks import ShiftedClock
from sandbox.components import (
    Component,
    create_namespaces,
    running_components,
    simulation_of,
)
from sandbox.controllers.control_plane import control_plane
from sandbox.kubelet.metrics_server import GROUP, VERSION, MetricsServer
from sandbox.kubelet.service import Kubelets
from sandbox.objects.store import Store
from sandbox.scenario import Scenario
from sandbox.tls import make_credentials

_UNLIMITED = 0.0  # requests per second: the components of the cluster don't wait


@dataclass(frozen=True, slots=True)
class Access:
    """The ways into an API server that is being served."""

    serving: Serving
    trusted: ssl.SSLContext  # its authority

    @property
    def url(self) -> str:
        return self.serving.url

    @property
    def kubeconfig(self) -> str:
        """A kubeconfig of the administrator, as YAML."""
        return self.serving.kubeconfig

    @property
    def connection(self) -> Connection:
        """The administrator's way in, for :class:`~common.kube.client.KubeClient`."""
        return self._connection(self.serving.token)

    def client(self, user_agent: str, *, user: str = "") -> KubeClient:
        """A client without limits; ``user`` is the administrator unless named."""
        token = self.serving.authenticator.issue(user) if user else self.serving.token
        return KubeClient(
            self._connection(token),
            user_agent=user_agent,
            qps=_UNLIMITED,
            burst=_UNLIMITED,
            rng=Random(0),  # noqa: S311 - spreads retries, guards no secret
        )

    def _connection(self, token: str) -> Connection:
        return Connection(
            self.serving.url,
            ssl_context=self.trusted,
            credentials=StaticCredentials(f"Bearer {token}"),
        )


@dataclass(frozen=True, slots=True)
class Cluster(Access):
    """A running cluster, and the handles that tests and programs have on it."""

    api: ApiServer
    kubelets: Kubelets
    metrics: MetricsServer

    def audit(self, **wanted: str) -> tuple[Entry, ...]:
        """The calls that the API server has answered, oldest first, at most 10,000.

        Keys are those of :meth:`sandbox.apiserver.audit.AuditLog.find`: ``verb``, ``resource``, ….
        """
        return tuple(self.api.audit.find(wanted))

    @property
    def clock(self) -> ShiftedClock:
        """The clock of everything here; who puts it forward or back moves all of them."""
        return self.api.clock

    async def stop_api_server(self) -> None:
        """Let the API server die: connections break, new ones are refused, the data stays."""
        await self.serving.listener.pause()

    async def start_api_server(self) -> None:
        """Start it again, on the same port; who watched before may have to list again."""
        self.api.store.restart()
        await self.serving.listener.resume()

    async def restart_api_server(self) -> None:
        """As after a crash: same port, same data."""
        await self.stop_api_server()
        await self.start_api_server()

    async def forget_history(self) -> None:
        """A compaction and a restart: watches and pages from before get 410."""
        await self.stop_api_server()
        self.api.store.compact()
        await self.start_api_server()


@contextlib.asynccontextmanager
async def running_cluster(
    scenario: Scenario | None = None,
    *,
    clock: Clock | None = None,
    port: int = 0,
    rng: Random | None = None,
    metrics: bool = True,
) -> AsyncIterator[Cluster]:
    """Run a cluster while the context is entered; on entry it is ready.

    Ready means: the nodes are registered, the namespaces exist, and the metrics API is
    served (it has no metrics before its first window is over). Controllers and scheduler
    may still be listing; they miss nothing by that. ``port`` 0 takes a free one. Without
    ``metrics`` there is no metrics API, and nothing is sampled.

    Raises:
        ConfigError: the port can't be had.
    """
    scenario = scenario or Scenario()
    clock = ShiftedClock.of(clock or SystemClock())
    api = ApiServer(
        Store(),
        scenario.version,
        clock,
        rng=rng,
        serves_resize=scenario.serves_resize,
    )
    api.faults.replace(scenario.api_faults)
    # Certificates are checked against the machine's clock, whatever ours says.
    credentials = make_credentials(SystemClock().now())
    async with contextlib.AsyncExitStack() as stack:
        serving = await stack.enter_async_context(serve(api, port=port, credentials=credentials))
        access = Access(serving, client_context(ca_data=serving.authority))
        plane = await stack.enter_async_context(control_plane(access.client, clock))
        kubelets = Kubelets(
            await stack.enter_async_context(access.client("kubelet", user="system:node:sandbox")),
            clock,
            shapes=scenario.nodes,
            simulation=simulation_of(scenario, scenario.version),
        )
        metrics_server = MetricsServer(kubelets, clock, window=scenario.metrics_window)
        cluster = Cluster(access.serving, access.trusted, api, kubelets, metrics_server)
        components: list[Component] = [plane.run, kubelets.run]
        if metrics:
            api.mount(GROUP, VERSION, metrics_server)
            components.append(metrics_server.run)
        await stack.enter_async_context(running_components(components))
        async with access.client("sandbox") as client:
            await create_namespaces(client, scenario.namespaces)
        await kubelets.wait_ready()
        yield cluster

"""A cluster in one process: API server, controllers, scheduler, kubelets, metrics.

Every component but the API server is a client of it, with its own token and user agent. All
components read one clock and wait on one event loop, so the cluster also runs on a virtual-time
loop.
"""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from random import Random

from common.runtime.clock import Clock, SystemClock
from sandbox.apiserver.audit import Entry
from sandbox.apiserver.server import ApiServer, ServedApi, serve
from sandbox.clocks import ShiftedClock
from sandbox.components import (
    Component,
    create_namespaces,
    running_components,
    simulation_of,
)
from sandbox.controllers.service import control_plane
from sandbox.kubelet.metrics_server import GROUP, VERSION, MetricsServer
from sandbox.kubelet.service import Kubelets
from sandbox.objects.store import Store
from sandbox.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Cluster(ServedApi):
    """A running cluster with handles for tests and programs."""

    kubelets: Kubelets
    metrics: MetricsServer

    def audit(self, **wanted: str) -> tuple[Entry, ...]:
        """Return the calls that the API server has answered, oldest first, at most 10,000.

        Keys are those of :meth:`sandbox.apiserver.audit.AuditLog.find`: ``verb``, ``resource``, ….
        """
        return tuple(self.api.audit.find(wanted))

    @property
    def clock(self) -> ShiftedClock:
        """The clock of all components. A jump of it moves all of them."""
        return self.api.clock

    async def stop_api_server(self) -> None:
        """Stop the API server. Connections break and new ones are refused. The data stays."""
        await self.listener.pause()

    async def start_api_server(self) -> None:
        """Start the API server on the same port. Older watches may have to list again."""
        self.api.store.restart()
        await self.listener.resume()

    async def restart_api_server(self) -> None:
        """Stop and start the API server, as after a crash."""
        await self.stop_api_server()
        await self.start_api_server()

    async def forget_history(self) -> None:
        """Compact the store and restart the API server. Older watches and pages get 410."""
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

    A cluster is ready when the nodes are registered, the namespaces exist, and the metrics API is
    served, although it has no metrics before the end of its first window. Controllers and the
    scheduler may still list. ``port`` 0 selects a free one. Without ``metrics`` there is no metrics
    API, and nothing is sampled.

    Raises:
        ConfigError: the port isn't available.
    """
    scenario = scenario or Scenario()
    clock = ShiftedClock.of(clock or SystemClock())
    api = ApiServer(Store(), scenario.version, clock, rng=rng)
    async with contextlib.AsyncExitStack() as stack:
        served = await stack.enter_async_context(serve(api, port=port))
        control = await stack.enter_async_context(control_plane(served.client, clock))
        kubelets = Kubelets(
            await stack.enter_async_context(served.client("kubelet", user="system:node:sandbox")),
            clock,
            shapes=scenario.nodes,
            simulation=simulation_of(scenario, scenario.version),
        )
        metrics_server = MetricsServer(kubelets, clock, window=scenario.metrics_window)
        cluster = Cluster(
            api,
            served.listener,
            served.authority,
            served.token,
            served.trusted,
            kubelets,
            metrics_server,
        )
        components: list[Component] = [*control, kubelets.run]
        if metrics:
            api.mount(GROUP, VERSION, metrics_server)
            components.append(metrics_server.run)
        await stack.enter_async_context(running_components(components))
        async with served.client("sandbox") as client:
            await create_namespaces(client, scenario.namespaces)
        await kubelets.wait_ready()
        yield cluster

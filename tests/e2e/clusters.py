"""The two clusters that the suite runs on: a real control plane, and the sandbox.

Both run our simulated kubelets, and both are asked for the same things, so a case is written once.
"""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from common.kube.client import KubeClient
from controlplane.cluster import running_control_plane
from sandbox.apiserver.audit import Entry
from sandbox.cluster import running_cluster
from sandbox.kubelet.service import Kubelets
from sandbox.scenario import Scenario, parse_scenario
from sandbox.version import KubernetesVersion

T = TypeVar("T")

CONTROL_PLANE = "controlplane"
SANDBOX = "sandbox"
WEBHOOK_PORT = 443  # an ExternalName Service is dialled on its own port, not on a target port
WEBHOOK_HOST = "vpa-webhook.kube-system.svc"  # what the API server calls the webhook
METRICS_PORT = 4443  # as the overlay's APIService says

# A container whose image is named here runs as a process of this machine; all others are
# simulated, and use what their pod's annotations say.
SCENARIO = """
nodes: [{count: 3, cpu: 16, memory: 64Gi}]
timing: {start-delay: 100ms, stop-delay: 100ms, resize-delay: 100ms}
metrics: {window: 1s}
images:
  vpa-recommender: ["{python}", -P, -m, recommender, "--kubeconfig={kubeconfig}"]
  vpa-updater: ["{python}", -P, -m, updater, "--kubeconfig={kubeconfig}"]
  vpa-admission-controller:
    - "{python}"
    - -P
    - -m
    - admission
    - "--kubeconfig={kubeconfig}"
    - "--client-ca-file={root}/etc/tls-certs/caCert.pem"
    - "--tls-cert-file={root}/etc/tls-certs/serverCert.pem"
    - "--tls-private-key={root}/etc/tls-certs/serverKey.pem"
  vpa-certs: ["{python}", -P, -m, certs, "--kubeconfig={kubeconfig}"]
  metrics-server: ["{python}", -P, -m, sandbox.metrics_server, "--kubeconfig={kubeconfig}"]
"""


class Cluster(Protocol):
    """What a case may ask of either cluster."""

    @property
    def url(self) -> str: ...

    @property
    def kubeconfig(self) -> str:
        """Of the administrator, as YAML."""

    @property
    def kubelets(self) -> Kubelets:
        """The simulated ones, to which a case may give other nodes."""

    def client(self, user_agent: str) -> KubeClient:
        """The administrator's, without limits."""

    def audit(self, **wanted: str) -> tuple[Entry, ...]:
        """The answered calls, oldest first, as far as the cluster keeps them."""

    async def restart_api_server(self) -> None:
        """Let it die without a word and start it again, on the same port with the same data."""

    async def stop_api_server(self) -> None: ...

    async def start_api_server(self) -> None:
        """Returns when it is ready."""

    async def forget_history(self) -> None:
        """Afterwards an old watch can't go on: it gets 410."""


@asynccontextmanager
async def running(kind: str, folder: Path, version: str = "") -> AsyncIterator[Cluster]:
    """Run the cluster that is named; without a metrics API of its own.

    The sandbox is of the newest version that it knows unless one is named; a real control plane
    is what its programs are.
    """
    scenario = parse_scenario(SCENARIO)
    if version:
        scenario = replace(scenario, version=KubernetesVersion.parse(version))
    async with _opened(kind, scenario, folder) as cluster:
        yield cluster


def _opened(kind: str, scenario: Scenario, folder: Path) -> AbstractAsyncContextManager[Cluster]:
    if kind == CONTROL_PLANE:
        return running_control_plane(
            scenario, folder=folder, metrics=False, webhooks=(WEBHOOK_HOST,)
        )
    return running_cluster(scenario, metrics=False)


def why_no_port(port: int) -> str:
    """Why a process of this user can't listen on a port; empty if it can."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno == errno.EACCES:
                return (
                    f"the webhook must listen on port {port}: run as root, or allow it with "
                    f"sysctl -w net.ipv4.ip_unprivileged_port_start={port}"
                )
            return f"port {port} is needed, and can't be had: {error.strerror}"
    return ""


class Kept(Generic[T]):
    """A context that one task enters and leaves, whoever asks for it.

    pytest sets a fixture up in one task and tears it down in another, and a task group must be
    left by the task that entered it.
    """

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._make = make
        self._entered: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._leave = asyncio.Event()
        self._task = asyncio.create_task(self._keep())
        self._task.add_done_callback(lambda _: self._entered.cancel())

    async def entered(self) -> T:
        """What the context gives.

        Raises whatever entering it raised.
        """
        try:
            return await self._entered
        except asyncio.CancelledError:
            if self._task.done():
                await self._task
            raise

    async def leave(self) -> None:
        """Leave it, and wait for the end; raises whatever happened meanwhile."""
        self._leave.set()
        await self._task

    async def _keep(self) -> None:
        async with self._make() as made:
            self._entered.set_result(made)
            await self._leave.wait()

"""The cluster that the suite runs on: a real control plane with simulated kubelets."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Generic, TypeVar

from controlplane.cluster import ControlPlane, running_control_plane
from sandbox.scenario import parse_scenario

T = TypeVar("T")

WEBHOOK_PORT = 443  # an ExternalName Service is dialled on its own port, not on a target port
WEBHOOK_HOST = "vpa-webhook.kube-system.svc"  # what the API server calls the webhook

SCENARIO = """
nodes: [{count: 3, cpu: 16, memory: 64Gi}]
timing: {start-delay: 100ms, stop-delay: 100ms, resize-delay: 100ms}
metrics: {window: 1s}
"""
# A container whose image is named here runs as a process of this machine; all others are
# simulated, and use what their pod's annotations say.
IMAGES = {
    "vpa-recommender": ("{python}", "-P", "-m", "recommender", "--kubeconfig={kubeconfig}"),
    "vpa-updater": ("{python}", "-P", "-m", "updater", "--kubeconfig={kubeconfig}"),
    "vpa-admission-controller": (
        *("{python}", "-P", "-m", "admission", "--kubeconfig={kubeconfig}"),
        "--client-ca-file={root}/etc/tls-certs/caCert.pem",
        "--tls-cert-file={root}/etc/tls-certs/serverCert.pem",
        "--tls-private-key={root}/etc/tls-certs/serverKey.pem",
    ),
    "vpa-certs": ("{python}", "-P", "-m", "certs", "--kubeconfig={kubeconfig}"),
}


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[ControlPlane]:
    """Run the cluster, with a metrics API."""
    async with running_control_plane(
        parse_scenario(SCENARIO), folder=folder, images=IMAGES, webhooks=(WEBHOOK_HOST,)
    ) as cluster:
        yield cluster


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

"""The control plane of the end-to-end cases: real servers and simulated kubelets."""

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

WEBHOOK_PORT = 443  # API servers ignore the target port of an ExternalName Service
WEBHOOK_HOST = "vpa-webhook.kube-system.svc"  # what the API server calls the webhook

SCENARIO = """
nodes: [{count: 3, cpu: 16, memory: 64Gi}]
timing: {start-delay: 100ms, stop-delay: 100ms, resize-delay: 100ms}
metrics: {window: 1s}
usage:
  - {match: {namespace: quick-start}, cpu: 600m, memory: 60Mi}  # as on docs/quick-start.md
"""
REGISTRY = "registry.example.com/vpa"  # as in deploy/components/kustomization.yaml
# A container with one of these images runs as a process. All others are simulated, with the
# usage in their pod's annotations.
IMAGES = {
    f"{REGISTRY}/vpa-recommender": (
        "{python}",
        "-P",
        "-m",
        "recommender",
        "--kubeconfig={kubeconfig}",
    ),
    f"{REGISTRY}/vpa-updater": ("{python}", "-P", "-m", "updater", "--kubeconfig={kubeconfig}"),
    f"{REGISTRY}/vpa-admission-controller": (
        *("{python}", "-P", "-m", "admission", "--kubeconfig={kubeconfig}"),
        "--client-ca-file={root}/etc/tls-certs/caCert.pem",
        "--tls-cert-file={root}/etc/tls-certs/serverCert.pem",
        "--tls-private-key={root}/etc/tls-certs/serverKey.pem",
    ),
}


@asynccontextmanager
async def run_control_plane(folder: Path) -> AsyncIterator[ControlPlane]:
    """Run the control plane with kubelets and a metrics API."""
    async with running_control_plane(
        parse_scenario(SCENARIO), folder=folder, images=IMAGES, webhooks=(WEBHOOK_HOST,)
    ) as control_plane:
        yield control_plane


def port_error(port: int) -> str:
    """Return the reason why a process of this user can't listen on a port; empty if it can."""
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


class SingleTaskContext(Generic[T]):
    """A context manager that is entered and exited in one task of its own.

    pytest sets a fixture up in one task and tears it down in another, but the task that enters
    a task group must also exit it.
    """

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._make = make
        self._entered: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._exiting = asyncio.Event()
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(lambda _: self._entered.cancel())

    async def enter(self) -> T:
        """Return the value of the context manager, or raise its exception."""
        try:
            return await self._entered
        except asyncio.CancelledError:
            if self._task.done():
                await self._task
            raise

    async def exit(self) -> None:
        """Exit the context manager; raise the exception that ended its task."""
        self._exiting.set()
        await self._task

    async def _run(self) -> None:
        async with self._make() as value:
            self._entered.set_result(value)
            await self._exiting.wait()

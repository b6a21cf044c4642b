"""Startup, readiness and liveness probes of a process.

Source: ``worker.doProbe``, k8s.io/kubernetes pkg/kubelet/prober/worker.go.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp

from controlplane.containers.observations import ProbeKind
from sandbox.kubelet.wire import ContainerSpec, HttpGet, Probe

Report = Callable[[ProbeKind, bool, str], None]
"""Called when a threshold is crossed, with the kind, True for a success, and a message."""


@dataclass(slots=True)
class Verdict:
    """The result of one probe; None until a threshold is reached."""

    probe: Probe
    holds: bool | None = None
    _streak: int = 0
    _last: bool | None = None

    def add(self, *, success: bool) -> bool:
        """Count a result. Return True if it changes the verdict."""
        self._streak = self._streak + 1 if success == self._last else 1
        self._last = success
        needed = self.probe.success_threshold if success else self.probe.failure_threshold
        if self._streak < max(1, needed) or self.holds == success:
            return False
        self.holds = success
        return True


async def run_probes(container: ContainerSpec, address: str, report: Report) -> None:
    """Probe a process at ``address`` until cancelled. The startup probe comes first."""
    async with asyncio.TaskGroup() as group:
        if container.startup_probe is not None:
            startup = _repeat(
                ProbeKind.STARTUP, container.startup_probe, container, address, report
            )
            if not await startup:
                return
        for kind, probe in (
            (ProbeKind.READINESS, container.readiness_probe),
            (ProbeKind.LIVENESS, container.liveness_probe),
        ):
            if probe is not None:
                group.create_task(_repeat(kind, probe, container, address, report))


async def _repeat(
    kind: ProbeKind, probe: Probe, container: ContainerSpec, address: str, report: Report
) -> bool:
    """Probe repeatedly. A startup probe ends with its verdict, a liveness probe with a failure."""
    await asyncio.sleep(probe.initial_delay_seconds)
    # A readiness probe starts from failure, a liveness probe from success.
    verdict = Verdict(probe, holds=kind is ProbeKind.LIVENESS or None)
    if kind is ProbeKind.READINESS:
        verdict.holds = False
    while True:
        problem = await probe_once(probe, container, address)
        if verdict.add(success=not problem):
            report(kind, not problem, problem)
            if kind is ProbeKind.STARTUP or (kind is ProbeKind.LIVENESS and problem):
                return not problem
        await asyncio.sleep(max(1, probe.period_seconds))


async def probe_once(probe: Probe, container: ContainerSpec, address: str) -> str:
    """Probe once. Return the error, or an empty text."""
    try:
        async with asyncio.timeout(max(1, probe.timeout_seconds)):
            if probe.http_get is not None:
                return await _get(probe.http_get, container, address)
            if probe.tcp_socket is not None:
                port = port_number(probe.tcp_socket.port, container)
                host = probe.tcp_socket.host or address
                _, writer = await asyncio.open_connection(host, port)
                writer.close()
                return ""
    except TimeoutError:
        return f"no answer within {max(1, probe.timeout_seconds)}s"
    except (OSError, ValueError, aiohttp.ClientError) as error:
        return str(error)
    return "only httpGet and tcpSocket probes are run by simulated kubelets"


async def _get(asked: HttpGet, container: ContainerSpec, address: str) -> str:
    """Send an HTTP request. 200 to 399 is a success; certificates are not verified."""
    port = port_number(asked.port, container)
    path = asked.path if asked.path.startswith("/") else f"/{asked.path}"
    url = f"{asked.scheme.lower()}://{asked.host or address}:{port}{path}"
    headers = {"User-Agent": "kube-probe/sandbox", "Connection": "close"}
    async with (
        aiohttp.ClientSession(trust_env=False, headers=headers) as session,
        session.get(url, ssl=False, allow_redirects=False) as answer,
    ):
        if 200 <= answer.status < 400:
            return ""
        return f"HTTP probe failed with statuscode: {answer.status}"


def port_number(port: int | str, container: ContainerSpec) -> int:
    """Return a port by number, or by its name among the container's ports.

    Raises:
        ValueError: there is no such name.
    """
    if isinstance(port, int):
        return port
    for one in container.ports or ():
        if one.name == port:
            return one.container_port
    if port.isdecimal():
        return int(port)
    raise ValueError(f"no port is called {port!r}")

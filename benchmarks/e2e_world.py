"""The environment of ``e2e.py``: a real control plane, a thousand workloads, the components."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.load_world import TooSlowError
from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import Pod
from common.errors import KubeError
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import DEPLOYMENTS, MUTATING_WEBHOOKS, POD_METRICS, PODS, VPAS
from common.resources import CPU
from controlplane.cluster import ControlPlane, running_control_plane
from controlplane.processes import ProcessUsage, usage_of
from demo.processes import Processes, Running, free_port
from recommender.concurrency import run_concurrently
from sandbox.apiserver.audit import Entry
from sandbox.kubeconfigs import kubeconfig_text
from sandbox.scenario import Scenario, parse_scenario

NAMESPACE = "shop"
ROOT = Path(__file__).parents[1]
MANIFESTS = ("deploy/crd", "deploy/rbac")
ACCOUNTS = {
    "recommender": "vpa-recommender",
    "updater": "vpa-updater",
    "admission": "vpa-admission-controller",
}
STOPPED_WITHIN = 10.0  # seconds; components should stop within five
_CONNECTIONS = 16
_PODS_OF_NODE = 80
_POLL_SECONDS = 0.5  # polling takes CPU time from the kubelets in this process
_TOKEN_SECONDS = 24 * 3600

# The pods' requests and usage; requests are far below the lower bound of any recommendation.
REQUESTS = {"cpu": "50m", "memory": "64Mi"}
_SCENARIO = """
nodes: [{{count: {nodes}, cpu: 128, memory: 512Gi}}]
namespaces: [{namespace}]
timing: {{start-delay: 100ms, stop-delay: 100ms, resize-delay: 100ms}}
metrics: {{window: 1s}}
usage: [{{match: {{}}, cpu: 200m, memory: 300Mi}}]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size of the cluster: Deployments of equal size, and a VPA for each."""

    vpas: int
    replicas: int
    patience: float  # seconds; timeout of any single wait

    @property
    def pods(self) -> int:
        return self.vpas * self.replicas

    def scenario(self) -> Scenario:
        """Return nodes with room for all pods, and for the replacements of a round of evictions."""
        nodes = self.pods // _PODS_OF_NODE + 2
        return parse_scenario(_SCENARIO.format(nodes=nodes, namespace=NAMESPACE))


@dataclass(slots=True)
class World:
    """A cluster, and the components that were started for it."""

    plane: ControlPlane
    client: KubeClient
    size: Size
    folder: Path
    processes: Processes
    limits: tuple[str, ...]  # flags of every component that limit its requests per second
    last: dict[str, ProcessUsage] = field(default_factory=dict)  # of stopped components

    async def start(self, name: str, *flags: str) -> Running:
        """Start a component with only the rights of its service account."""
        account = ACCOUNTS[name]
        answer = await self.client.request(
            "POST",
            f"/api/v1/namespaces/kube-system/serviceaccounts/{account}/token",
            body={
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": _TOKEN_SECONDS},
            },
        )
        token = msgspec.json.decode(answer)["status"]["token"]
        kubeconfig = self.folder / f"{name}.kubeconfig"
        text = kubeconfig_text(self.plane.url, self.plane.authority, {"token": token})
        kubeconfig.write_text(text, encoding="utf-8")
        address = f"--address=127.0.0.1:{free_port()}"
        command = [name, f"--kubeconfig={kubeconfig}", address, *self.limits, *flags]
        return await self.processes.start(name, command)

    async def stop(self, running: Running) -> None:
        """Stop a component and keep its usage."""
        self.last[running.name] = usage_of(running.process.pid)
        self.processes.running.remove(running)
        running.process.terminate()
        try:
            async with asyncio.timeout(STOPPED_WITHIN):
                await running.process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                running.process.kill()
            await running.process.wait()

    async def start_admission(self) -> Running:
        """Create certificates, start the webhook, and wait until it is registered."""
        folder = self.folder / "certs"
        await self.run(
            *(sys.executable, "-P", "-m", "certs"), f"--output-dir={folder}", "--host=127.0.0.1"
        )
        port = free_port()
        running = await self.start(
            "admission",
            f"--port={port}",
            "--register-by-url",
            "--webhook-address=https://127.0.0.1",
            f"--webhook-port={port}",
            f"--client-ca-file={folder / 'caCert.pem'}",
            f"--tls-cert-file={folder / 'serverCert.pem'}",
            f"--tls-private-key={folder / 'serverKey.pem'}",
        )
        await self.until("the webhook is registered", self._registered)
        return running

    async def _registered(self) -> bool:
        try:
            await self.client.get(MUTATING_WEBHOOKS, "vpa-webhook-config")
        except KubeError:
            return False
        return True

    async def run(self, *command: str) -> None:
        """Run a program that ends by itself.

        Raises:
            TooSlowError: it failed, or did not end; the text contains its output.
        """
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(self.size.patience):
                output, _ = await process.communicate()
        except TimeoutError as error:
            process.kill()
            await process.wait()
            raise TooSlowError(f"{command[0]} did not end") from error
        if process.returncode:
            raise TooSlowError(f"{command[0]} failed: {output.decode(errors='replace')}")

    async def until(self, what: str, condition: Callable[[], Awaitable[bool]]) -> None:
        """Poll until ``condition`` is true.

        Raises:
            TooSlowError: it did not become true in time.
            ProcessDiedError: a component ended.
        """
        try:
            async with asyncio.timeout(self.size.patience):
                while not await condition():
                    self.processes.check()
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError as error:
            raise TooSlowError(f"not so after {self.size.patience:.0f} s: {what}") from error

    # Objects of the cluster

    async def install(self) -> None:
        """Apply definitions and access rules with kubectl, as an operator would."""
        kubeconfig = self.folder / "admin.kubeconfig"
        kubeconfig.write_text(self.plane.kubeconfig, encoding="utf-8")
        for manifests in MANIFESTS:
            words = ("apply", "--wait", f"--kustomize={ROOT / manifests}")
            await self.run("kubectl", f"--kubeconfig={kubeconfig}", *words)
        crd = "crd/verticalpodautoscalers.autoscaling.k8s.io"
        await self.run(
            *("kubectl", f"--kubeconfig={kubeconfig}"), "wait", "--for=condition=Established", crd
        )

    async def fill(self) -> None:
        """Create workloads and VPAs; return when all pods run and their usage is available."""

        async def one(name: str) -> None:
            await self.client.create(
                DEPLOYMENTS.as_dicts(), deployment(name, self.size.replicas), namespace=NAMESPACE
            )
            await self.client.create(VPAS.as_dicts(), autoscaler(name), namespace=NAMESPACE)

        await run_concurrently(self.names(), one, workers=_CONNECTIONS)
        await self.until("all pods run", self.all_run)
        await self.until("the usage of all pods is known", self._usage_known)

    def names(self) -> Iterable[str]:
        """Return the names of the Deployments, which are also those of their VPAs."""
        return (f"web-{index:05}" for index in range(self.size.vpas))

    async def pods(self) -> tuple[Pod, ...]:
        """Return the pods that are not being deleted."""
        listing = await self.client.list(PODS, namespace=NAMESPACE)
        return tuple(pod for pod in listing.items if pod.metadata.deletion_timestamp is None)

    async def vpas(self) -> tuple[VerticalPodAutoscaler, ...]:
        return (await self.client.list(VPAS, namespace=NAMESPACE)).items

    async def all_run(self) -> bool:
        pods = await self.pods()
        return len(pods) == self.size.pods and all(pod.status.phase == "Running" for pod in pods)

    async def _usage_known(self) -> bool:
        try:
            listing = await self.client.list(POD_METRICS, namespace=NAMESPACE)
        except KubeError:
            return False
        return len(listing.items) == self.size.pods

    async def change_all(self, spec: dict[str, Any]) -> None:
        """Patch the spec of every VPA."""

        async def one(name: str) -> None:
            await self.client.patch(
                VPAS, name, {"spec": spec}, patch_type=PatchType.MERGE, namespace=NAMESPACE
            )

        await run_concurrently(self.names(), one, workers=_CONNECTIONS)

    def answered(self, component: str, resource: str, verb: str, sub: str = "") -> Sequence[Entry]:
        """Return a component's successful calls from the API server's audit log."""
        user = f"system:serviceaccount:kube-system:{ACCOUNTS[component]}"
        calls = self.plane.audit(user=user, resource=resource, verb=verb, subresource=sub)
        return [call for call in calls if call.code < 300]

    def calls(self, component: str, first: datetime, last: datetime) -> int:
        """Return the number of a component's calls between two times, without watches."""
        user = f"system:serviceaccount:kube-system:{ACCOUNTS[component]}"
        calls = self.plane.audit(user=user)
        return sum(call.verb != "watch" and first <= call.time <= last for call in calls)

    def used(self) -> dict[str, ProcessUsage]:
        """Return the usage of every process; this one includes kubelets and metrics."""
        components = {one.name: usage_of(one.process.pid) for one in self.processes.running}
        return {**self.plane.usage(), **self.last, **components}


@contextlib.asynccontextmanager
async def running_world(
    size: Size, folder: Path, limits: tuple[str, ...]
) -> AsyncIterator[tuple[World, float]]:
    """Run the control plane; yield it with the seconds of its start."""
    loop = asyncio.get_running_loop()
    (folder / "logs").mkdir(parents=True)
    began = loop.time()
    async with running_control_plane(size.scenario(), folder=folder / "plane") as plane:
        boot = loop.time() - began
        processes = Processes(folder / "logs")
        async with plane.client("bench") as client:
            try:
                yield World(plane, client, size, folder, processes, limits), boot
            finally:
                await processes.stop()


def deployment(name: str, replicas: int) -> dict[str, Any]:
    """Return a Deployment whose pods request too little."""
    labels = {"app": name}
    container = {
        "name": "app",
        "image": "registry.example/shop/web:1.27.3",
        "resources": {"requests": REQUESTS},
    }
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def autoscaler(name: str) -> dict[str, Any]:
    """Return a VPA with mode Recreate for the Deployment of the same name."""
    return {
        "metadata": {"name": name},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "updatePolicy": {"updateMode": "Recreate"},
        },
    }


def requested_cpu(pod: Pod) -> object:
    """Return the CPU request of the pod's spec."""
    resources = pod.spec.containers[0].resources
    return ((resources and resources.requests) or {}).get(CPU)

"""The components as processes of the operating system, and a sandbox cluster in this process.

They reach the API server through a gate that a test can close or freeze. Kubelets, controllers and
the test itself connect directly.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import admission.access
import recommender.access
import updater.access
from certificates import new_bundle
from certs.certificate_stores import Directory
from common.api.autoscaling import VerticalPodAutoscaler
from common.api.base import QuantityJson
from common.api.core import Pod
from common.kube.cache import Cache
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import DEPLOYMENTS, MUTATING_WEBHOOKS, PODS, VPAS, Endpoint, Permission
from component import LOOPBACK, Process, start_process, webhook_flags
from demo.processes import free_port
from fake_api import TIMEOUT
from relay import Relay, Streams
from sandbox.apiserver.audit import Entry
from sandbox.apiserver.auth import ADMIN
from sandbox.cluster import Cluster, running_cluster
from sandbox.scenario import Scenario, parse_scenario
from workloads import NAMESPACE, Change, prepare

AGENTS = {
    "recommender": "vpa-recommender",
    "updater": "vpa-updater",
    "admission": "vpa-admission-controller",
}

ACCESS = {
    "recommender": recommender.access.ACCESS,
    "updater": updater.access.ACCESS,
    "admission": admission.access.ACCESS,
}

# Shortens hours to seconds, only with documented flags.
FLAGS: Mapping[str, Sequence[str]] = {
    "recommender": (
        "--recommender-interval=500ms",
        "--confidence-interval-cpu=1m",
        "--confidence-interval-memory=1m",
    ),
    "updater": (
        "--updater-interval=500ms",
        "--in-recommendation-bounds-eviction-lifetime-threshold=1s",
        "--admission-controller-status-lease-timeout=5s",
    ),
    "admission": ("--status-lease-update-interval=500ms",),
}

SCENARIO = parse_scenario("""
nodes: [{cpu: 32, memory: 64Gi}]
timing: {start-delay: 100ms, stop-delay: 100ms, resize-delay: 100ms}
metrics: {window: 1s}
usage:
  - match: {labels: {app: small}}
    cpu: 30m
    memory: 60Mi
  - match: {labels: {app: large}}
    cpu: 600m
    memory: 400Mi
  - match: {}
    cpu: 30m
    memory: 60Mi
""")


class Gate(Relay):
    """A relay to the API server that passes TLS through."""

    def __init__(self, target: int) -> None:
        super().__init__(self._to_api_server, self._as_it_flows)
        self._target = target
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._answers_pass = False  # while requests are held
        self.held = 0  # connections with requests that are not passed on

    async def open(self) -> None:
        self._flowing.set()
        await super().open()

    async def shut(self) -> None:
        self._flowing.set()
        await super().shut()

    def freeze(self) -> None:
        """Accept connections and requests, but answer nothing, like a host that hangs."""
        self._stop_flow(answers_pass=False)

    def hold_requests(self) -> None:
        """Hold new requests, and pass answers. Held requests arrive late."""
        self._stop_flow(answers_pass=True)

    def let_go(self) -> None:
        """Pass held requests on, also those of a process that has ended."""
        self._flowing.set()

    def _stop_flow(self, *, answers_pass: bool) -> None:
        self.held = 0
        self._answers_pass = answers_pass
        self._flowing.clear()

    async def _to_api_server(self, _address: str) -> Streams:
        return await asyncio.open_connection(LOOPBACK, self._target)

    async def _as_it_flows(self, asks: bool) -> None:  # noqa: FBT001 - as a relay calls it
        if not self._flowing.is_set() and (asks or not self._answers_pass):
            self.held += asks
            await self._flowing.wait()


@dataclass
class World:
    """A cluster, the test's client of it, and the started processes."""

    cluster: Cluster
    client: KubeClient
    gates: dict[str, Gate]  # by component, or by the name of its second replica
    folder: Path
    authority: bytes  # PEM, of the webhook
    group: asyncio.TaskGroup
    pods: Cache[Pod]
    vpas: Cache[VerticalPodAutoscaler]
    running: list[Process] = field(default_factory=list)

    def command(
        self, name: str, *flags: str, gate: str = "", user: str = ""
    ) -> tuple[list[str], int]:
        """Return the command line of a component with its own token, and its ops port."""
        token = self.cluster.api.authenticator.issue(user or account(name))
        gate = gate or name
        kubeconfig = self.folder / f"{gate}.kubeconfig"
        straight, port = f"https://{LOOPBACK}:{self.cluster.listener.port}", self.gates[gate].port
        text = self.cluster.kubeconfig_for(token)
        kubeconfig.write_text(text.replace(straight, f"https://{LOOPBACK}:{port}"))
        ops = free_port()
        arguments = [name, f"--kubeconfig={kubeconfig}", f"--address={LOOPBACK}:{ops}"]
        if name == "admission":
            arguments += webhook_flags(self.folder, free_port())
        return [*arguments, *FLAGS[name], *flags], ops

    async def start(self, name: str, *flags: str) -> Process:
        """Start a component."""
        return await self._start(name, self.command(name, *flags))

    async def start_standby(self, name: str, *flags: str) -> Process:
        """Start a second replica with its own gate, and its own user in the audit log."""
        gate = self.gates[f"{name}-standby"] = Gate(self.cluster.listener.port)
        await gate.open()
        command = self.command(name, *flags, gate=f"{name}-standby", user=ADMIN)
        return await self._start(name, command)

    async def _start(self, name: str, command: tuple[list[str], int]) -> Process:
        arguments, ops = command
        found = Process(name, await start_process(arguments), ops)
        self.running.append(found)
        self.group.create_task(found.read_log())
        return found

    async def start_all(self) -> tuple[Process, Process, Process]:
        """Start recommender, updater and admission; return when the webhook is registered."""
        admission = await self.start("admission")
        recommender, updater = await self.start("recommender"), await self.start("updater")
        await self.until(lambda: bool(self.calls(MUTATING_WEBHOOKS.resource, "create")))
        return recommender, updater, admission

    async def until(self, condition: Callable[[], bool], *, seconds: float = TIMEOUT) -> None:
        """Wait for a condition on caches, audit log or output of processes."""
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - processes set no events here
                await asyncio.sleep(0.02)

    async def passes(self, *processes: Process, times: int = 3) -> None:
        """Wait until each process has finished this many more cycles."""
        for process in processes:
            wanted = await process.cycles() + times
            async with asyncio.timeout(TIMEOUT):
                while await process.cycles() < wanted:  # noqa: ASYNC110 - it is not ours
                    await asyncio.sleep(0.1)

    async def ready(self, process: Process) -> None:
        """Wait until a process is ready."""
        status = 0
        async with asyncio.timeout(TIMEOUT):
            while status != 200:
                with contextlib.suppress(ConnectionRefusedError):
                    status, _ = await process.get("/readyz")
                await asyncio.sleep(0.05)

    # The connection to the API server

    async def shut(self) -> None:
        """Disconnect the components from the API server."""
        for gate in self.gates.values():
            await gate.shut()

    async def open(self) -> None:
        """Connect the components to the API server again."""
        for gate in self.gates.values():
            await gate.open()

    # The state of the cluster

    def pods_of(self, app: str) -> tuple[Pod, ...]:
        """Return the pods that are not being deleted."""
        return tuple(
            pod
            for pod in self.pods.in_namespace(NAMESPACE)
            if (pod.metadata.labels or {}).get("app") == app
            and pod.metadata.deletion_timestamp is None
        )

    def target(self, name: str) -> Mapping[str, QuantityJson]:
        """Return the target of a VPA's container; empty if there is none."""
        vpa = self.vpas.get(NAMESPACE, name)
        recommendation = vpa.status.recommendation if vpa is not None else None
        for container in (recommendation and recommendation.container_recommendations) or ():
            return container.target
        return {}

    def fits(self, app: str, replicas: int) -> bool:
        """Return whether every pod runs with the recommended resources, in spec and status."""
        target, pods = self.target(app), self.pods_of(app)
        return bool(target) and len(pods) == replicas and all(_runs_with(p, target) for p in pods)

    def calls(self, resource: str, verb: str, subresource: str = "") -> list[Entry]:
        """Return the successful calls of the components, oldest first."""
        found = self.cluster.audit(resource=resource, verb=verb, subresource=subresource)
        return [call for call in found if call.code < 300 and _program(call) in AGENTS.values()]

    def evicted(self, app: str = "") -> list[str]:
        """Return the names of the evicted pods, once for each successful eviction."""
        calls = self.calls("pods", "create", "eviction")
        return [call.name for call in calls if call.name.startswith(app)]

    def resized(self, app: str = "") -> list[str]:
        """Return the names of the resized pods, once for each accepted resize."""
        calls = self.calls("pods", "patch", "resize")
        return [call.name for call in calls if call.name.startswith(app)]

    def undeclared(self, component: str) -> set[Permission]:
        """Return the permissions of a component's successful calls that it doesn't declare."""
        declared = {each for one in ACCESS[component] for each in one.permissions()}
        found: set[Permission] = set()
        for call in self.cluster.audit(userAgent=AGENTS[component]):
            resource = f"{call.resource}/{call.subresource}" if call.subresource else call.resource
            any_group = ("*", f"*/{call.subresource}", call.verb, "")
            exact = (call.group, resource, call.verb)
            if not {any_group, (*exact, ""), (*exact, call.name)} & declared:
                found.add((*exact, call.name))
        return found

    # Actions of an operator

    async def edit(self, name: str, **spec: Any) -> None:
        """Change a VPA."""
        await self._merge(VPAS, name, spec)

    async def scale(self, name: str, replicas: int) -> None:
        """Scale a Deployment."""
        await self._merge(DEPLOYMENTS, name, {"replicas": replicas})

    async def _merge(self, endpoint: Endpoint[Any], name: str, spec: dict[str, Any]) -> None:
        patch = {"spec": spec}
        await self.client.patch(
            endpoint, name, patch, patch_type=PatchType.MERGE, namespace=NAMESPACE
        )


@asynccontextmanager
async def world(
    folder: Path,
    *,
    scenario: Scenario = SCENARIO,
    change: Change = lambda definition: definition,
) -> AsyncIterator[World]:
    """Run a cluster with the project's definitions, and end all processes with it.

    If the test fails, print the output of the processes.
    """
    bundle = new_bundle()
    await Directory(folder).save(bundle)
    async with running_cluster(scenario) as cluster, cluster.client("test") as client:
        await prepare(client, change=change)
        gates = {name: Gate(cluster.listener.port) for name in AGENTS}
        for gate in gates.values():
            await gate.open()
        async with asyncio.TaskGroup() as group:
            pods, vpas = Cache(client, PODS), Cache(client, VPAS)
            caches = [group.create_task(cache.run()) for cache in (pods, vpas)]
            made = World(
                cluster, client, gates, folder, bundle.authority.certificate, group, pods, vpas
            )
            try:
                yield made
            except BaseException:
                for process in made.running:
                    print(f"--- {process.name}\n{''.join(process.log)}")  # noqa: T201 - shown when a test fails
                raise
            finally:
                for process in made.running:
                    await process.kill()
                await made.shut()
                for cache in caches:
                    cache.cancel()


def account(name: str) -> str:
    """Return the user of a component."""
    return f"system:serviceaccount:kube-system:{AGENTS[name]}"


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once."""
    return [name for name, count in Counter(names).items() if count > 1]


def _program(call: Entry) -> str:
    return call.user_agent.partition("/")[0]


def _runs_with(pod: Pod, target: Mapping[str, QuantityJson]) -> bool:
    statuses = pod.status.container_statuses or ()
    if not statuses or not statuses[0].ready:
        return False
    spec, reported = pod.spec.containers[0].resources, statuses[0].resources
    wanted = (spec and spec.requests) or {}
    actual = (reported and reported.requests) or {}
    return all(wanted.get(name) == actual.get(name) == target[name] for name in target)

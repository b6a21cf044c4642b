"""Workloads for a recommender: a real API server in virtual time, and pods of the test.

There are no controllers and kubelets, so that a day with a rollout every ten minutes takes little
time. The test sets the usage of pods.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

from prometheus_client.core import Sample
from prometheus_client.parser import text_string_to_metric_families

from common.kube.client import KubeClient
from common.kube.endpoints import VPAS
from component import LOOPBACK
from demo.processes import free_port
from recommender.__main__ import recommend
from recommender.settings import RecommenderSettings
from sandbox.apiserver.audit import AuditLog
from sandbox.apiserver.server import ApiServer, ServedApi, serve
from sandbox.clocks import ShiftedClock
from sandbox.kubelet.metrics_server import GROUP, VERSION, MetricsServer
from sandbox.kubelet.usage import Usage
from sandbox.kubelet.usages import PodUsage
from sandbox.listener import Listener
from sandbox.objects.resources import DEPLOYMENTS, PODS, REPLICA_SETS, Resource
from sandbox.objects.store import Store, Stored
from sandbox.scenario import Scenario
from sandbox.times import rfc3339
from sandbox.virtual_time import VirtualClock
from workloads import NAMESPACE, autoscaler, prepare

HISTORY = 500  # changes for resumed watches; small, so that it is full within the first hour
ENTRIES = 500  # of the audit log; small for the same reason
WINDOW = timedelta(seconds=15)
ACCOUNT = "system:serviceaccount:kube-system:vpa-recommender"  # with the role of our manifests
KEPT = 3  # ReplicaSets per Deployment
MEBI = 2**20
CONTAINERS = ("app", "sidecar")

UsageOf = Callable[[str, str], Usage]
"""Returns the present usage of a container, by names of workload and container."""


def steady(_workload: str, container: str) -> Usage:
    """Return usage far from the edges of buckets and from the minimum recommendation."""
    cpu, memory = (200.0, 600) if container == "app" else (70.0, 350)
    return Usage(cpu_millicores=cpu, memory_bytes=memory * MEBI)


@dataclass(slots=True)
class Workload:
    """A Deployment, and the pods of its last rollout."""

    name: str
    replicas: int
    app: str  # a label
    rollout: int = 0
    pods: list[str] = field(default_factory=list)
    sets: list[str] = field(default_factory=list)  # ReplicaSets, oldest first

    @property
    def labels(self) -> dict[str, str]:
        return {"app": self.app, "pod-template-hash": f"{self.rollout:08x}"}


class Used:
    """The usage that the metrics server samples."""

    def __init__(self, town: "RecommenderSimulation") -> None:
        self._town = town

    def pod_usages(self, *, window: float) -> Iterable[PodUsage]:
        for one in self._town.workloads.values():
            containers = {name: self._town.usage(one.name, name) for name in CONTAINERS}
            for pod in one.pods:
                yield PodUsage(namespace=NAMESPACE, name=pod, labels={}, containers=containers)


@dataclass
class RecommenderSimulation:
    """The API server and its objects."""

    api: ApiServer
    access: ServedApi
    way: Listener  # for recommenders; plain HTTP, because TLS would take most of the time
    admin: KubeClient
    clock: ShiftedClock
    folder: Path
    usage: UsageOf = steady
    workloads: dict[str, Workload] = field(default_factory=dict)
    metrics: MetricsServer = field(init=False)
    replicas: list["Replica"] = field(default_factory=list)
    _uids: Iterator[int] = field(default_factory=lambda: iter(range(1, 10**9)))

    # Objects

    async def deploy(self, name: str, *, replicas: int = 2, **spec: Any) -> None:
        """Create a Deployment with running pods, and a VPA for it."""
        self.deploy_alone(name, replicas=replicas)
        await self.admin.create(VPAS.as_dicts(), autoscaler(name, **spec), namespace=NAMESPACE)

    def deploy_alone(self, name: str, *, replicas: int = 2, app: str = "") -> None:
        """Create a Deployment with running pods; ``app`` is their label, by default the name."""
        selector = {"matchLabels": {"app": app or name}}
        self._put(DEPLOYMENTS, name, spec={"selector": selector, "replicas": replicas})
        rollout = self.workloads[name].rollout if name in self.workloads else 0
        self.workloads[name] = Workload(name, replicas, app=app or name, rollout=rollout)
        self.roll_out(name)

    def undeploy(self, name: str) -> None:
        """Delete a Deployment and its pods at once."""
        self.api.store.delete(DEPLOYMENTS, NAMESPACE, name)
        self.stop_pods(name)

    def stop_pods(self, name: str) -> None:
        """Delete all pods of a workload at once, but not its Deployment."""
        one = self.workloads[name]
        for pod in one.pods:
            self.api.store.delete(PODS, NAMESPACE, pod)
        one.pods = []

    def roll_out(self, name: str) -> None:
        """Replace all pods of a workload at once by pods of another template."""
        one = self.workloads[name]
        gone = one.pods
        one.rollout += 1
        owner = f"{name}-{one.rollout:08x}"
        selector = {"matchLabels": one.labels}
        self._put(REPLICA_SETS, owner, spec={"selector": selector}, owner=("Deployment", name))
        one.sets.append(owner)
        one.pods = [f"{owner}-{number}" for number in range(one.replicas)]
        for pod in one.pods:
            self._put(PODS, pod, labels=one.labels, owner=("ReplicaSet", owner), **_pod())
        for pod in gone:
            self.api.store.delete(PODS, NAMESPACE, pod)
        while len(one.sets) > KEPT:
            self.api.store.delete(REPLICA_SETS, NAMESPACE, one.sets.pop(0))

    def put_custom(self, plural: str, name: str, **content: Any) -> None:
        """Store a custom object without validation."""
        self._put(self._custom(plural), name, **content)

    def delete_custom(self, plural: str, name: str) -> None:
        """Delete a custom object."""
        self.api.store.delete(self._custom(plural), NAMESPACE, name)

    def _custom(self, plural: str) -> Resource:
        found = self.api.registry.find(VPAS.group, VPAS.version, plural)
        assert found is not None
        return found

    # API server

    async def stop_api_server(self) -> None:
        """Make the API server unreachable for recommenders, but not for the test."""
        await self.way.pause()

    async def start_api_server(self, *, forgetful: bool = False) -> None:
        """Make it reachable again. A ``forgetful`` one makes clients list again."""
        if forgetful:
            self.api.store.compact()
        self.api.store.restart()
        await self.way.resume()

    def _put(
        self,
        resource: Resource,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        owner: tuple[str, str] | None = None,
        **content: Any,
    ) -> Stored:
        metadata: dict[str, Any] = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"{next(self._uids):08x}-0000-4000-8000-000000000000",
            "creationTimestamp": rfc3339(self.clock.now()),
            "labels": dict(labels or {}),
        }
        if owner is not None:
            kind, owned_by = owner
            reference = {"apiVersion": "apps/v1", "kind": kind, "name": owned_by, "uid": owned_by}
            metadata["ownerReferences"] = [{**reference, "controller": True}]
        return self.api.store.create(resource, {"metadata": metadata, **content})

    # Recommendations

    async def target(self, name: str, container: str = CONTAINERS[0]) -> Mapping[str, Any]:
        """Return the target of a container; empty if there is none."""
        found = await self.admin.get(VPAS, name, namespace=NAMESPACE)
        recommendation = found.status.recommendation
        for one in (recommendation and recommendation.container_recommendations) or ():
            if one.container_name == container:
                return one.target
        return {}

    async def targets(self) -> dict[tuple[str, str], Mapping[str, Any]]:
        """Return the targets by VPA and container."""
        return {
            (name, container): await self.target(name, container)
            for name in self.workloads
            for container in CONTAINERS
        }

    def replica(self, *, user: str = ACCOUNT, **settings: Any) -> "Replica":
        """Return a recommender that has not been started. All end with the simulation."""
        token = self.access.api.authenticator.issue(user)
        kubeconfig = self.folder / f"{len(self.replicas)}.kubeconfig"
        text = self.access.kubeconfig_for(token)
        kubeconfig.write_text(text.replace(self.access.url, self.way.url))
        made = Replica(kubeconfig, ShiftedClock(self.clock), settings)
        self.replicas.append(made)
        return made


@dataclass
class Replica:
    """A recommender: the whole program with its settings, as a task of the event loop."""

    kubeconfig: Path
    clock: ShiftedClock  # its own; an offset to the simulation's
    settings: Mapping[str, Any]
    ops: int = field(default_factory=free_port)
    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        settings = RecommenderSettings(
            kubeconfig=str(self.kubeconfig), address=f"{LOOPBACK}:{self.ops}", **self.settings
        )
        self._task = asyncio.create_task(recommend(settings, self.clock))

    async def kill(self) -> None:
        """End it at any point; raise the error if it had crashed."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @property
    def lives(self) -> bool:
        return self._task is not None and not self._task.done()

    async def ready(self) -> None:
        """Wait for the end of its first cycle."""
        while not await self.sample("execution_latency_seconds_count", step="total"):  # noqa: ASYNC110 - it is the program's
            await asyncio.sleep(1)

    async def sample(self, name: str, **labels: str) -> float:
        """Return the present value of a metric; see :func:`total`."""
        return total(await self.samples(), name, **labels)

    async def samples(self) -> list[Sample]:
        """Return the present values of all metrics; empty if it doesn't respond."""
        try:
            reader, writer = await asyncio.open_connection(LOOPBACK, self.ops)
        except ConnectionRefusedError:
            return []
        writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
        _, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        return [
            sample
            for family in text_string_to_metric_families(body.decode())
            for sample in family.samples
        ]


def total(samples: Iterable[Sample], name: str, **labels: str) -> float:
    """Return a metric ``vpa_recommender_<name>``, summed over labels that aren't given."""
    return sum(
        one.value
        for one in samples
        if one.name == f"vpa_recommender_{name}" and labels.items() <= one.labels.items()
    )


@asynccontextmanager
async def running_simulation(
    clock: VirtualClock,
    folder: Path,
    *,
    usage: UsageOf = steady,
    serving_usage: type[MetricsServer] = MetricsServer,
) -> AsyncIterator[RecommenderSimulation]:
    """Run an API server with the project's definitions, and a metrics server."""
    rng = Random(1)
    moving = ShiftedClock.of(clock)
    api = ApiServer(Store(history=HISTORY), Scenario().version, moving, rng=rng)
    api.audit = AuditLog(entries=ENTRIES)
    async with contextlib.AsyncExitStack() as stack:
        access = await stack.enter_async_context(serve(api))
        way = await stack.enter_async_context(Listener(api, tls=None))
        admin = await stack.enter_async_context(access.client("test"))
        town = RecommenderSimulation(api, access, way, admin, moving, folder, usage)
        metrics = serving_usage(Used(town), moving, window=WINDOW)
        town.metrics = metrics
        api.mount(GROUP, VERSION, metrics)
        await prepare(admin)
        sampling = asyncio.create_task(metrics.run())
        try:
            yield town
        finally:
            for replica in town.replicas:
                await replica.kill()
            sampling.cancel()


def _pod() -> dict[str, Any]:
    requests = {"cpu": "100m", "memory": "128Mi"}
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    return {
        "spec": {
            "nodeName": "node-1",
            "containers": [
                {"name": name, "image": "shop:1", "resources": {"requests": dict(requests)}}
                for name in CONTAINERS
            ],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {"name": name, "ready": True, "restartCount": 0, "state": state}
                for name in CONTAINERS
            ],
        },
    }

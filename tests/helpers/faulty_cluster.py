"""A sandbox cluster of about two hundred pods with faults, and an updater in it."""

import asyncio
import contextlib
import enum
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from prometheus_client import CollectorRegistry

import admission_hook
from admission_hook import AdmissionHook
from common.errors import ConflictError, KubeError
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import MUTATING_WEBHOOKS, PODS, VPAS, Endpoint
from common.kube.events import EventRecorder
from common.kube.lease import AdmissionStatus, LeaderElection
from common.kube.targets import Targets
from common.quantity import ZERO, Quantity
from common.runtime.settings import LeaderElectionSettings
from disruption_log import DisruptionLog
from sandbox.admission.quotas import pod_usage
from sandbox.cluster import Cluster, running_cluster
from sandbox.kubelet.pod_resources import Totals
from sandbox.objects.resources import PODS as STORED_PODS
from sandbox.scenario import parse_scenario
from sandbox.times import rfc3339
from sandbox.virtual_time import VirtualClock
from updater.action_history import ActionHistory
from updater.actuation import PodActuator
from updater.event_trigger import EventTrigger
from updater.execute import RateLimits
from updater.metrics import UpdaterMetrics
from updater.pass_context import Rules
from updater.run import Updater
from updater.snapshot.caches import Caches
from updater.snapshot.live_pod import MANAGER
from updater.usage_watch import UsageWatch
from webhook_simulation import QUOTAS, note_policy_writer
from workloads import NAMESPACE, prepare

INTERVAL = 15.0  # seconds between two passes; shorter than many responses take
LAG = timedelta(seconds=21)  # the largest delay of watch events
MEBI = 2**20
NODES, CPU, MEMORY = 6, 16, 64  # GiB
SCENARIO = f"""
kubernetes-version: "{{version}}"
nodes: [{{{{name: node, count: {NODES}, cpu: {CPU}, memory: {MEMORY}Gi}}}}]
metrics: {{{{window: 900s}}}}
timing: {{{{heartbeat: 120s, memory-check: 5s, node-status: 600s}}}}
"""
QUOTA = "tight"
KUBELET_FAULT = "kubelet.sandbox/resize"
REQUESTS = {"cpu": "200m", "memory": "256Mi"}
POD_LEVEL = {
    "requests": {"cpu": "300m", "memory": "512Mi"},
    "limits": {"cpu": "500m", "memory": "768Mi"},
}


class Obstacle(enum.Enum):
    """The reason why the pods of a new template never become ready."""

    NEVER_READY = enum.auto()
    NO_NODE = enum.auto()
    REFUSED = enum.auto()  # by the API server, because their priority class doesn't exist


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A controller with its VPA."""

    name: str
    kind: str = "Deployment"  # StatefulSet, DaemonSet
    replicas: int = 3
    mode: str = "Recreate"
    restarts: bool = False  # a resize restarts the container
    guarded: int = 0  # minAvailable of its PodDisruptionBudget; 0: it has none
    grace: int = 1  # seconds until its pods stop
    slow: bool = False  # resizes and starts take several passes
    min_replicas: int = 1  # of its VPA
    requested: tuple[str, ...] = ("cpu", "memory")  # resources that its container requests
    pod_level: tuple[str, ...] = ()  # requests, limits: the parts of its pod-level resources
    strategy: Mapping[str, Any] = field(default_factory=dict)  # of a Deployment

    @property
    def endpoint(self) -> Endpoint[dict[str, Any]]:
        return Endpoint("apps", "v1", f"{self.kind.lower()}s", self.kind, dict[str, Any])

    def manifest(self) -> dict[str, Any]:
        labels = {"app": self.name}
        resources = {"requests": {name: REQUESTS[name] for name in self.requested}}
        container: dict[str, Any] = {"name": "app", "image": "shop:1", "resources": resources}
        if self.restarts:
            container["resizePolicy"] = [
                {"resourceName": name, "restartPolicy": "RestartContainer"}
                for name in ("cpu", "memory")
            ]
        annotations = {"kubelet.sandbox/stop-delay": f"{self.grace}s"}
        if self.slow:
            annotations["kubelet.sandbox/resize-delay"] = f"{3 * INTERVAL:.0f}s"
            annotations["kubelet.sandbox/start-delay"] = f"{3 * INTERVAL:.0f}s"
        metadata = {"labels": labels, "annotations": annotations}
        pod: dict[str, Any] = {
            "containers": [container],
            "terminationGracePeriodSeconds": max(30, self.grace),
        }
        if self.pod_level:
            pod["resources"] = {part: dict(POD_LEVEL[part]) for part in self.pod_level}
        spec: dict[str, Any] = {
            "selector": {"matchLabels": labels},
            "template": {"metadata": metadata, "spec": pod},
        }
        if self.kind != "DaemonSet":
            spec["replicas"] = self.replicas
        if self.kind == "StatefulSet":
            spec |= {"serviceName": self.name, "podManagementPolicy": "Parallel"}
        if self.strategy:
            spec["strategy"] = dict(self.strategy)
        return {"metadata": {"name": self.name}, "spec": spec}

    def template(self, revision: int, obstacle: Obstacle | None = None) -> dict[str, Any]:
        """Return a merge patch of the pod template; revision 0 is that of the manifest."""
        never_ready = obstacle is Obstacle.NEVER_READY
        nowhere = {"kubernetes.io/hostname": "nowhere"} if obstacle is Obstacle.NO_NODE else None
        return {
            "metadata": {
                "annotations": {
                    "revision": str(revision) if revision else None,
                    "kubelet.sandbox/ready-delay": "never" if never_ready else None,
                }
            },
            "spec": {
                "nodeSelector": nowhere,
                "priorityClassName": "none" if obstacle is Obstacle.REFUSED else None,
            },
        }

    def vpa(self) -> dict[str, Any]:
        policy: dict[str, Any] = {"updateMode": self.mode, "minReplicas": self.min_replicas}
        target = {"apiVersion": "apps/v1", "kind": self.kind, "name": self.name}
        return {
            "metadata": {"name": self.name},
            "spec": {"targetRef": target, "updatePolicy": policy},
        }


BUDGETS: Endpoint[dict[str, Any]] = Endpoint(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", dict[str, Any]
)


@dataclass(slots=True)
class Process:
    """An updater, composed as in ``updater.__main__``, that can be killed at any time."""

    cluster: Cluster
    clock: VirtualClock
    log: DisruptionLog
    rules: Rules
    agent: str = MANAGER
    elected: bool = False  # acts only while it holds the Lease
    passes: int = 0
    goal: int = 0  # when this many passes have begun, ``reached`` is set
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start it if it isn't running."""
        if self._task is None:
            self.log.process_begins()
            self._task = asyncio.create_task(self._run())

    async def kill(self) -> None:
        """Kill it; its calls may still be carried out. Raise the error if it had crashed."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        async with self.cluster.client(self.agent) as client, asyncio.TaskGroup() as group:
            alarm = EventTrigger(INTERVAL) if self.rules.pace else None  # --event-driven
            caches = Caches.following(
                client,
                on_vpa=None if alarm is None else alarm.on_vpa,
                on_pod=None if alarm is None else alarm.on_pod,
                on_node=None if alarm is None else alarm.on_node,
            )
            events = EventRecorder(client, MANAGER, clock=self.clock)
            if self.elected:
                campaign = _campaign(client, self)
                group.create_task(campaign.run())
                await campaign.wait_leading()
            followed = (*caches.all(), caches.nodes, caches.quotas)
            for run in (events.run, *(cache.run for cache in followed)):
                group.create_task(run())
            for cache in caches.all():
                await cache.wait_synced()
            updater = Updater(
                caches=caches,
                targets=Targets(client, caches.controllers),
                admission=_alive,
                ignored_namespaces=(),
                rules=self.rules,
                actuator=PodActuator(client, events),
                limits=RateLimits(),
                metrics=UpdaterMetrics(CollectorRegistry()),
                clock=self.clock,
                stop=asyncio.Event(),
                history=ActionHistory(),
                usage=UsageWatch(client, self.clock),
            )
            loop = asyncio.get_running_loop()
            due = loop.time() + INTERVAL
            await asyncio.sleep(INTERVAL)
            while True:
                if alarm is None:
                    await asyncio.sleep(max(0.0, due - loop.time()))
                else:
                    await alarm.rest(due, stop=asyncio.Event())
                    alarm.clear()
                due = loop.time() + INTERVAL
                self.passes += 1
                if self.passes > self.goal:
                    self.reached.set()
                self.log.pass_begins()
                await updater.run_once()


def _campaign(client: KubeClient, process: Process) -> LeaderElection:
    """Return a leader election with the flags' defaults."""
    return LeaderElection(
        client,
        LeaderElectionSettings(),
        name="vpa-updater",
        identity=process.agent,
        clock=process.clock,
    )


async def _alive() -> AdmissionStatus:
    return AdmissionStatus.ALIVE


@dataclass(slots=True)
class FaultyCluster:
    """The cluster, its updater, and the faults of one seed."""

    cluster: Cluster
    admin: KubeClient
    clock: VirtualClock
    log: DisruptionLog
    process: Process
    workloads: Sequence[Workload]
    rng: Random
    undo: list[Callable[[], None]] = field(default_factory=list)
    undo_at_a_restart: list[Callable[[], None]] = field(default_factory=list)
    webhook: AdmissionHook | None = None
    undo_at_the_end: list[Callable[[], None]] = field(default_factory=list)
    revisions: Counter[str] = field(default_factory=Counter)  # of templates, by workload
    recommended: dict[str, datetime] = field(default_factory=dict)  # since when, by VPA

    # Ordinary changes

    async def deploy(self) -> None:
        for one in self.workloads:
            await self.admin.create(one.endpoint, one.manifest(), namespace=NAMESPACE)
            await self.create_vpa(one)
            if one.guarded:
                spec = {
                    "minAvailable": one.guarded,
                    "selector": {"matchLabels": {"app": one.name}},
                }
                body = {"metadata": {"name": one.name}, "spec": spec}
                await self.admin.create(BUDGETS, body, namespace=NAMESPACE)
        await asyncio.sleep(60)

    async def recommend(self, name: str, cpu: int, memory: int, *, exact: bool = True) -> None:
        """Recommend millicores and MiB. If not ``exact``, the bounds contain all pods' requests."""
        target = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
        container = {
            "containerName": "app",
            "target": target,
            "lowerBound": target if exact else {"cpu": "1m", "memory": "1Mi"},
            "upperBound": target if exact else {"cpu": "100", "memory": "1000Gi"},
        }
        condition = {
            "type": "RecommendationProvided",
            "status": "True",
            "lastTransitionTime": rfc3339(self.recommended.setdefault(name, self.clock.now())),
        }
        status = {
            "conditions": [condition],
            "recommendation": {"containerRecommendations": [container]},
        }
        await self.merge(VPAS.as_dicts(), name, {"status": status}, subresource="status")
        note_policy_writer(self.cluster, name)

    async def create_vpa(self, workload: Workload) -> None:
        """Create the VPA if it doesn't exist."""
        with contextlib.suppress(ConflictError):
            await self.admin.create(VPAS.as_dicts(), workload.vpa(), namespace=NAMESPACE)
            self.recommended.pop(workload.name, None)
            note_policy_writer(self.cluster, workload.name)

    async def roll_out(
        self, one: Workload, *, revision: int | None = None, obstacle: Obstacle | None = None
    ) -> None:
        """Change a Deployment's template to a new or an earlier revision."""
        if revision is None:
            self.revisions[one.name] += 1
            revision = self.revisions[one.name]
        template = one.template(revision, obstacle)
        await self.merge(one.endpoint, one.name, {"spec": {"template": template}})

    async def limit_namespace(self, names: Sequence[str], share: float) -> None:
        """Create a quota for a share of the present usage, unless there is one."""
        now, used = self.clock.now(), dict.fromkeys(names, ZERO)
        for stored in self.cluster.api.store.list(STORED_PODS, NAMESPACE):
            usage = pod_usage(stored.object(STORED_PODS), now)
            used = {name: amount + usage.get(name, ZERO) for name, amount in used.items()}
        hard = {
            name: str(Quantity.from_value(int(amount.value * share)))
            for name, amount in used.items()
        }
        body = {"metadata": {"name": QUOTA}, "spec": {"hard": hard}}
        with contextlib.suppress(KubeError):
            await self.admin.create(QUOTAS, body, namespace=NAMESPACE)

    async def lift_quota(self) -> None:
        with contextlib.suppress(KubeError):
            await self.admin.delete(QUOTAS, QUOTA, namespace=NAMESPACE)

    def names(self) -> list[str]:
        """Return the names of the pods that are not being deleted."""
        stored = self.cluster.api.store.list(STORED_PODS, NAMESPACE)
        return [pod.name for pod in stored if not pod.terminating]

    async def annotate(self, pod: str, annotations: dict[str, str | None]) -> None:
        await self.merge(PODS.as_dicts(), pod, {"metadata": {"annotations": annotations}})

    async def merge(
        self, endpoint: Endpoint[Any], name: str, patch: Any, *, subresource: str = ""
    ) -> None:
        with contextlib.suppress(KubeError):  # it may be deleted
            await self.admin.patch(
                endpoint,
                name,
                patch,
                patch_type=PatchType.MERGE,
                namespace=NAMESPACE,
                subresource=subresource,
            )

    def kubelet_fault(self, pod: str) -> str:
        """Return the fault of the pod's resizes."""
        stored = self.cluster.api.store.get(STORED_PODS, NAMESPACE, pod)
        meta = {} if stored is None else stored.object(STORED_PODS)["metadata"]
        return str(meta.get("annotations", {}).get(KUBELET_FAULT, ""))

    def workload_of(self, pod: str) -> Workload:
        """Return the workload whose name is the prefix of the pod's."""
        return max(
            (one for one in self.workloads if pod.startswith(f"{one.name}-")),
            key=lambda one: len(one.name),
        )

    def some_pod(self) -> str:
        return self.rng.choice(self.names())

    def some_workload(self) -> Workload:
        return self.rng.choice(self.workloads)

    async def node_is(self, name: str, share: float) -> None:
        shape = self.cluster.kubelets.nodes[name].shape
        size = Totals(int(CPU * 1000 * share), int(MEMORY * 1024 * share) * MEBI)
        with contextlib.suppress(KubeError):
            await self.cluster.kubelets.reshape(replace(shape, capacity=size))

    async def inject_faults(self, faults: Sequence["ClusterFault"], *, pause: float) -> None:
        """Inject faults, ``pause`` seconds apart on average, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(self.rng.expovariate(1 / pause))
                group.create_task(self.rng.choice(faults)(self))

    async def last(self, cycles: int, faults: Sequence["ClusterFault"], *, pause: float) -> None:
        """Inject faults until the updater has begun this many passes; raise the error of a crash.

        At the end the updater is killed.
        """
        self.process.goal = cycles
        injecting = asyncio.create_task(self.inject_faults(faults, pause=pause))
        reached = asyncio.create_task(self.process.reached.wait())
        await asyncio.wait((injecting, reached), return_when=asyncio.FIRST_COMPLETED)
        reached.cancel()
        injecting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await injecting
        await self.process.kill()

    async def calm(self) -> None:
        """End all faults of API server and nodes, and ensure that an updater runs."""
        await asyncio.sleep(1)  # a restarting API server needs that long
        for undo in (*self.undo, *self.undo_at_the_end):
            undo()
        self.undo.clear()
        await self.lift_quota()
        for one in self.workloads:
            if self.revisions[one.name]:
                await self.roll_out(one)
        for name in self.cluster.kubelets.nodes:
            self.cluster.kubelets.thaw(name)
            await self.node_is(name, 1.0)
        for one in self.workloads:
            await self.create_vpa(one)
        self.process.start()


ClusterFault = Callable[[FaultyCluster], Coroutine[Any, Any, None]]


@asynccontextmanager
async def faulty_cluster(
    workloads: Sequence[Workload],
    rules: Rules,
    clock: VirtualClock,
    *,
    seed: int,
    version: str = "1.36",
    folder: Path | None = None,
) -> AsyncIterator[FaultyCluster]:
    """Run a cluster in which the workloads run and an updater has just started.

    With a ``folder`` for its certificate, the webhook gives new pods their recommendation.
    """
    rng = Random(seed)
    async with (
        running_cluster(
            parse_scenario(SCENARIO.format(version=version)), clock=clock, rng=rng, metrics=False
        ) as cluster,
        cluster.client("test") as admin,
    ):
        await prepare(admin)
        log = DisruptionLog(cluster, MANAGER)
        log.begin()
        process = Process(cluster, clock, log, rules)
        injecting = FaultyCluster(cluster, admin, clock, log, process, workloads, rng)
        await injecting.deploy()
        async with contextlib.AsyncExitStack() as stack:
            if folder is not None:
                client = await stack.enter_async_context(cluster.client(admission_hook.AGENT))
                injecting.webhook = AdmissionHook.of(client)
                serving = injecting.webhook.serving(folder)
                registration = await stack.enter_async_context(serving)
                await admin.create(MUTATING_WEBHOOKS.as_dicts(), registration)
            process.start()
            stack.push_async_callback(process.kill)
            yield injecting

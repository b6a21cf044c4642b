"""A Deployment with its VPA in a sandbox cluster, and an updater."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from prometheus_client import CollectorRegistry

from common.features import FeatureGates
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import DEPLOYMENTS, EVENTS, PODS, VPAS
from common.kube.events import EventRecorder
from common.kube.lease import AdmissionStatus
from common.kube.targets import Targets
from definitions import vpa_definition
from sandbox import virtual_time
from sandbox.cluster import Cluster, running_cluster
from sandbox.scenario import parse_scenario
from sandbox.virtual_time import VirtualClock
from synced_caches import following
from updater.action_history import ActionHistory
from updater.actuation import PodActuator, TemplatePods
from updater.capacity.capacity_requests import CapacityMode, CapacityProvisioner
from updater.capacity.detection import CapacityDetection
from updater.eviction.disruption_budget import DisruptionPolicy
from updater.execute import RateLimits
from updater.metrics import UpdaterMetrics
from updater.pass_context import Rules
from updater.run import Updater
from updater.snapshot.caches import Caches
from updater.snapshot.live_pod import MANAGER
from updater.usage_watch import UsageWatch
from workloads import DEFINITIONS

SCENARIO = """
kubernetes-version: "{version}"
nodes: [{{name: node, count: 2, cpu: 2, memory: 4Gi}}]
namespaces: [shop]
"""
SETTLE = 20.0  # virtual seconds until the cluster has settled


@dataclass(slots=True)
class UpdaterSandbox:
    """A Deployment of three pods with 500m and 256Mi each, its VPA, and an updater."""

    cluster: Cluster
    admin: KubeClient
    client: KubeClient
    caches: Caches
    clock: VirtualClock
    rules: Rules
    admission: AdmissionStatus = AdmissionStatus.ALIVE
    admission_takes: float = 0.0  # virtual seconds of a check of admission's Lease
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    events: EventRecorder = field(init=False)

    def __post_init__(self) -> None:
        self.events = EventRecorder(self.client, MANAGER, clock=self.clock)

    def updater(
        self,
        *,
        actuator: PodActuator | None = None,
        registry: CollectorRegistry | None = None,
        dry_run: bool = False,
        targets: type[Targets] = Targets,
        capacity: CapacityMode = CapacityMode.OFF,
        provisioner: CapacityProvisioner | None = None,
    ) -> Updater:
        """Return a new updater without state."""

        async def admission() -> AdmissionStatus:
            await asyncio.sleep(self.admission_takes)
            return self.admission

        return Updater(
            caches=self.caches,
            targets=targets(self.client, self.caches.controllers),
            admission=admission,
            ignored_namespaces=(),
            rules=self.rules,
            actuator=actuator or PodActuator(self.client, self.events),
            limits=RateLimits(),
            metrics=UpdaterMetrics(registry or CollectorRegistry()),
            clock=self.clock,
            stop=self.stop,
            history=ActionHistory(),
            usage=UsageWatch(self.client, self.clock),
            replacements=TemplatePods(self.client, self.caches.controllers) if dry_run else None,
            capacity=CapacityDetection(self.client, capacity, sees_all_pods=True),
            provisioner=provisioner,
        )

    async def deploy(
        self, *, replicas: int = 3, stanza: dict[str, Any] | None = None, **spec: Any
    ) -> None:
        """Create the Deployment; ``stanza`` is ``spec.resources`` of its pods.

        ``spec`` are more fields of their spec.
        """
        resources = {"requests": {"cpu": "500m", "memory": "256Mi"}}
        container = {"name": "app", "image": "shop:1", "resources": resources}
        pods: dict[str, Any] = {"containers": [container], **spec}
        if stanza is not None:
            pods["resources"] = stanza
        template = {"metadata": {"labels": {"app": "web"}}, "spec": pods}
        workload = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template,
        }
        body = {"metadata": {"name": "web"}, "spec": workload}
        await self.admin.create(DEPLOYMENTS.as_dicts(), body, namespace="shop")
        await self.settle()

    async def autoscale(
        self, mode: str, *, name: str = "web", kind: str = "Deployment", **policy: Any
    ) -> None:
        target = {"apiVersion": "apps/v1", "kind": kind, "name": "web"}
        spec = {"targetRef": target, "updatePolicy": {"updateMode": mode, **policy}}
        body = {"metadata": {"name": name}, "spec": spec}
        await self.admin.create(VPAS.as_dicts(), body, namespace="shop")

    async def recommend(self, cpu: str, memory: str = "256Mi", **others: str) -> None:
        """Recommend this with equal bounds: a pod with other requests is out of range.

        ``others`` are the CPU of more containers.
        """
        amounts = {"app": {"cpu": cpu, "memory": memory}}
        amounts |= {name: {"cpu": other} for name, other in others.items()}
        containers = [
            {"containerName": name, "target": each, "lowerBound": each, "upperBound": each}
            for name, each in amounts.items()
        ]
        status = {"recommendation": {"containerRecommendations": containers}}
        await self.admin.patch(
            VPAS.as_dicts(),
            "web",
            {"status": status},
            patch_type=PatchType.MERGE,
            namespace="shop",
            subresource="status",
        )
        await self.settle()

    async def settle(self) -> None:
        await asyncio.sleep(SETTLE)

    async def cpu(self) -> list[str]:
        """Return the cpu requests in the specs of the running pods."""
        listing = await self.admin.list(PODS, namespace="shop")
        found = []
        for pod in listing.items:
            resources = pod.spec.containers[0].resources
            assert resources is not None
            assert resources.requests is not None
            if pod.metadata.deletion_timestamp is None:
                found.append(str(resources.requests["cpu"]))
        return sorted(found)

    def calls(self, subresource: str) -> list[int]:
        """Return the HTTP statuses of the updater's calls to a subresource of pods, in order."""
        return [
            entry.code for entry in self.cluster.audit(userAgent=MANAGER, subresource=subresource)
        ]

    async def messages(self, reason: str) -> list[str]:
        """Return the messages of the updater's Events."""
        listing = await self.admin.list(EVENTS.as_dicts(), namespace="shop")
        return [event["message"] for event in listing.items if event["reason"] == reason]


@asynccontextmanager
async def updater_sandbox(
    clock: VirtualClock, *, version: str, rules: Rules
) -> AsyncIterator[UpdaterSandbox]:
    scenario = parse_scenario(SCENARIO.format(version=version))
    async with (
        running_cluster(scenario, clock=clock) as cluster,
        cluster.client("test") as admin,
        cluster.client(MANAGER) as client,
    ):
        await admin.create(DEFINITIONS, vpa_definition())
        await asyncio.sleep(1)
        caches = Caches.following(client, features=rules.features)
        opened = UpdaterSandbox(cluster, admin, client, caches, clock, rules)
        followed = (*caches.all(), caches.nodes)
        async with following(followed, opened.events.run, caches.quotas.run):
            yield opened


def in_updater_sandbox(
    test: Callable[[UpdaterSandbox], Awaitable[None]],
    *,
    version: str = "1.36",
    gate: bool = True,
    tolerance: float = 0.5,
    sidecars: bool = False,
    skips_budget: bool = False,
) -> None:
    rules = Rules(
        features=FeatureGates(in_place=gate, native_sidecar=sidecars),
        disruption=DisruptionPolicy(
            tolerance_fraction=tolerance, in_place_skips_budget=skips_budget
        ),
        interval=timedelta(minutes=1),
    )

    async def main(clock: VirtualClock) -> None:
        async with updater_sandbox(clock, version=version, rules=rules) as opened:
            await test(opened)

    virtual_time.run(main)

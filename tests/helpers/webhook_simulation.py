"""A cluster with a webhook that patches pods or doesn't, workloads with VPAs, and an updater."""

import asyncio
import base64
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry

from certs.authority import Bundle, create, rsa_key
from common.annotations import OBSERVED_CONTAINERS
from common.api.core import Pod
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import EVENTS, MUTATING_WEBHOOKS, PODS, VPAS, Endpoint
from common.kube.events import EventRecorder
from common.kube.targets import Targets
from common.runtime.clock import SystemClock
from https_hook import serving_hook
from sandbox.cluster import Cluster, running_cluster
from sandbox.objects.resources import Resource
from sandbox.scenario import parse_scenario
from sandbox.times import rfc3339
from sandbox.virtual_time import VirtualClock
from synced_caches import following
from updater.action_history import ActionHistory
from updater.actuation import PodActuator
from updater.execute import RateLimits
from updater.metrics import UpdaterMetrics
from updater.run import Updater, always_ready
from updater.settings import UpdaterSettings
from updater.snapshot.caches import Caches
from updater.snapshot.live_pod import MANAGER
from updater.usage_watch import UsageWatch
from workloads import NAMESPACE, prepare

SCENARIO = parse_scenario("""
nodes: [{count: 1, cpu: 64, memory: 256Gi}]
timing: {heartbeat: 600s, memory-check: 600s, node-status: 3600s}
metrics: {window: 3600s}
""")
STORED_VPAS = Resource(
    group="autoscaling.k8s.io", plural="verticalpodautoscalers", kind="VerticalPodAutoscaler"
)
QUOTAS = Endpoint("", "v1", "resourcequotas", "ResourceQuota", dict[str, Any])
POD_RULE = {
    "operations": ["CREATE"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["pods"],
}
HAD, WANTED = "200m", "100m"
HOUR = 60  # passes of a minute

Sizes = Mapping[str, tuple[str, int]]


@dataclass(slots=True)
class Webhook:
    """A webhook that admits every pod, and patches it if enabled."""

    patches: bool
    port: int = 0
    wanted: Callable[[dict[str, Any]], Mapping[str, str]] = lambda pod: {"cpu": WANTED}

    async def handle(self, request: web.Request) -> web.Response:
        review = msgspec.json.decode(await request.read())
        response: dict[str, Any] = {"uid": review["request"]["uid"], "allowed": True}
        if self.patches:
            pod = review["request"]["object"]
            notes = {**(pod["metadata"].get("annotations") or {}), OBSERVED_CONTAINERS: "app"}
            requests = "/spec/containers/0/resources/requests"
            patch = [
                {"op": "add", "path": "/metadata/annotations", "value": notes},
                *(
                    {"op": "add", "path": f"{requests}/{name}", "value": value}
                    for name, value in self.wanted(pod).items()
                ),
            ]
            encoded = base64.b64encode(msgspec.json.encode(patch)).decode()
            response |= {"patchType": "JSONPatch", "patch": encoded}
        kinds = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        return web.json_response({**kinds, "response": response})

    def registration(self, bundle: Bundle) -> dict[str, Any]:
        authority = base64.b64encode(bundle.authority.certificate).decode()
        hook = {
            "name": "vpa.k8s.io",
            "clientConfig": {"url": f"https://127.0.0.1:{self.port}/", "caBundle": authority},
            "rules": [POD_RULE],
            "failurePolicy": "Ignore",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        return {"metadata": {"name": "vpa-webhook-config"}, "webhooks": [hook]}


@contextlib.asynccontextmanager
async def serving(webhook: Webhook, bundle: Bundle, folder: Path) -> AsyncIterator[None]:
    async with serving_hook(webhook.handle, bundle.server, folder) as webhook.port:
        yield


def note_policy_writer(cluster: Cluster, name: str) -> None:
    """Record the owner of ``spec.updatePolicy`` of a VPA; the sandbox doesn't manage fields."""
    stored = cluster.api.store.get(STORED_VPAS, NAMESPACE, name)
    if stored is None:
        return
    vpa = msgspec.json.decode(msgspec.json.encode(stored.object(STORED_VPAS)))
    entries = {each.get("subresource", ""): each for each in vpa["metadata"]["managedFields"]}
    entries[""]["fieldsV1"] = {"f:spec": {"f:updatePolicy": {"f:updateMode": {}}}}
    cluster.api.store.update(STORED_VPAS, vpa)


def throwaway_bundle(lifetime: timedelta = timedelta(days=2)) -> Bundle:
    """Return a certificate for loopback, valid by the real clock, which TLS uses."""
    now = SystemClock().now()
    return create(["127.0.0.1"], make_key=rsa_key, now=now, lifetime=lifetime)


@dataclass(slots=True)
class WebhookSimulation:
    """Workloads whose pods have twice the recommended CPU, and an updater."""

    cluster: Cluster
    admin: KubeClient
    client: KubeClient
    caches: Caches
    clock: VirtualClock
    settings: UpdaterSettings
    webhook: Webhook
    sizes: Sizes
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    events: EventRecorder = field(init=False)
    updater: Updater = field(init=False)
    sent: dict[str, list[datetime]] = field(default_factory=lambda: defaultdict(list))
    read_until: datetime | None = None

    def __post_init__(self) -> None:
        self.events = EventRecorder(self.client, MANAGER, clock=self.clock)
        self.restart()

    def restart(self) -> None:
        """Replace the updater by a new one without state."""
        self.registry = CollectorRegistry()
        self.updater = Updater(
            caches=self.caches,
            targets=Targets(self.client, self.caches.controllers),
            admission=always_ready,
            ignored_namespaces=(),
            rules=self.settings.rules,
            actuator=PodActuator(self.client, self.events),
            limits=RateLimits(),
            metrics=UpdaterMetrics(self.registry),
            clock=self.clock,
            stop=asyncio.Event(),
            history=ActionHistory(),
            usage=UsageWatch(self.client, self.clock),
        )

    async def deploy(self, name: str, kind: str, replicas: int) -> None:
        labels = {"app": name}
        resources = {"requests": {"cpu": HAD, "memory": "64Mi"}}
        pod: dict[str, Any] = {
            "containers": [{"name": "app", "image": "shop:1", "resources": resources}]
        }
        template = {"metadata": {"labels": labels}, "spec": pod}
        spec: dict[str, Any] = {"template": template}
        if kind == "Job":
            pod["restartPolicy"] = "Never"
            spec |= {"parallelism": replicas, "completions": replicas, "backoffLimit": 1000}
        else:
            spec["selector"] = {"matchLabels": labels}
        if kind in ("Deployment", "StatefulSet"):
            spec["replicas"] = replicas
        if kind == "StatefulSet":
            spec["serviceName"] = name
        body = {"metadata": {"name": name}, "spec": spec}
        group = "batch" if kind == "Job" else "apps"
        endpoint = Endpoint(group, "v1", f"{kind.lower()}s", kind, dict[str, Any])
        await self.admin.create(endpoint, body, namespace=NAMESPACE)
        target = {"apiVersion": f"{group}/v1", "kind": kind, "name": name}
        policy = {"updateMode": "Recreate", "minReplicas": 1}
        vpa = {"metadata": {"name": name}, "spec": {"targetRef": target, "updatePolicy": policy}}
        await self.admin.create(VPAS.as_dicts(), vpa, namespace=NAMESPACE)

    async def recommend(self, name: str) -> None:
        amounts = {"cpu": WANTED, "memory": "64Mi"}
        container = {
            "containerName": "app",
            "target": amounts,
            "lowerBound": amounts,
            "upperBound": amounts,
        }
        condition = {
            "type": "RecommendationProvided",
            "status": "True",
            "lastTransitionTime": rfc3339(self.clock.now()),
        }
        status = {
            "conditions": [condition],
            "recommendation": {"containerRecommendations": [container]},
        }
        await self.admin.patch(
            VPAS.as_dicts(),
            name,
            {"status": status},
            patch_type=PatchType.MERGE,
            namespace=NAMESPACE,
            subresource="status",
        )
        note_policy_writer(self.cluster, name)

    async def live(self, minutes: int, *, restarts: Collection[int] = ()) -> None:
        """Run a pass a minute; ``restarts`` are the minutes of the updater's restarts."""
        for minute in range(minutes):
            if minute in restarts:
                self.restart()
            await self.updater.run_once()
            if minute % HOUR == 0 or minute == minutes - 1:
                self._read_audit()
            await asyncio.sleep(60)

    def _read_audit(self) -> None:
        """Save the calls; the API server keeps only the latest."""
        for entry in self.cluster.audit(userAgent=MANAGER, subresource="eviction", code="201"):
            if self.read_until is None or entry.time > self.read_until:
                self.sent[entry.name.partition("-")[0]].append(entry.time)
        self.read_until = self.clock.now()

    async def pods(self) -> dict[str, list[Pod]]:
        """Return the pods that are not being deleted, by workload."""
        found: dict[str, list[Pod]] = {name: [] for name in self.sizes}
        for pod in (await self.admin.list(PODS, namespace=NAMESPACE)).items:
            if pod.metadata.deletion_timestamp is None and pod.metadata.labels:
                found[pod.metadata.labels["app"]].append(pod)
        return found

    async def right(self) -> dict[str, int]:
        """Return the number of pods of each workload with the recommended requests."""
        return {
            name: sum(requested(pod) == WANTED for pod in pods)
            for name, pods in (await self.pods()).items()
        }

    async def messages(self, reason: str) -> dict[str, str]:
        """Return the messages of the Events with this reason, by VPA."""
        listing = await self.admin.list(EVENTS.as_dicts(), namespace=NAMESPACE)
        return {
            event["involvedObject"]["name"]: event["message"]
            for event in listing.items
            if event["reason"] == reason
        }

    def suspended(self) -> set[str]:
        """Return the VPAs that the gauge lists."""
        return {
            sample.labels["vpa_name"]
            for metric in self.registry.collect()
            for sample in metric.samples
            if sample.name == "vpa_updater_evictions_suspended"
        }

    def outcome(self, came: str) -> float:
        name = "vpa_updater_eviction_outcomes_total"
        return self.registry.get_sample_value(name, {"came": came}) or 0


def requested(pod: Pod) -> object:
    resources = pod.spec.containers[0].resources
    return None if resources is None else (resources.requests or {}).get("cpu")


@contextlib.asynccontextmanager
async def webhook_simulation(
    clock: VirtualClock,
    folder: Path,
    settings: UpdaterSettings,
    *,
    sizes: Sizes,
    patches: bool,
) -> AsyncIterator[WebhookSimulation]:
    webhook = Webhook(patches=False)
    bundle = throwaway_bundle()
    async with (
        running_cluster(SCENARIO, clock=clock, metrics=False) as cluster,
        cluster.client("test") as admin,
        cluster.client(MANAGER) as client,
        serving(webhook, bundle, folder),
    ):
        await prepare(admin)
        await admin.create(MUTATING_WEBHOOKS.as_dicts(), webhook.registration(bundle))
        caches = Caches.following(client)
        opened = WebhookSimulation(cluster, admin, client, caches, clock, settings, webhook, sizes)
        for name, (kind, replicas) in sizes.items():
            await opened.deploy(name, kind, replicas)
        await asyncio.sleep(120)
        for name in sizes:
            await opened.recommend(name)
        webhook.patches = patches
        await asyncio.sleep(60)
        async with following(caches.all(), opened.events.run):
            yield opened

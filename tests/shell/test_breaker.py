"""The breaker proof: where evictions change nothing, few of them are sent, and it ends by itself.

A webhook that admits without patching, and a quota that lets no pod follow: a simulated day with
a pass a minute, in virtual time. What was sent is read from the API server's audit log.
"""

import asyncio
import base64
import contextlib
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from certs.authority import Bundle, create, rsa_key
from common.annotations import OBSERVED_CONTAINERS
from common.api.core import Pod
from common.flags import read_flags
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import EVENTS, MUTATING_WEBHOOKS, PODS, VPAS, Endpoint
from common.kube.events import EventRecorder
from common.kube.targets import Targets
from common.runtime.clock import SystemClock
from common.target.owners import Controller
from sandbox import virtual_time
from sandbox.cluster import Cluster, running_cluster
from sandbox.objects.resources import Resource
from sandbox.scenario import parse_scenario
from sandbox.times import rfc3339
from sandbox.virtual_time import VirtualClock
from updater.actuation import Actuator
from updater.group_size import GroupSize, group_size
from updater.live_pod import MANAGER
from updater.metrics import Metrics
from updater.schedule import Updater, always_ready
from updater.sending import Turns
from updater.settings import Settings
from updater.snapshot import Caches
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
FLAGS: tuple[str, ...] = ()  # the defaults; with --eviction-outcome-check=false all of it fails
HAD, WANTED = "200m", "100m"
DAY, HOUR, MINUTE = 1440, 60, timedelta(minutes=1)  # passes of a minute
MOST_AT_FIRST = 3

SIZES: Mapping[str, tuple[str, int]] = {
    "one": ("Deployment", 1),
    "two": ("Deployment", 2),
    "three": ("Deployment", 3),
    "four": ("StatefulSet", 4),
    "nine": ("Deployment", 9),
}
LARGE = {name: group for name, group in SIZES.items() if group[1] >= MOST_AT_FIRST}


@dataclass(slots=True)
class Webhook:
    """Admits every pod; patches it, too, if it is told to."""

    patches: bool
    port: int = 0

    async def handle(self, request: web.Request) -> web.Response:
        review = msgspec.json.decode(await request.read())
        response: dict[str, Any] = {"uid": review["request"]["uid"], "allowed": True}
        if self.patches:
            pod = review["request"]["object"]
            notes = {**(pod["metadata"].get("annotations") or {}), OBSERVED_CONTAINERS: "app"}
            requests = "/spec/containers/0/resources/requests/cpu"
            patch = [
                {"op": "add", "path": "/metadata/annotations", "value": notes},
                {"op": "add", "path": requests, "value": WANTED},
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
    (folder / "cert.pem").write_bytes(bundle.server.certificate)
    (folder / "key.pem").write_bytes(bundle.server.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    app = web.Application()
    app.router.add_post("/", webhook.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    assert isinstance(site._server, asyncio.Server)
    webhook.port = site._server.sockets[0].getsockname()[1]
    try:
        yield
    finally:
        await runner.cleanup()


@dataclass(slots=True)
class Town:
    """Workloads whose pods have twice the CPU that is recommended, and an updater."""

    cluster: Cluster
    admin: KubeClient
    client: KubeClient
    caches: Caches
    clock: VirtualClock
    settings: Settings
    webhook: Webhook
    sizes: Mapping[str, tuple[str, int]]
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    events: EventRecorder = field(init=False)
    updater: Updater = field(init=False)
    sent: dict[str, list[datetime]] = field(default_factory=lambda: defaultdict(list))
    read_until: datetime | None = None

    def __post_init__(self) -> None:
        self.events = EventRecorder(self.client, MANAGER, clock=self.clock)
        self.restart()

    def restart(self) -> None:
        """A process that remembers nothing."""
        self.registry = CollectorRegistry()
        self.updater = Updater(
            caches=self.caches,
            targets=Targets(self.client, self.caches.controllers),
            admission=always_ready,
            ignored_namespaces=(),
            rules=self.settings.rules,
            hands=Actuator(self.client, self.events),
            turns=Turns(),
            metrics=Metrics(self.registry),
            clock=self.clock,
            stop=asyncio.Event(),
        )

    async def deploy(self, name: str, kind: str, replicas: int) -> None:
        labels = {"app": name}
        resources = {"requests": {"cpu": HAD, "memory": "64Mi"}}
        pod = {"containers": [{"name": "app", "image": "shop:1", "resources": resources}]}
        spec = {
            **({"replicas": replicas} if kind != "DaemonSet" else {}),
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
            **({"serviceName": name} if kind == "StatefulSet" else {}),
        }
        body = {"metadata": {"name": name}, "spec": spec}
        endpoint = Endpoint("apps", "v1", f"{kind.lower()}s", kind, dict[str, Any])
        await self.admin.create(endpoint, body, namespace=NAMESPACE)
        target = {"apiVersion": "apps/v1", "kind": kind, "name": name}
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
        self._note_who_wrote_the_policy(name)

    def _note_who_wrote_the_policy(self, name: str) -> None:
        """As a real API server does; the sandbox keeps no field sets."""
        stored = self.cluster.api.store.get(STORED_VPAS, NAMESPACE, name)
        assert stored is not None
        vpa = msgspec.json.decode(msgspec.json.encode(stored.object(STORED_VPAS)))
        entries = {each.get("subresource", ""): each for each in vpa["metadata"]["managedFields"]}
        entries[""]["fieldsV1"] = {"f:spec": {"f:updatePolicy": {"f:updateMode": {}}}}
        self.cluster.api.store.update(STORED_VPAS, vpa)

    async def live(self, minutes: int, *, restarts: Collection[int] = ()) -> None:
        """A pass a minute; ``restarts`` are minutes at which the updater starts anew."""
        for minute in range(minutes):
            if minute in restarts:
                self.restart()
            await self.updater.run_once()
            if minute % HOUR == 0 or minute == minutes - 1:
                self._read_audit()
            await asyncio.sleep(60)

    def _read_audit(self) -> None:
        """The API server keeps its latest calls alone."""
        for entry in self.cluster.audit(userAgent=MANAGER, subresource="eviction", code="201"):
            if self.read_until is None or entry.time > self.read_until:
                self.sent[entry.name.partition("-")[0]].append(entry.time)
        self.read_until = self.clock.now()

    async def pods(self) -> dict[str, list[Pod]]:
        """The pods that nobody asked to go, by workload."""
        found: dict[str, list[Pod]] = {name: [] for name in self.sizes}
        for pod in (await self.admin.list(PODS, namespace=NAMESPACE)).items:
            if pod.metadata.deletion_timestamp is None and pod.metadata.labels:
                found[pod.metadata.labels["app"]].append(pod)
        return found

    async def right(self) -> dict[str, int]:
        """How many pods of each workload request what is recommended."""
        return {
            name: sum(requested(pod) == WANTED for pod in pods)
            for name, pods in (await self.pods()).items()
        }

    async def told(self, reason: str) -> dict[str, str]:
        """The messages of the Events of that reason, by VPA."""
        listing = await self.admin.list(EVENTS.as_dicts(), namespace=NAMESPACE)
        return {
            event["involvedObject"]["name"]: event["message"]
            for event in listing.items
            if event["reason"] == reason
        }

    def suspended(self) -> set[str]:
        """The VPAs that the gauge names."""
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
async def town(
    clock: VirtualClock,
    folder: Path,
    settings: Settings,
    *,
    sizes: Mapping[str, tuple[str, int]],
    patches: bool,
) -> AsyncIterator[Town]:
    webhook = Webhook(patches=False)
    now = SystemClock().now()
    bundle = create(["127.0.0.1"], make_key=rsa_key, now=now, lifetime=timedelta(days=2))
    async with (
        running_cluster(SCENARIO, clock=clock, metrics=False) as cluster,
        cluster.client("test") as admin,
        cluster.client(MANAGER) as client,
        serving(webhook, bundle, folder),
    ):
        await prepare(admin)
        await admin.create(MUTATING_WEBHOOKS.as_dicts(), webhook.registration(bundle))
        caches = Caches.following(client)
        opened = Town(cluster, admin, client, caches, clock, settings, webhook, sizes)
        for name, (kind, replicas) in sizes.items():
            await opened.deploy(name, kind, replicas)
        await asyncio.sleep(120)
        for name in sizes:
            await opened.recommend(name)
        webhook.patches = patches
        await asyncio.sleep(60)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(cache.run()) for cache in caches.all()]
            tasks.append(group.create_task(opened.events.run()))
            for cache in caches.all():
                await cache.wait_synced()
            try:
                yield opened
            finally:
                for task in tasks:
                    task.cancel()


def in_town(
    test: Callable[[Town], Awaitable[None]],
    folder: Path,
    *,
    sizes: Mapping[str, tuple[str, int]] = SIZES,
    patches: bool = False,
) -> None:
    settings = read_flags(Settings, FLAGS, program=MANAGER, environ={})

    async def main(clock: VirtualClock) -> None:
        async with town(clock, folder, settings, sizes=sizes, patches=patches) as opened:
            await test(opened)

    virtual_time.run(main)


def three_and_one_an_hour(times: list[datetime]) -> bool:
    """Whether all but the first three evictions were at least an hour apart from each other."""
    later = times[MOST_AT_FIRST - 1 :]
    return all(after - before >= HOUR * MINUTE for before, after in pairwise(later))


@pytest.mark.timeout(300)
def test_three_evictions_of_each_vpa_and_one_an_hour_until_the_webhook_patches(
    tmp_path: Path,
) -> None:
    async def test(town: Town) -> None:
        await town.live(HOUR)
        told = await town.told("EvictionsSuspended")
        assert set(told) == set(SIZES)
        assert all(text.endswith("[actuation_suspended]") for text in told.values())
        assert all("was not patched" in text for text in told.values())
        await town.live(DAY - HOUR)
        for name in SIZES:
            assert three_and_one_an_hour(town.sent[name]), (name, town.sent[name])
            assert MOST_AT_FIRST + 20 <= len(town.sent[name]) <= MOST_AT_FIRST + 24
        assert set((await town.right()).values()) == {0}
        assert town.suspended() == set(SIZES)
        assert town.outcome("unpatched") == sum(map(len, town.sent.values()))

        town.webhook.patches = True
        await town.live(HOUR + 15)  # to the next probe, and on
        assert await town.right() == {name: replicas for name, (_, replicas) in SIZES.items()}
        assert town.suspended() == set()
        assert set(await town.told("EvictionsResumed")) == set(SIZES)

    in_town(test, tmp_path)


def test_what_controllers_say_of_their_pods(tmp_path: Path) -> None:
    async def test(town: Town) -> None:
        (three,) = town.caches.controllers.replica_sets.snapshot.in_namespace(NAMESPACE)
        await town.deploy("all", "DaemonSet", 0)
        await asyncio.sleep(60)
        found = {
            (kind, name): group_size(
                Controller(NAMESPACE, kind, name, "apps/v1"), town.caches.controllers
            )
            for kind, name in (
                ("ReplicaSet", three.metadata.name),
                ("StatefulSet", "four"),
                ("DaemonSet", "all"),
                ("ReplicaSet", "gone"),
                ("Shop", "three"),
            )
        }
        assert list(found.values()) == [
            GroupSize(wanted=3, existing=3),
            GroupSize(wanted=4, existing=4),
            GroupSize(wanted=1, existing=1),  # there is one node
            GroupSize(),
            GroupSize(),
        ]

    in_town(test, tmp_path, sizes={name: SIZES[name] for name in ("three", "four")})


@pytest.mark.timeout(300)
def test_restarts_let_no_more_go(tmp_path: Path) -> None:
    """Of a group of one or two too few pods are left to tell what came of three evictions."""

    async def test(town: Town) -> None:
        await town.live(8 * HOUR, restarts=(1, 2, 5, 61, 200, 201, 202, 333))
        for name in LARGE:
            assert three_and_one_an_hour(town.sent[name]), (name, town.sent[name])
            assert len(town.sent[name]) > MOST_AT_FIRST
        assert town.suspended() == set(LARGE)

    in_town(test, tmp_path, sizes=LARGE)


@pytest.mark.timeout(300)
def test_pods_that_a_quota_keeps_from_coming_are_missed(tmp_path: Path) -> None:
    async def test(town: Town) -> None:
        body = {"metadata": {"name": "full"}, "spec": {"hard": {"pods": "0"}}}
        await town.admin.create(QUOTAS, body, namespace=NAMESPACE)
        await asyncio.sleep(10)
        await town.live(HOUR)
        for name, (_, replicas) in SIZES.items():
            gone = len(town.sent[name])
            assert gone <= MOST_AT_FIRST
            assert len((await town.pods())[name]) == replicas - gone
            assert (name in town.suspended()) is (gone == MOST_AT_FIRST)
        assert "nine" in town.suspended()
        assert len(town.sent["one"]) == 1  # there is no pod of that VPA any more
        assert town.outcome("not_created") == sum(map(len, town.sent.values()))
        assert "a quota" in (await town.told("EvictionsSuspended"))["nine"]

        await town.admin.delete(QUOTAS, "full", namespace=NAMESPACE)
        await town.live(2 * HOUR)
        assert await town.right() == {name: replicas for name, (_, replicas) in SIZES.items()}
        assert town.suspended() == set()

    in_town(test, tmp_path, patches=True)

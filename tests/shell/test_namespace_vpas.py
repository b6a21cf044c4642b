"""The controller of --namespace-vpas, on the sandbox and with failing API servers."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from cli_cluster import SCENARIO
from common.kube import endpoints
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import DEPLOYMENTS, JOBS, NAMESPACES, REPLICA_SETS, VPAS, Endpoint
from common.vpa_creation.reconciliation import KEPT_FOR
from fake_api import TIMEOUT, FakeApi, Reply, listing, named, status, until
from fixed_clock import FixedClock
from recommender.metrics import RecommenderMetrics
from recommender.namespace_vpas import MOST_WRITES, NamespaceVpas
from recommender.sources.informers import Informers
from recommender_harness import START, Running, deployment, prepare, running, vpa
from sandbox.cluster import running_cluster
from workloads import NAMESPACE
from workloads import prepare as define

ENABLE = "vpa.autoscaling/enable"
CONTAINER = {"name": "app", "image": "registry.example/app"}


@dataclass(frozen=True, slots=True)
class Controlled:
    """A cluster with the controller, whose passes the test starts."""

    client: KubeClient
    informers: Informers
    controller: NamespaceVpas
    metrics: RecommenderMetrics
    clock: FixedClock

    async def label(self, value: str | None, **annotations: str | None) -> None:
        """Set the label of the namespace and annotations, whose names have ``_`` for ``-``."""
        named = {
            f"vpa.autoscaling/{name.replace('_', '-')}": text for name, text in annotations.items()
        }
        await self.merge(
            NAMESPACES, NAMESPACE, {"labels": {ENABLE: value}, "annotations": named}, namespace=""
        )

    async def merge(
        self, endpoint: Endpoint[Any], name: str, metadata: Any, *, namespace: str = NAMESPACE
    ) -> None:
        """Change the metadata of an object."""
        await self.client.patch(
            endpoint.as_dicts(),
            name,
            {"metadata": metadata},
            patch_type=PatchType.MERGE,
            namespace=namespace,
        )

    async def deploy(
        self, name: str, endpoint: Endpoint[Any] = DEPLOYMENTS, **metadata: Any
    ) -> None:
        """Create a workload without pods."""
        labels = {"app": name}
        template: dict[str, Any] = {"metadata": {"labels": labels}}
        template["spec"] = {"containers": [CONTAINER]}
        spec: dict[str, Any] = {"template": template}
        if endpoint is JOBS:
            spec["suspend"] = True
            template["spec"]["restartPolicy"] = "Never"
        else:
            spec |= {"replicas": 0, "selector": {"matchLabels": labels}}
        body = {"metadata": {"name": name, **metadata}, "spec": spec}
        await self.client.create(endpoint.as_dicts(), body, namespace=NAMESPACE)

    async def reconcile(self) -> None:
        """Run a pass after the caches have every change."""
        for cache in (self.informers.vpas, *self.informers.controllers):
            async with asyncio.timeout(TIMEOUT):
                while await self._versions(cache.endpoint) != {  # noqa: ASYNC110 - a cache has no event
                    (each.metadata.name, each.metadata.resource_version)
                    for each in cache.snapshot.items()
                }:
                    await asyncio.sleep(0.01)
        await self.controller.run_once()

    async def _versions(self, endpoint: Endpoint[Any]) -> set[tuple[str, str]]:
        found = (await self.client.list(endpoint.as_dicts())).items
        return {(each["metadata"]["name"], each["metadata"]["resourceVersion"]) for each in found}

    async def vpas(self) -> dict[str, Any]:
        """Return the specs of all VPAs by name."""
        found = (await self.client.list(VPAS.as_dicts())).items
        return {each["metadata"]["name"]: each["spec"] for each in found}

    async def modes(self) -> dict[str, str]:
        return {
            name: spec["updatePolicy"]["updateMode"] for name, spec in (await self.vpas()).items()
        }

    def sample(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)


@pytest.fixture
async def cluster() -> AsyncIterator[Controlled]:
    """Run a cluster with a Deployment, and the caches of the controller."""
    async with running_cluster(SCENARIO) as sandbox, sandbox.client("test") as client:
        await define(client)
        metrics, clock = RecommenderMetrics(), FixedClock(START)
        informers = Informers(client, namespace="", errors=metrics.object_errors)
        controller = NamespaceVpas(
            informers, namespace="", ignored=(), metrics=metrics, clock=clock
        )
        made = Controlled(client, informers, controller, metrics, clock)
        await made.deploy("web")
        async with in_background(*informers.background):
            await informers.wait_synced()
            await until(lambda: informers.fresh)
            yield made


@asynccontextmanager
async def in_background(*runs: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    async def run(each: Callable[[], Awaitable[None]]) -> None:
        await each()

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run(each)) for each in runs]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


async def test_a_namespace_without_the_label_gets_nothing(cluster: Controlled) -> None:
    await cluster.label("false")
    await cluster.reconcile()
    assert await cluster.vpas() == {}


async def test_the_workloads_of_a_namespace_with_the_label_get_vpas(cluster: Controlled) -> None:
    await cluster.deploy("alone", REPLICA_SETS)
    await cluster.deploy("once", JOBS)
    await cluster.label("true", max_allowed="cpu=2")
    await cluster.reconcile()
    found = await cluster.vpas()
    assert {name: spec["targetRef"]["kind"] for name, spec in found.items()} == {
        "alone": "ReplicaSet",
        "once": "Job",
        "web": "Deployment",
    }, "the ReplicaSet of the Deployment has an owner"
    assert found["web"] == {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "updatePolicy": {"updateMode": "Off"},
        "resourcePolicy": {
            "containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "2"}}]
        },
    }
    assert cluster.sample("vpa_recommender_namespace_vpas_total", action="created") == 3
    assert cluster.sample("vpa_recommender_enabled_namespaces", state="valid") == 1


async def test_a_pass_without_a_change_writes_nothing(cluster: Controlled) -> None:
    await cluster.label("true", mode="Recreate", min_replicas="2", min_allowed="cpu=50m")
    await cluster.reconcile()
    before = (await cluster.client.list(VPAS.as_dicts())).items
    await cluster.reconcile()
    assert (await cluster.client.list(VPAS.as_dicts())).items == before


async def test_a_changed_policy_is_written(cluster: Controlled) -> None:
    await cluster.label("true", mode="Recreate", min_replicas="2", min_allowed="cpu=50m")
    await cluster.reconcile()
    await cluster.label("true", mode="Initial", min_replicas=None, min_allowed=None)
    await cluster.reconcile()
    assert (await cluster.vpas())["web"] == {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "updatePolicy": {"updateMode": "Initial"},
    }
    assert cluster.sample("vpa_recommender_namespace_vpas_total", action="updated") == 1


async def test_without_the_label_the_vpas_go_but_those_of_persons(cluster: Controlled) -> None:
    await cluster.deploy("api")
    await cluster.deploy("mine")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "mine"}
    by_hand = {"metadata": {"name": "by-hand"}, "spec": {"targetRef": target}}
    await cluster.client.create(VPAS.as_dicts(), by_hand, namespace=NAMESPACE)
    await cluster.label("true")
    await cluster.reconcile()
    assert set(await cluster.vpas()) == {"api", "by-hand", "web"}
    await cluster.merge(VPAS, "api", {"labels": {"vpa.autoscaling/created-by": None}})
    await cluster.label(None)
    await cluster.reconcile()
    assert set(await cluster.vpas()) == {"api", "by-hand"}, "api has lost its mark"
    assert cluster.sample("vpa_recommender_namespace_vpas_total", action="deleted") == 1


async def test_a_workload_with_the_label_false_gets_none(cluster: Controlled) -> None:
    await cluster.deploy("api", labels={ENABLE: "false"})
    await cluster.label("true")
    await cluster.reconcile()
    assert set(await cluster.vpas()) == {"web"}
    await cluster.merge(DEPLOYMENTS, "web", {"labels": {ENABLE: "false"}})
    await cluster.reconcile()
    assert await cluster.vpas() == {}


async def test_an_invalid_annotation_is_logged_once_and_changes_nothing(
    cluster: Controlled, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="recommender.namespace_vpas")
    await cluster.label("true", mode="Recreate")
    await cluster.reconcile()
    caplog.clear()
    await cluster.deploy("api")
    await cluster.label("true", mode="recreate")
    await cluster.reconcile()
    await cluster.reconcile()
    assert await cluster.modes() == {"web": "Recreate"}
    (record,) = caplog.records
    assert record.getMessage() == "invalid annotation: VPAs of the namespace stay as they are"
    details = vars(record)
    assert (details["namespace"], details["annotation"], details["problem"]) == (
        NAMESPACE,
        "vpa.autoscaling/mode",
        "'recreate' is none of Off, Initial, Recreate, InPlaceOrRecreate, InPlace",
    )
    assert cluster.sample("vpa_recommender_enabled_namespaces", state="invalid") == 1
    await cluster.label("true", mode="Initial")
    await cluster.reconcile()
    assert await cluster.modes() == {"api": "Initial", "web": "Initial"}
    assert cluster.sample("vpa_recommender_enabled_namespaces", state="invalid") == 0


async def test_a_vpa_outlives_its_workload_by_a_day(cluster: Controlled) -> None:
    await cluster.label("true")
    await cluster.reconcile()
    await cluster.client.delete(DEPLOYMENTS, "web", namespace=NAMESPACE)
    await cluster.reconcile()
    cluster.clock.forward(KEPT_FOR - timedelta(seconds=1))
    await cluster.reconcile()
    assert set(await cluster.vpas()) == {"web"}
    cluster.clock.forward(timedelta(seconds=1))
    await cluster.reconcile()
    assert await cluster.vpas() == {}


async def test_the_writes_of_a_pass_are_bounded(cluster: Controlled) -> None:
    for number in range(MOST_WRITES):
        await cluster.deploy(f"app-{number}")
    await cluster.label("true")
    await cluster.reconcile()
    assert len(await cluster.vpas()) == MOST_WRITES
    await cluster.reconcile()
    assert len(await cluster.vpas()) == MOST_WRITES + 1


# With failures

NAMESPACE_LIST = f"GET {NAMESPACES.collection()}"
NEW_VPA = f"POST {VPAS.collection('shop')}"
ONE_VPA = VPAS.object("web", "shop")


def enabled(**annotations: str) -> Reply:
    found = named("shop", namespace="")
    found["metadata"] |= {"labels": {ENABLE: "true"}, "annotations": annotations}
    return listing(found)


def managed(version: int = 1, *, by: str = "vpa-recommender") -> Any:
    found = vpa(updatePolicy={"updateMode": "Off"})
    meta = {
        "labels": {"vpa.autoscaling/created-by": by},
        "uid": "u",
        "resourceVersion": str(version),
    }
    found["metadata"] |= meta
    return found


@asynccontextmanager
async def scripted(
    api: FakeApi,
    *vpas: Any,
    namespaces: Reply,
    workloads: Sequence[str] = ("web",),
    **settings: Any,
) -> AsyncIterator[Running]:
    """Run a recommender with the controller.

    The cluster has Deployments and a Job that has ended, and serves no HPAs.
    """
    ended = named("once", status={"conditions": [{"type": "Complete", "status": "True"}]})
    deployments = [deployment(name) for name in workloads]
    prepare(api, verticalpodautoscalers=list(vpas), deployments=deployments, jobs=[ended])
    api.on(NAMESPACE_LIST, namespaces)
    for endpoint in (
        *(endpoints.DEPLOYMENTS, endpoints.REPLICA_SETS, endpoints.STATEFUL_SETS),
        *(endpoints.DAEMON_SETS, endpoints.JOBS, endpoints.CRON_JOBS),
        endpoints.REPLICATION_CONTROLLERS,
    ):
        api.on(f"NAMES {endpoint.collection()}", listing())
    api.on(f"GET {endpoints.HPAS.collection()}", status(404, "NotFound"))
    async with running(api, namespace_vpas=True, **settings) as process:
        yield process


async def test_the_loop_runs_it_after_the_recommendations() -> None:
    async with FakeApi() as api:
        api.on(NEW_VPA, Reply(status=201, body=managed()))
        async with scripted(api, namespaces=enabled()) as process:
            await process.cycle()
            created = [each.json() for each in api.requests if each.path == VPAS.collection("shop")]
            assert [each["spec"]["targetRef"]["name"] for each in created] == ["web"]
            assert process.sample("vpa_recommender_namespace_vpas_total", action="created") == 1


async def test_without_the_flag_no_namespace_is_read() -> None:
    async with FakeApi() as api:
        prepare(api)
        async with running(api) as process:
            await process.cycle()
            assert NAMESPACE_LIST not in api.routes


async def test_nothing_is_deleted_if_namespaces_cant_be_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeApi() as api:
        async with scripted(
            api, managed(), namespaces=status(403, "Forbidden", "may not list namespaces")
        ) as process:
            await process.cycle()
            await process.cycle()
        assert not [each for each in api.routes if each.startswith("DELETE")]
        lines = [each for each in caplog.records if "not reconciled" in each.getMessage()]
        assert [vars(each)["error"] for each in lines] == ["may not list namespaces"]


async def test_a_namespace_that_cant_be_decoded_keeps_its_vpas() -> None:
    odd = named("shop", namespace="")
    odd["metadata"] |= {
        "labels": {ENABLE: "true"},
        "annotations": {str(n): "" for n in range(1001)},
    }
    async with FakeApi() as api:
        api.on(f"GET {ONE_VPA}", Reply(body=managed()))
        api.on(f"DELETE {ONE_VPA}", Reply(body={}))
        async with scripted(api, managed(), namespaces=listing(odd)) as process:
            await process.cycle()
        assert not [each for each in api.routes if each.startswith("DELETE")]


@pytest.mark.parametrize(
    ("stored", "deleted"),
    [
        pytest.param(managed(7), True, id="another version"),
        pytest.param(managed(7, by="shop"), False, id="without the mark"),
    ],
)
async def test_a_vpa_is_read_again_before_it_is_deleted(stored: Any, *, deleted: bool) -> None:
    async with FakeApi() as api:
        api.on(f"GET {ONE_VPA}", Reply(body=stored))
        api.on(f"DELETE {ONE_VPA}", Reply(body={}))
        async with scripted(api, managed(), namespaces=listing()) as process:
            await process.cycle()
        deletions = [each.json() for each in api.requests if each.method == "DELETE"]
        wanted = {"uid": "u", "resourceVersion": "7"}
        assert [each["preconditions"] for each in deletions] == ([wanted] if deleted else [])


@pytest.mark.parametrize(
    ("answer", "failed"),
    [
        pytest.param(status(409, "AlreadyExists"), None, id="a VPA with its name was created"),
        pytest.param(status(403, "Forbidden"), 1, id="refused"),
    ],
)
async def test_a_refused_creation_is_counted_and_made_again(
    answer: Reply, failed: float | None
) -> None:
    async with FakeApi() as api:
        api.on(NEW_VPA, answer, Reply(status=201, body=managed()))
        async with scripted(api, namespaces=enabled()) as process:
            await process.cycle()
            name = "vpa_recommender_failed_writes_total"
            assert process.sample(name, kind="vpa", reason="Forbidden") == failed
            await process.cycle()
            assert process.sample("vpa_recommender_namespace_vpas_total", action="created") == 1


async def test_a_pass_ends_if_the_api_server_becomes_unreachable() -> None:
    async with FakeApi() as api:
        api.on(NEW_VPA, Reply(cut=True))
        workloads = ("api", "cart", "web")
        async with scripted(api, namespaces=enabled(), workloads=workloads) as process:
            await process.cycle()
            assert api.routes.count(NEW_VPA) == 1
            name = "vpa_recommender_failed_writes_total"
            assert process.sample(name, kind="vpa", reason="Unreachable") == 1


async def test_a_pass_with_stale_caches_does_nothing() -> None:
    metrics = RecommenderMetrics()
    async with FakeApi() as api, api.client() as client:
        informers = Informers(client, namespace="", errors=metrics.object_errors)
        controller = NamespaceVpas(
            informers, namespace="", ignored=(), metrics=metrics, clock=FixedClock(START)
        )
        await controller.run_once()
        assert api.requests == []


async def test_hpas_take_their_resource_from_the_vpas() -> None:
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    hpa = named("web", spec={"scaleTargetRef": target, "metrics": [metric]})
    async with FakeApi() as api:
        api.on(NEW_VPA, Reply(status=201, body=managed()))
        mode = {"vpa.autoscaling/mode": "Recreate"}
        async with scripted(api, namespaces=enabled(**mode)) as process:
            api.on(f"GET {endpoints.HPAS.collection()}", listing(hpa))
            await process.cycle()
        (policy,) = api.requests[-1].json()["spec"]["resourcePolicy"]["containerPolicies"]
        assert policy["controlledResources"] == ["memory"]


async def test_an_ignored_namespace_is_left_as_it_is() -> None:
    async with FakeApi() as api:
        ignored = ("shop",)
        async with scripted(
            api, namespaces=enabled(), ignored_vpa_object_namespaces=ignored
        ) as process:
            await process.cycle()
        assert NAMESPACE_LIST in api.routes
        assert NEW_VPA not in api.routes


async def test_with_one_namespace_others_get_nothing(cluster: Controlled) -> None:
    await cluster.label("true")
    scoped = NamespaceVpas(
        cluster.informers,
        namespace="other",
        ignored=(),
        metrics=cluster.metrics,
        clock=cluster.clock,
    )
    await scoped.run_once()
    assert await cluster.vpas() == {}
    assert cluster.sample("vpa_recommender_enabled_namespaces", state="valid") == 0

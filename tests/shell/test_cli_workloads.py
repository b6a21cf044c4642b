"""The workloads that ``kubectl vpa report`` finds."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from common.errors import ForbiddenError
from common.kube import endpoints
from common.kube.endpoints import Endpoint
from fake_api import FakeApi, Reply, listing, named, status
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.cluster.workloads import Workload, read_workloads

GROUP = "GET /apis/autoscaling.k8s.io/v1"


def owned(name: str, kind: str = "", owner: str = "", **more: Any) -> Any:
    found = named(name, **more)
    if kind:
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "controller": True}
        found["metadata"]["ownerReferences"] = [reference]
    return found


def pod(name: str, kind: str = "", owner: str = "") -> Any:
    spec = {"containers": [{"name": "app"}]}
    return owned(name, kind, owner, spec=spec, status={"phase": "Running"})


def vpa(name: str, target: str, mode: str = "Recreate") -> Any:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    spec = {"targetRef": reference, "updatePolicy": {"updateMode": mode}}
    return named(name, spec=spec, status={})


def on(api: FakeApi, endpoint: Endpoint[Any], *items: Any) -> None:
    api.on(f"GET {endpoint.collection()}", listing(*items))


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as api:
        resources = [{"name": "verticalpodautoscalers"}]
        api.on(GROUP, Reply(body={"resources": resources}))
        pods = (
            *(pod("web-1", "ReplicaSet", "web-a"), pod("web-2", "ReplicaSet", "web-b")),
            *(pod("night-1", "Job", "night-7"), pod("agent-1", "DaemonSet", "agent")),
            *(pod("etcd-cp", "Node", "cp"), pod("by-hand")),
        )
        on(api, endpoints.PODS, *pods)
        replica_sets = (owned(each, "Deployment", "web") for each in ("web-a", "web-b"))
        on(api, endpoints.REPLICA_SETS, *replica_sets)
        on(api, endpoints.JOBS, owned("night-7", "CronJob", "night"))
        on(api, endpoints.LIMIT_RANGES)
        on(api, endpoints.VPAS, vpa("web", "web"), vpa("idle", "idle"), vpa("off", "web", "Off"))
        yield api


async def found(api: FakeApi, selector: str = "") -> tuple[dict[str, Workload], list[str]]:
    async with api.client() as client:
        reader = Reader(client=client, namespace="")
        workloads = await read_workloads(reader, label_selector=selector)
        by_name = {"/".join(each.controller.key[1:]): each for each in workloads.found}
        return by_name, reader.notes


async def test_pods_belong_to_their_topmost_owner(api: FakeApi) -> None:
    workloads, notes = await found(api)
    counts = {name: sum(group.count for group in each.groups) for name, each in workloads.items()}
    assert counts == {
        "Deployment/web": 2,
        "CronJob/night": 1,
        "DaemonSet/agent": 1,
        "Pod/etcd-cp": 1,
        "Pod/by-hand": 1,
        "Deployment/idle": 0,
    }
    assert notes == []


async def test_a_workload_has_the_vpa_that_controls_it(api: FakeApi) -> None:
    workloads, _ = await found(api)
    vpas = {name: each.vpa and each.vpa.metadata.name for name, each in workloads.items()}
    assert {name for name in vpas.values() if name} == {"web", "idle"}
    assert vpas["Deployment/web"] == "web"


async def test_a_selector_leaves_out_vpas_without_pods(api: FakeApi) -> None:
    workloads, _ = await found(api, "app")
    assert "Deployment/idle" not in workloads
    (asked,) = (each for each in api.requests if each.path == endpoints.PODS.collection())
    assert asked.query["labelSelector"] == "app"


async def test_a_cluster_without_the_definition_of_vpas_needs_no_note(api: FakeApi) -> None:
    api.on(GROUP, status(404, "NotFound"))
    workloads, notes = await found(api)
    assert {each.vpa for each in workloads.values()} == {None}
    assert notes == []


async def test_vpas_that_may_not_be_listed_are_a_note(api: FakeApi) -> None:
    api.on(f"GET {endpoints.VPAS.collection()}", status(403, "Forbidden"))
    workloads, notes = await found(api)
    assert "Deployment/web" in workloads
    assert notes == ["verticalpodautoscalers: you may not list them"]


async def test_pods_that_may_not_be_listed_are_an_error(api: FakeApi) -> None:
    api.on(f"GET {endpoints.PODS.collection()}", status(403, "Forbidden"))
    with pytest.RaisesGroup(ForbiddenError):
        await found(api)

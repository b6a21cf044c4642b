"""Deletion: grace periods, finalizers, owned objects."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from sandbox_client import VPAS, Api, api_server, pod, vpa

PODS = "/api/v1/namespaces/golden/pods"
CONFIG_MAPS = "/api/v1/namespaces/golden/configmaps"


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with api_server() as server:
        yield server


def config_map(name: str, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **meta}}


def owner_of(obj: dict[str, Any]) -> dict[str, Any]:
    meta = obj["metadata"]
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": meta["name"], "uid": meta["uid"]}


async def names(api: Api, path: str = CONFIG_MAPS) -> list[str]:
    return [one["metadata"]["name"] for one in (await api.read(path))["items"]]


async def test_a_running_pod_is_deleted_gracefully(api: Api) -> None:
    await api.make(PODS, pod(node="n1", terminationGracePeriodSeconds=10))
    first = (await api("DELETE", f"{PODS}/web")).json["metadata"]
    assert first["deletionTimestamp"] == "2026-11-21T08:25:10Z"
    assert (first["deletionGracePeriodSeconds"], first["generation"]) == (10, 2)
    again = (await api("DELETE", f"{PODS}/web")).json["metadata"]
    assert again == first
    sooner = (await api("DELETE", f"{PODS}/web?gracePeriodSeconds=1")).json["metadata"]
    assert sooner["deletionTimestamp"] == "2026-11-21T08:25:01Z"
    gone = await api("DELETE", f"{PODS}/web", {"gracePeriodSeconds": 0})
    assert (gone.status, gone.json["kind"]) == (200, "Pod")
    assert (await api("GET", f"{PODS}/web")).status == 404


@pytest.mark.parametrize("phase", ["", "Succeeded", "Failed"])
async def test_a_pod_that_does_not_run_is_deleted_immediately(api: Api, phase: str) -> None:
    await api.make(PODS, pod(node="n1" if phase else ""))
    if phase:
        await api.merge(f"{PODS}/web/status", {"status": {"phase": phase}})
    await api("DELETE", f"{PODS}/web")
    assert await names(api, PODS) == []


async def test_the_deletion_of_other_objects_returns_a_status(api: Api) -> None:
    made = await api.make(CONFIG_MAPS, config_map("x"))
    answer = (await api("DELETE", f"{CONFIG_MAPS}/x")).json
    assert answer["status"] == "Success"
    details = {"name": "x", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    assert answer["details"] == details
    assert (await api("DELETE", f"{CONFIG_MAPS}/x")).status == 404


async def test_finalizers_keep_an_object_until_the_last_is_removed(api: Api) -> None:
    await api.make(CONFIG_MAPS, config_map("x", finalizers=["a/b", "c/d"]))
    held = (await api("DELETE", f"{CONFIG_MAPS}/x")).json
    assert held["metadata"]["deletionTimestamp"] == "2026-11-21T08:25:00Z"
    path = f"{CONFIG_MAPS}/x"
    one = await api.merge(path, {"metadata": {"finalizers": ["c/d"]}})
    assert one.status == 200
    assert await names(api) == ["x"]
    assert (await api.merge(path, {"metadata": {"finalizers": None}})).status == 200
    assert await names(api) == []


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param({"gracePeriodSeconds": "x"}, 400, id="another type"),
        pytest.param({"dryRun": ["Some"]}, 422, id="another dry run"),
    ],
)
async def test_options_are_validated_before_the_object_is_looked_up(
    api: Api, body: dict[str, Any], want: int
) -> None:
    assert (await api("DELETE", f"{CONFIG_MAPS}/missing", body)).status == want


@pytest.mark.parametrize("precondition", ["uid", "resourceVersion"])
async def test_preconditions_protect_another_object(api: Api, precondition: str) -> None:
    made = await api.make(CONFIG_MAPS, config_map("x"))
    path = f"{CONFIG_MAPS}/x"
    wrong = await api("DELETE", path, {"preconditions": {precondition: "0"}})
    assert (wrong.status, wrong.json["reason"]) == (409, "Conflict")
    right = {"preconditions": {precondition: made["metadata"][precondition]}}
    assert (await api("DELETE", path, right)).status == 200


async def test_owned_objects_are_deleted_with_their_owner(api: Api) -> None:
    top = await api.make(CONFIG_MAPS, config_map("top"))
    await api.make(CONFIG_MAPS, config_map("other"))
    middle = await api.make(CONFIG_MAPS, config_map("middle", ownerReferences=[owner_of(top)]))
    await api.make(CONFIG_MAPS, config_map("leaf", ownerReferences=[owner_of(middle)]))
    await api("DELETE", f"{CONFIG_MAPS}/top", {"propagationPolicy": "Foreground"})
    assert await names(api) == ["other"]


async def test_the_query_of_a_deletion_counts_only_without_a_body(api: Api) -> None:
    await api.make(CONFIG_MAPS, config_map("x"))
    path = f"{CONFIG_MAPS}/x?dryRun=All"
    assert (await api("DELETE", path)).status == 200
    assert await names(api) == ["x"]
    assert (await api("DELETE", path, {"propagationPolicy": "Background"})).status == 200
    assert await names(api) == []


async def test_a_dependent_created_after_its_owners_deletion_is_collected(api: Api) -> None:
    top = await api.make(CONFIG_MAPS, config_map("top"))
    await api("DELETE", f"{CONFIG_MAPS}/top")
    await api.make(CONFIG_MAPS, config_map("late", ownerReferences=[owner_of(top)]))
    assert await names(api) == []


async def test_custom_resources_are_deleted_with_their_definition(api: Api) -> None:
    await api.apply_definitions()
    await api.make(VPAS, vpa())
    definition = "verticalpodautoscalers.autoscaling.k8s.io"
    base = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await api("DELETE", f"{base}/{definition}")).status == 200
    assert (await api("GET", VPAS)).status == 404
    groups = [one["name"] for one in (await api.read("/apis"))["groups"]]
    assert "autoscaling.k8s.io" in groups  # the checkpoints still exist
    await api("DELETE", f"{base}/verticalpodautoscalercheckpoints.autoscaling.k8s.io")
    groups = [one["name"] for one in (await api.read("/apis"))["groups"]]
    assert "autoscaling.k8s.io" not in groups

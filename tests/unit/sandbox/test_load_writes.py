"""The load mode: effects of writes, events of watches, and the report."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from common.annotations import OBSERVED_CONTAINERS
from common.kube import endpoints
from load_caller import calling, everything, path_of, report
from sandbox.load.changes import Changes, TooOldError
from sandbox.load.settings import Settings
from updater.snapshot.caches import LIVE_PODS
from updater.snapshot.live_pod import LivePod, resized_at

# Writes


def stale(pod: LivePod) -> bool:
    resources = pod.spec.containers[0].resources
    assert resources is not None
    return resources.requests == {"cpu": "100m", "memory": "134217728"}


async def test_an_evicted_pod_is_replaced_by_one_with_its_target() -> None:
    call = calling()
    before = await everything(call, LIVE_PODS)
    version = (await call("GET", "/api/v1/pods?limit=1")).json["metadata"]["resourceVersion"]
    async with call.watching(f"/api/v1/pods?watch=true&resourceVersion={version}") as events:
        assert (await call("POST", path_of(before[7], "eviction"))).code == 201
        gone, new = await events.get(), await events.get()
    assert (gone["type"], new["type"]) == ("DELETED", "ADDED")
    assert gone["object"]["metadata"]["uid"] == before[7].metadata.uid
    successor = msgspec.convert(new["object"], LivePod)
    assert successor.metadata.uid != before[7].metadata.uid
    assert successor.metadata.owner_references == before[7].metadata.owner_references
    assert stale(before[7])
    assert not stale(successor)
    assert (successor.metadata.annotations or {})[OBSERVED_CONTAINERS] == "app, proxy"
    assert successor.status.phase == "Running"
    after = await everything(call, LIVE_PODS)
    assert {p.metadata.uid for p in before} ^ {p.metadata.uid for p in after} == {
        before[7].metadata.uid,
        successor.metadata.uid,
    }
    assert (await call("POST", path_of(before[7], "eviction"))).code == 404


async def test_a_resize_changes_spec_and_status_and_sends_an_event() -> None:
    call = calling()
    pod = (await everything(call, LIVE_PODS))[3]
    async with call.watching("/api/v1/pods?watch=true&resourceVersion=1000") as events:
        answer = await call.patch(
            path_of(pod, "resize"),
            ("add", "/spec/containers/1/resources/requests/cpu", "77m"),
            ("add", "/spec/containers/1/resources/limits/cpu", "154m"),
        )
        event = await events.get()
    assert answer.code == 200
    assert (event["type"], event["object"]) == ("MODIFIED", answer.json)
    resized = msgspec.convert(answer.json, LivePod)
    assert resized.metadata.generation == 2
    assert resized.metadata.uid == pod.metadata.uid
    assert resized_at(resized) is not None
    for container in (resized.spec.containers[1], (resized.status.container_statuses or ())[1]):
        assert container.resources is not None
        assert (container.resources.requests or {})["cpu"] == "77m"
        assert (container.resources.limits or {})["cpu"] == "154m"
    assert ((resized.status.container_statuses or ())[1].allocated_resources or {})["cpu"] == "77m"
    assert resized.spec.containers[0] == pod.spec.containers[0]


async def test_a_patch_of_annotations_is_stored() -> None:
    call = calling()
    pod = (await everything(call, LIVE_PODS))[0]
    await call.patch(path_of(pod), ("add", "/metadata/annotations/vpaInPlaceUpdated", "true"))
    await call.patch(path_of(pod), ("remove", "/metadata/annotations/vpaUpdates", None))
    found = (await call("GET", path_of(pod))).json["metadata"]["annotations"]
    assert found == {OBSERVED_CONTAINERS: "app, proxy", "vpaInPlaceUpdated": "true"}


async def test_a_written_status_is_used_for_new_pods() -> None:
    call = calling()
    target = {"cpu": "333m", "memory": "1000"}
    advice = [{"containerName": name, "target": target} for name in ("app", "proxy")]
    vpa = endpoints.VPAS.object("app-00002", "team-001")
    path = "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers?watch=true&resourceVersion=1000"
    async with call.watching(path) as events:
        answer = await call.patch(
            f"{vpa}/status",
            ("add", "/metadata/resourceVersion", "1"),
            ("add", "/status", {"recommendation": {"containerRecommendations": advice}}),
        )
        event = await events.get()
    assert (event["type"], event["object"]) == ("MODIFIED", answer.json)
    assert (await call("GET", vpa)).json == answer.json
    pods = [pod for pod in await everything(call, LIVE_PODS) if "app-00002" in pod.metadata.name]
    await call("POST", path_of(pods[0], "eviction"))
    async with call.watching("/api/v1/pods?watch=true&resourceVersion=1000") as events:
        await events.get()
        new = await events.get()
    requests = new["object"]["spec"]["containers"][0]["resources"]["requests"]
    assert requests == target


@pytest.mark.parametrize(
    ("path", "operations", "code"),
    [
        ("resize", [("add", "/spec/nodeName", "x")], 422),
        ("resize", [("remove", "/spec/containers/0/resources/limits/cpu", None)], 422),
        ("", [("add", "/spec/containers/0/resources/requests/cpu", "1")], 422),
        ("status", [("add", "/status/phase", "Failed")], 405),
    ],
    ids=[
        "another field",
        "a removal",
        "resources without the subresource",
        "a subresource that no component writes",
    ],
)
async def test_unsupported_writes_are_refused(
    path: str, operations: list[tuple[str, str, Any]], code: int
) -> None:
    call = calling()
    pod = (await everything(call, LIVE_PODS))[0]
    assert (await call.patch(path_of(pod, path), *operations)).code == code


async def test_right_sized_pods_have_their_targets() -> None:
    call = calling(Settings(vpas=60, pods_per_vpa=4, right_sized=True))
    vpas = {vpa.metadata.name: vpa for vpa in await everything(call, endpoints.VPAS)}
    for pod in await everything(call, LIVE_PODS):
        status = vpas[(pod.metadata.labels or {})["app"]].status
        assert status.recommendation is not None
        advice = status.recommendation.container_recommendations or ()
        for container, one in zip(pod.spec.containers, advice, strict=True):
            assert container.resources is not None
            assert container.resources.requests == one.target


# Watches


async def test_a_watch_sends_events_since_its_version() -> None:
    call = calling()
    pods = await everything(call, LIVE_PODS)
    for pod in pods[:3]:
        await call("POST", path_of(pod, "eviction"))
    async with call.watching("/api/v1/pods?watch=true&resourceVersion=1002") as events:
        seen = [await events.get() for _ in range(4)]
        await call("POST", path_of(pods[9], "eviction"))
        seen += [await events.get() for _ in range(2)]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
    assert versions == [1003, 1004, 1005, 1006, 1007, 1008]
    assert [event["type"] for event in seen] == ["DELETED", "ADDED"] * 3


async def test_a_watch_of_a_dropped_version_gets_an_error() -> None:
    changes: Changes[int] = Changes(kept=3)
    for version in range(1, 6):
        changes.add("ADDED", version, version)
    assert [change.version for change in changes.read(changes.after(2), 10)] == [3, 4, 5]
    with pytest.raises(TooOldError):
        changes.after(1)
    with pytest.raises(TooOldError):
        changes.read(1, 10)


# Leases and checkpoints


async def test_leases_are_stored_and_outdated_versions_are_refused() -> None:
    call = calling()
    at = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    assert (await call("GET", f"{at}/x")).code == 404
    created = await call("POST", at, {"metadata": {"name": "x"}, "spec": {"holderIdentity": "a"}})
    assert created.code == 201
    assert (await call("POST", at, {"metadata": {"name": "x"}})).code == 409
    mine = {**created.json, "spec": {"holderIdentity": "b"}}
    assert (await call("PUT", f"{at}/x", mine)).code == 200
    assert (await call("PUT", f"{at}/x", mine)).code == 409
    assert (await call("GET", f"{at}/x")).json["spec"] == {"holderIdentity": "b"}


async def test_checkpoints_can_be_created_patched_and_deleted() -> None:
    call = calling()
    name = "app-00003-proxy"
    one = endpoints.CHECKPOINTS.object(name, "team-002")
    assert (await call.patch(one, ("add", "/status", {}))).code == 404
    body = {"metadata": {"name": name}}
    assert (await call("POST", endpoints.CHECKPOINTS.collection("team-002"), body)).code == 201
    assert (await call.patch(one, ("add", "/status", {}))).code == 200
    listed = await everything(call, endpoints.CHECKPOINTS)
    assert [each.metadata.name for each in listed] == [name]
    assert (await call("DELETE", one)).code == 200
    assert not await everything(call, endpoints.CHECKPOINTS)


# The report


async def test_the_report_counts_by_verb_resource_and_code_until_it_is_reset() -> None:
    call = calling()
    pods = await everything(call, LIVE_PODS)
    for pod in (*pods[:5], pods[0]):
        await call("POST", path_of(pod, "eviction"))
    await call("POST", "/api/v1/namespaces/team-000/events", {"metadata": {"name": "x"}})
    summary = await report(call)
    counts = {(c["verb"], c["resource"], c["code"]): c["count"] for c in summary["calls"]}
    assert counts == {
        ("list", "pods", 200): 1,
        ("create", "pods/eviction", 201): 5,
        ("create", "pods/eviction", 404): 1,
        ("create", "events", 201): 1,
    }
    assert summary["answeredBytes"] > 240 * 5000
    await call("DELETE", "/load/report")
    assert (await report(call))["calls"] == []


async def test_the_report_has_the_number_of_concurrent_writes_of_one_group() -> None:
    settings = Settings(
        vpas=60, pods_per_vpa=4, group_size=2, answer_delay=timedelta(milliseconds=20)
    )
    call = calling(settings)
    pods = await everything(call, LIVE_PODS)
    one_of_each = pods[::2][:10]
    await asyncio.gather(*(call("POST", path_of(pod, "eviction")) for pod in one_of_each))
    assert (await report(call))["concurrentWrites"] == {"peak": 10, "peakOfOneGroup": 1}
    await asyncio.gather(*(call("POST", path_of(pod, "eviction")) for pod in pods[40:42]))
    summary = await report(call)
    assert summary["concurrentWrites"] == {"peak": 10, "peakOfOneGroup": 2}
    took = next(c["milliseconds"] for c in summary["calls"] if c["resource"] == "pods/eviction")
    assert took["p50"] >= 20

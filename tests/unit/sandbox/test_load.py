"""The load mode serves the objects that our components read, in realistic sizes."""

from typing import Any

import msgspec
import pytest

import asgi
from common.kube import endpoints
from common.kube.endpoints import Endpoint
from common.quantity import parse_value
from load_caller import calling, everything
from sandbox.load.layout import Layout
from sandbox.load.settings import Settings
from updater.snapshot.caches import LIVE_PODS


@pytest.mark.parametrize(
    ("endpoint", "count"),
    [
        (LIVE_PODS, 240),
        (endpoints.VPAS, 60),
        (endpoints.DEPLOYMENTS, 60),
        (endpoints.REPLICA_SETS, 120),
        (endpoints.CHECKPOINTS, 120),
        (endpoints.POD_METRICS, 240),
        (endpoints.NODES, 8),
        (endpoints.LIMIT_RANGES, 0),
        (endpoints.STATEFUL_SETS, 0),
        (endpoints.DAEMON_SETS, 0),
        (endpoints.JOBS, 0),
        (endpoints.CRON_JOBS, 0),
        (endpoints.REPLICATION_CONTROLLERS, 0),
        (endpoints.EVENTS, 0),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
async def test_listed_objects_decode_as_the_types_of_the_components(
    endpoint: Endpoint[Any], count: int
) -> None:
    call = calling(Settings(vpas=60, pods_per_vpa=4, group_size=2, checkpoints=True))
    items = await everything(call, endpoint, limit=100)
    assert len(items) == count
    if endpoint.type is not dict:
        names = [
            (item["metadata"]["name"],)
            if isinstance(item, dict)
            else (item.metadata.namespace, item.metadata.name)
            for item in items
        ]
        assert names == sorted(set(names)), "in a real server's order, and each one once"


async def test_a_pod_has_the_size_and_fields_of_a_real_one() -> None:
    call = calling()
    listed = await call("GET", "/api/v1/pods?limit=1")
    pod = listed.json["items"][0]
    assert len(msgspec.json.encode(pod)) >= 5000
    assert len(pod["metadata"]["managedFields"]) == 3
    assert len(pod["spec"]["containers"]) == 2
    assert all(container["env"] for container in pod["spec"]["containers"])
    assert pod["spec"]["volumes"]
    assert {each["type"] for each in pod["status"]["conditions"]} >= {"Ready", "PodScheduled"}
    assert (await call("GET", "/load/report")).json["world"]["podBytes"] >= 5000


async def test_pages_have_the_limit_and_the_version_of_the_first_page() -> None:
    call = calling()
    first = (await call("GET", "/api/v1/pods?limit=100")).json
    pod = first["items"][0]["metadata"]
    await call("POST", f"/api/v1/namespaces/{pod['namespace']}/pods/{pod['name']}/eviction")
    second = await call("GET", f"/api/v1/pods?limit=100&continue={first['metadata']['continue']}")
    assert len(first["items"]) == len(second.json["items"]) == 100
    assert first["metadata"]["remainingItemCount"] == 140
    version = first["metadata"]["resourceVersion"]
    assert second.json["metadata"]["resourceVersion"] == version, "a watch from here misses nothing"


async def test_a_namespace_lists_its_own_objects() -> None:
    call = calling()
    counts = []
    for number in range(50):
        page = (await call("GET", f"/api/v1/namespaces/team-{number:03}/pods")).json
        assert {item["metadata"]["namespace"] for item in page["items"]} == {f"team-{number:03}"}
        counts.append(len(page["items"]))
    assert sum(counts) == 240
    assert not (await call("GET", "/api/v1/namespaces/team-050/pods")).json["items"]


async def test_only_metadata_is_served_on_request() -> None:
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    listed = (await calling()("GET", "/apis/apps/v1/replicasets", accept=accept)).json
    assert listed["kind"] == "PartialObjectMetadataList"
    assert len(listed["items"]) == 120
    assert all(set(item) == {"kind", "apiVersion", "metadata"} for item in listed["items"])
    assert listed["items"][0]["metadata"]["ownerReferences"]


@pytest.mark.parametrize(
    ("path", "accept_encoding", "packed"),
    [
        ("/api/v1/pods?limit=100", "gzip, deflate", True),
        ("/api/v1/pods?limit=100", "", False),
        ("/api/v1/pods?limit=2", "gzip, deflate", False),
        ("/api/v1/pods", "gzip", True),
    ],
    ids=["large and accepted", "large and not accepted", "small", "without a limit"],
)
async def test_large_answers_are_compressed_for_clients_that_accept_it(
    path: str, accept_encoding: str, *, packed: bool
) -> None:
    call = calling(Settings(vpas=300, pods_per_vpa=2))
    scope = asgi.scope_of("GET", path, {"accept-encoding": accept_encoding})
    heard = await asgi.call(call.api, scope, asgi.pieces(b""))
    assert (("content-encoding", "gzip") in heard.headers) is packed
    assert (await call("GET", path, accept_encoding=accept_encoding)).json["items"]


async def test_unsupported_selectors_are_refused() -> None:
    call = calling()
    assert (await call("GET", "/api/v1/pods?labelSelector=app%3Dx")).code == 400
    assert (await call("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dx")).code == 400
    assert (await call("GET", "/api/v1/pods?fieldSelector=status.phase%21%3DPending")).code == 200


# Metrics


async def test_usage_changes_with_each_list_and_grows_for_two_percent_of_the_vpas() -> None:
    call = calling(Settings(vpas=100, pods_per_vpa=1))
    peaks: dict[str, int] = {}
    grown: list[int] = []
    last: dict[str, Any] = {}
    for generation in range(60):
        metrics = await everything(call, endpoints.POD_METRICS)
        used = {one.metadata.name: one.containers for one in metrics}
        assert all(used[name] != last.get(name) for name in used)
        last = used
        higher = 0
        for name, (container, _) in used.items():
            memory = parse_value(container.usage["memory"])
            higher += memory > peaks.get(name, 0) * 1.05
            peaks[name] = max(memory, peaks.get(name, 0))
        if generation:
            grown.append(higher)
    assert set(grown) == {2}


# Names


def test_names_can_be_parsed() -> None:
    layout = Layout(vpas=15_000, pods_per_vpa=10, group_size=2)
    for slot in range(0, layout.pods, 37):
        for incarnation in (0, 1, 1000):
            assert layout.pod(layout.pod_name(slot, incarnation)) == (slot, incarnation)
    assert sum(len(layout.vpas_in(f"team-{number:03}")) for number in range(50)) == 15_000
    for name in ("", "app", "app-00000", "app-99999-7d9c5b0000-bbbbb", "app-0-7d9c5b0000-bbbbb"):
        assert layout.pod(name) is None

"""Scripted faults, the sandbox's clock and restarts of its API server, as clients meet them."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from common.errors import (
    ConflictError,
    GoneError,
    KubeError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnreachableError,
)
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import NODES, POD_METRICS, PODS
from sandbox import virtual_time
from sandbox.apiserver.faults import ApiFault
from sandbox.cluster import Cluster
from sandbox.description import Section
from sandbox_client import api_server, pod
from virtual_cluster import in_cluster

SCENARIO = "namespaces: [shop]"
GOLDEN = "/api/v1/namespaces/golden/pods"


def rule(**raw: Any) -> ApiFault:
    return ApiFault.parse(Section({name.replace("_", "-"): raw[name] for name in raw}, "rule"))


# Refusals


async def test_an_overloaded_server_answers_in_plain_text() -> None:
    async with api_server() as api:
        api.server.faults.add(rule(match={"resource": "pods"}, refuse=429, retry_after=7))
        answer = await api("GET", GOLDEN)
        assert (answer.status, answer.body) == (
            429,
            b"Too many requests, please try again later.\n",
        )
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.headers["retry-after"] == "7"
        assert "x-kubernetes-pf-flowschema-uid" in answer.headers
        assert "x-kubernetes-pf-prioritylevel-uid" in answer.headers
        (entry,) = api.server.audit.find({"resource": "pods"})
        assert (entry.verb, entry.code) == ("list", 429)


@pytest.mark.parametrize(
    ("code", "reason", "message"),
    [
        (401, "Unauthorized", "Unauthorized"),
        (403, "Forbidden", 'pods "web" is forbidden: gone wrong'),
        (
            409,
            "Conflict",
            'Operation cannot be fulfilled on pods "web": gone wrong',
        ),
        (422, "Invalid", 'pods "web" is invalid: gone wrong'),
        (500, "InternalError", "Internal error occurred: gone wrong"),
        (503, "ServiceUnavailable", "gone wrong"),
        (
            504,
            "Timeout",
            "Timeout: gone wrong - context deadline exceeded",
        ),
    ],
)
async def test_other_refusals_are_statuses(code: int, reason: str, message: str) -> None:
    async with api_server() as api:
        await api.make(GOLDEN, pod())
        told = {"refuse": code, "retry_after": 2, "message": "gone wrong"}
        api.server.faults.add(rule(match={"verb": "delete"}, **told))
        answer = await api("DELETE", f"{GOLDEN}/web")
        assert (answer.status, answer.json["reason"]) == (code, reason)
        assert answer.json["message"] == message
        assert answer.json["details"]["retryAfterSeconds"] == 2
        assert answer.headers["retry-after"] == "2"
        assert (await api("GET", f"{GOLDEN}/web")).status == 200


async def test_a_write_may_have_been_done_all_the_same() -> None:
    async with api_server() as api:
        api.server.faults.add(rule(match={"verb": "create"}, refuse=504, done=True, count=1))
        assert (await api("POST", GOLDEN, pod())).status == 504
        assert (await api("POST", GOLDEN, pod())).json["reason"] == "AlreadyExists"


# On the wire


def test_faults_of_a_scenario_reach_clients_with_their_class() -> None:
    scenario = """
    namespaces: [shop]
    api-faults:
      - {match: {user-agent: test/*, verb: delete, name: a}, refuse: 409}
      - {match: {user-agent: test/*, verb: delete, name: b}, refuse: 429, retry-after: 1}
      - {match: {user-agent: test/*, verb: delete, name: c}, refuse: 503}
      - {match: {user-agent: test/*, verb: delete, name: d}, drop: true}
    """

    async def test(_cluster: Cluster, client: KubeClient) -> None:
        for name, error in (
            ("a", ConflictError),
            ("b", TooManyRequestsError),
            ("c", ServerError),
            ("d", UnreachableError),
            ("e", NotFoundError),
        ):
            with pytest.raises(error):
                await client.delete(PODS, name, namespace="shop")

    in_cluster(test, scenario=scenario)


def test_faults_reach_aggregated_apis_too() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        match = {"user-agent": "test/*", "group": "metrics.k8s.io", "verb": "list"}
        cluster.api.faults.add(rule(match=match, refuse=503))
        with pytest.raises(ServerError):
            await client.list(POD_METRICS, namespace="shop")
        await client.list(PODS, namespace="shop")

    in_cluster(test, scenario=SCENARIO)


def test_a_delay_is_waited_for() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        cluster.api.faults.add(rule(match={"user-agent": "test/*"}, delay="3s", count=1))
        before = cluster.clock.now()
        await client.get(NODES, "node-0")
        assert timedelta(seconds=3) <= cluster.clock.now() - before < timedelta(seconds=4)

    in_cluster(test, scenario=SCENARIO)


def test_a_dropped_write_may_have_been_done() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        match = {"user-agent": "test/*", "verb": "create"}
        cluster.api.faults.add(rule(match=match, drop=True, done=True, count=1))
        with pytest.raises(UnreachableError):
            await client.create(PODS.as_dicts(), pod(), namespace="shop")
        assert (await client.get(PODS, "web", namespace="shop")).metadata.name == "web"

    in_cluster(test, scenario=SCENARIO)


# Watches


async def watched(cluster: Cluster, client: KubeClient, *, seconds: float) -> list[str]:
    """The names that a watch tells of, one pod created each second, until it ends."""
    version = (await client.list(PODS, namespace="shop")).resource_version
    names: list[str] = []

    async def watch() -> None:
        async for event in client.watch(PODS, namespace="shop", resource_version=version):
            moment = int((cluster.clock.now() - began) / timedelta(seconds=1))
            name = event.object.metadata.name if event.object else event.type
            names.append(f"{name}@{moment}")

    began = cluster.clock.now()
    async with asyncio.timeout(seconds):
        async with asyncio.TaskGroup() as group:
            task = group.create_task(watch())
            for name in "abc":
                await asyncio.sleep(1)
                if not task.done():
                    await client.create(PODS.as_dicts(), pod(name), namespace="shop")
    return names


@pytest.mark.parametrize(
    ("effect", "want"),
    [
        ({"watch_end": "2500ms"}, ["a@1", "b@2"]),
        ({"watch_duplicates": True, "watch_end": "9s"}, ["a@1", "a@1", "b@2", "b@2"]),
        ({"watch_delay": "2500ms", "watch_end": "9s"}, ["a@3", "b@6", "c@6"]),
    ],
)
def test_a_watch_is(effect: dict[str, Any], want: list[str]) -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        cluster.api.faults.add(rule(match={"user-agent": "test/*", "verb": "watch"}, **effect))
        found = await watched(cluster, client, seconds=30)
        # The scheduler's and the kubelet's own writes follow each creation.
        first = [name for name in dict.fromkeys(found) if name in want]
        assert first == list(dict.fromkeys(want))
        if "watch_duplicates" in effect:
            assert found[:2] == ["a@1", "a@1"]

    in_cluster(test, scenario=SCENARIO)


def test_the_connection_of_a_watch_breaks() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        cluster.api.faults.add(rule(match={"user-agent": "test/*", "verb": "watch"}, watch_cut=2))
        with pytest.raises(ExceptionGroup) as caught:
            await watched(cluster, client, seconds=30)
        assert caught.group_contains(UnreachableError)

    in_cluster(test, scenario=SCENARIO)


# Restarts


def test_an_api_server_that_is_stopped_comes_back_with_its_data() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        await client.create(PODS.as_dicts(), pod(), namespace="shop")
        await cluster.stop_api_server()
        with pytest.raises(UnreachableError):
            await client.delete(PODS, "web", namespace="shop")
        await asyncio.sleep(5)
        await cluster.start_api_server()
        assert (await client.get(PODS, "web", namespace="shop")).metadata.name == "web"
        await asyncio.sleep(60)
        found = await client.get(PODS, "web", namespace="shop")
        assert found.status.phase == "Running"  # scheduler and kubelet found their way back

    in_cluster(test, scenario=SCENARIO)


def test_watches_of_a_restarted_server_begin_with_what_it_found() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        old = (await client.list(PODS, namespace="shop")).resource_version
        await client.create(PODS.as_dicts(), pod(), namespace="shop")
        await cluster.restart_api_server()
        with pytest.raises(GoneError):
            await anext(client.watch(PODS, namespace="shop", resource_version=old))
        now = (await client.list(PODS, namespace="shop")).resource_version
        events = client.watch(PODS, namespace="shop", resource_version=now)
        await client.delete(PODS, "web", namespace="shop")
        told = (await anext(events)).object
        assert told is not None
        assert told.metadata.name == "web"

    in_cluster(test, scenario=SCENARIO)


def test_a_compaction_loses_open_pages_and_a_restart_does_not() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        for name in "abc":
            await client.create(PODS.as_dicts(), pod(name), namespace="shop")
        path = "/api/v1/namespaces/shop/pods?limit=1"

        async def page(token: str = "") -> Any:
            where = f"{path}&continue={token}" if token else path
            return msgspec.json.decode(await client.request("GET", where))

        token = (await page())["metadata"]["continue"]
        await cluster.restart_api_server()
        token = (await page(token))["metadata"]["continue"]
        await client.create(PODS.as_dicts(), pod("d"), namespace="shop")
        await cluster.forget_history()
        with pytest.raises(GoneError):
            await page(token)

    in_cluster(test, scenario=SCENARIO)


# The clock


def test_a_jump_of_the_clock_shows_in_what_is_stamped() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        cluster.clock.jump(timedelta(hours=2))
        made = await client.create(PODS.as_dicts(), pod(), namespace="shop")
        expected = virtual_time.EPOCH + timedelta(hours=2)
        assert made["metadata"]["creationTimestamp"].startswith(expected.strftime("%Y-%m-%dT%H:"))

    in_cluster(test, scenario=SCENARIO)


# A server without resizes


def test_a_server_whose_gate_is_off_serves_no_resize() -> None:
    async def test(_cluster: Cluster, client: KubeClient) -> None:
        await client.create(PODS.as_dicts(), pod(), namespace="shop")
        with pytest.raises(KubeError) as caught:
            await client.patch(
                PODS.as_dicts(),
                "web",
                {"spec": {}},
                patch_type=PatchType.STRATEGIC,
                namespace="shop",
                subresource="resize",
            )
        assert caught.value.reason == "NotFound"
        assert str(caught.value) == "the server could not find the requested resource"
        served = msgspec.json.decode(await client.request("GET", "/api/v1"))
        names = [one["name"] for one in served["resources"]]
        assert "pods/eviction" in names
        assert "pods/resize" not in names

    in_cluster(test, scenario="{namespaces: [shop], serve-resize: false}")

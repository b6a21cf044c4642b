"""Scripted faults, clock jumps and restarts of the sandbox's API server, from its clients' view."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from common.errors import (
    ConflictError,
    GoneError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnreachableError,
)
from common.kube.client import KubeClient
from common.kube.endpoints import NODES, POD_METRICS, PODS
from sandbox import virtual_time
from sandbox.apiserver.faults import ApiFault, Calls, Effect, Refusal
from sandbox.cluster import Cluster
from sandbox_client import api_server, pod
from virtual_cluster import in_cluster

SCENARIO = "namespaces: [shop]"
GOLDEN = "/api/v1/namespaces/golden/pods"


def rule(
    match: dict[str, str], *, refuse: int | None = None, count: int | None = None, **effect: Any
) -> ApiFault:
    refusal = None if refuse is None else Refusal(refuse)
    return ApiFault(calls=Calls(**match), effect=Effect(refuse=refusal, **effect), count=count)


# Refusals


async def test_an_overloaded_server_responds_in_plain_text() -> None:
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
        api.server.faults.add(
            rule(match={"verb": "delete"}, refuse=code, retry_after=2, message="gone wrong")
        )
        answer = await api("DELETE", f"{GOLDEN}/web")
        assert (answer.status, answer.json["reason"]) == (code, reason)
        assert answer.json["message"] == message
        assert answer.json["details"]["retryAfterSeconds"] == 2
        assert answer.headers["retry-after"] == "2"
        assert (await api("GET", f"{GOLDEN}/web")).status == 200


async def test_a_refused_write_may_have_been_carried_out() -> None:
    async with api_server() as api:
        api.server.faults.add(rule(match={"verb": "create"}, refuse=504, done=True, count=1))
        assert (await api("POST", GOLDEN, pod())).status == 504
        assert (await api("POST", GOLDEN, pod())).json["reason"] == "AlreadyExists"


# On the wire


def test_clients_raise_the_class_of_a_fault() -> None:
    cases: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"refuse": 409}, ConflictError),
        ({"refuse": 429, "retry_after": 1}, TooManyRequestsError),
        ({"refuse": 503}, ServerError),
        ({"drop": True}, UnreachableError),
        ({}, NotFoundError),
    ]

    async def test(cluster: Cluster, client: KubeClient) -> None:
        for name, (effect, error) in zip("abcde", cases, strict=True):
            match = {"user_agent": "test/*", "verb": "delete", "name": name}
            cluster.api.faults.add(rule(match, **effect))
            with pytest.raises(error):
                await client.delete(PODS, name, namespace="shop")

    in_cluster(test, scenario=SCENARIO)


def test_faults_affect_aggregated_apis() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        match = {"user_agent": "test/*", "group": "metrics.k8s.io", "verb": "list"}
        cluster.api.faults.add(rule(match=match, refuse=503))
        with pytest.raises(ServerError):
            await client.list(POD_METRICS, namespace="shop")
        await client.list(PODS, namespace="shop")

    in_cluster(test, scenario=SCENARIO)


def test_a_delayed_response_arrives() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        cluster.api.faults.add(rule(match={"user_agent": "test/*"}, delay=3.0, count=1))
        before = cluster.clock.now()
        await client.get(NODES, "node-0")
        assert timedelta(seconds=3) <= cluster.clock.now() - before < timedelta(seconds=4)

    in_cluster(test, scenario=SCENARIO)


def test_a_dropped_write_may_have_been_carried_out() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        match = {"user_agent": "test/*", "verb": "create"}
        cluster.api.faults.add(rule(match=match, drop=True, done=True, count=1))
        with pytest.raises(UnreachableError):
            await client.create(PODS.as_dicts(), pod(), namespace="shop")
        assert (await client.get(PODS, "web", namespace="shop")).metadata.name == "web"

    in_cluster(test, scenario=SCENARIO)


# Watches


async def watch_names(cluster: Cluster, client: KubeClient, *, seconds: float) -> list[str]:
    """Create a pod each second; return the names from a watch, with their times, until it ends."""
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
        ({"watch_end": 2.5}, ["a@1", "b@2"]),
        ({"watch_duplicates": True, "watch_end": 9.0}, ["a@1", "a@1", "b@2", "b@2"]),
        ({"watch_delay": 2.5, "watch_end": 9.0}, ["a@3", "b@6", "c@6"]),
    ],
)
def test_a_watch_with_a_fault(effect: dict[str, Any], want: list[str]) -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        cluster.api.faults.add(rule(match={"user_agent": "test/*", "verb": "watch"}, **effect))
        found = await watch_names(cluster, client, seconds=30)
        # The scheduler's and the kubelet's own writes follow each creation.
        first = [name for name in dict.fromkeys(found) if name in want]
        assert first == list(dict.fromkeys(want))
        if "watch_duplicates" in effect:
            assert found[:2] == ["a@1", "a@1"]

    in_cluster(test, scenario=SCENARIO)


def test_the_connection_of_a_watch_breaks() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        cluster.api.faults.add(rule(match={"user_agent": "test/*", "verb": "watch"}, watch_cut=2))
        with pytest.raises(ExceptionGroup) as caught:
            await watch_names(cluster, client, seconds=30)
        assert caught.group_contains(UnreachableError)

    in_cluster(test, scenario=SCENARIO)


# Restarts


def test_a_restarted_api_server_has_its_data() -> None:
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
        assert found.status.phase == "Running"  # scheduler and kubelet continue

    in_cluster(test, scenario=SCENARIO)


def test_watches_of_a_restarted_server_begin_with_existing_objects() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        old = (await client.list(PODS, namespace="shop")).resource_version
        await client.create(PODS.as_dicts(), pod(), namespace="shop")
        await cluster.restart_api_server()
        with pytest.raises(GoneError):
            await anext(client.watch(PODS, namespace="shop", resource_version=old))
        now = (await client.list(PODS, namespace="shop")).resource_version
        events = client.watch(PODS, namespace="shop", resource_version=now)
        await client.delete(PODS, "web", namespace="shop")
        pod_event = (await anext(events)).object
        assert pod_event is not None
        assert pod_event.metadata.name == "web"

    in_cluster(test, scenario=SCENARIO)


def test_a_compaction_expires_continue_tokens_and_a_restart_does_not() -> None:
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


def test_a_clock_jump_changes_timestamps() -> None:
    async def test(cluster: Cluster, client: KubeClient) -> None:
        cluster.clock.jump(timedelta(hours=2))
        made = await client.create(PODS.as_dicts(), pod(), namespace="shop")
        expected = virtual_time.EPOCH + timedelta(hours=2)
        assert made["metadata"]["creationTimestamp"].startswith(expected.strftime("%Y-%m-%dT%H:"))

    in_cluster(test, scenario=SCENARIO)

"""Events and logs of blocked in-place updates and of refused calls."""

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest

from common.kube.endpoints import EVENTS, PODS, Endpoint
from updater_sandbox import UpdaterSandbox, in_updater_sandbox

BUDGETS = Endpoint("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", dict[str, Any])
QUOTAS = Endpoint("", "v1", "resourcequotas", "ResourceQuota", dict[str, Any])
BLOCKED, UNBLOCKED = "InPlaceResizeBlocked", "InPlaceResizeUnblocked"


async def events(sandbox: UpdaterSandbox, reason: str) -> list[tuple[str, str]]:
    """Return kind of the object and message of Events, sorted, and repeated by their count."""
    listing = await sandbox.admin.list(EVENTS.as_dicts(), namespace="shop")
    return sorted(
        (event["involvedObject"]["kind"], event["message"])
        for event in listing.items
        if event["reason"] == reason
        for _ in range(event["count"])
    )


async def run_passes(sandbox: UpdaterSandbox, updater: Any, count: int) -> None:
    for _ in range(count):
        await updater.run_once()
        await sandbox.settle()


@pytest.mark.parametrize(("version", "first"), [("1.35", 2), ("1.36", 1)])
def test_x114_an_infeasible_resize_is_reported_when_it_is_decided(version: str, first: int) -> None:
    """Before 1.36 the kubelet reports it after the call, and the second pass decides."""

    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy(replicas=1)
        await sandbox.autoscale("InPlace", minReplicas=1)
        await sandbox.recommend("9")
        updater = sandbox.updater()
        await run_passes(sandbox, updater, first - 1)
        assert await events(sandbox, BLOCKED) == []
        await run_passes(sandbox, updater, 1)
        (pod,) = [pod.metadata.name for pod in (await sandbox.admin.list(PODS)).items]
        why = (
            "is blocked: the node can never hold what is wanted. [resize_infeasible] "
            "(VPA web; app cpu 500m -> 9)"
        )
        reported = [
            ("Pod", f"In-place update {why}"),
            ("VerticalPodAutoscaler", f"In-place update of Pod {pod} {why}"),
        ]
        assert await events(sandbox, BLOCKED) == reported
        assert len(await events(sandbox, "InPlaceResizeSkipped")) == 1
        await run_passes(sandbox, updater, 3)
        assert await events(sandbox, BLOCKED) == reported
        assert len(await events(sandbox, "InPlaceResizeSkipped")) == 1
        await sandbox.recommend("600m")
        await run_passes(sandbox, updater, 3)
        assert await sandbox.cpu() == ["600m"]
        assert [kind for kind, _ in await events(sandbox, UNBLOCKED)] == [
            kind for kind, _ in reported
        ]

    in_updater_sandbox(test, version=version)


def test_x114_an_infeasible_resize_is_reported_where_the_pod_is_evicted_instead() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy(replicas=2)
        await sandbox.autoscale("InPlaceOrRecreate")
        await sandbox.recommend("9")
        updater = sandbox.updater()
        await run_passes(sandbox, updater, 1)
        blocked, evicted = await events(sandbox, BLOCKED), await events(sandbox, "EvictedByVPA")
        assert len(blocked) >= 2 * len(evicted) > 0
        ((_, message), *_) = evicted
        assert message.endswith("[resize_infeasible] (VPA web; app cpu 500m -> 9)")

    in_updater_sandbox(test)


def test_x114_a_deferred_resize_and_its_end_are_reported_once() -> None:
    """Two nodes of two cores, three pods with a target of 1.9: two of them share a node."""

    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await sandbox.autoscale("InPlace")
        await sandbox.recommend("1900m")
        updater = sandbox.updater()
        await run_passes(sandbox, updater, 8)
        pods = {pod.metadata.name: pod for pod in (await sandbox.admin.list(PODS)).items}
        nodes = Counter(pod.spec.node_name for pod in pods.values())
        first, second = sorted(n for n, pod in pods.items() if nodes[pod.spec.node_name] == 2)
        why = (
            "is blocked: the node has no room now; it is tried again. [resize_deferred] "
            "(VPA web; app cpu 500m -> 1900m)"
        )
        reported = await events(sandbox, BLOCKED)
        assert reported == [
            ("Pod", f"In-place update {why}"),
            ("Pod", f"In-place update {why}"),
            ("VerticalPodAutoscaler", f"In-place update of Pod {first} {why}"),
            ("VerticalPodAutoscaler", f"In-place update of Pod {second} {why}"),
        ]
        assert await events(sandbox, UNBLOCKED) == []
        # One of the two is deleted, and its replacement has no room on either node.
        await sandbox.admin.delete(PODS, first, namespace="shop")
        await asyncio.sleep(300)
        await run_passes(sandbox, updater, 2)
        over = "is no longer blocked. [too_young] (VPA web; app cpu 500m -> 1900m)"
        assert await events(sandbox, UNBLOCKED) == [
            ("Pod", f"In-place update {over}"),
            ("VerticalPodAutoscaler", f"In-place update of Pod {second} {over}"),
        ]
        assert await events(sandbox, BLOCKED) == reported

    in_updater_sandbox(test)


def test_x114_a_refusal_by_a_quota_is_reported_until_the_resize_is_accepted() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy(replicas=1)
        body = {"metadata": {"name": "tight"}, "spec": {"hard": {"requests.cpu": "550m"}}}
        await sandbox.admin.create(QUOTAS, body, namespace="shop")
        await sandbox.settle()
        await sandbox.autoscale("InPlaceOrRecreate", minReplicas=1)
        await sandbox.recommend("600m")
        updater = sandbox.updater()
        await run_passes(sandbox, updater, 4)
        reported = await events(sandbox, BLOCKED)
        assert [kind for kind, _ in reported] == ["Pod", "VerticalPodAutoscaler"]
        assert "[resize_refused] (VPA web; app cpu 500m -> 600m)" in reported[0][1]
        await sandbox.admin.delete(QUOTAS, "tight", namespace="shop")
        await asyncio.sleep(2400)
        await run_passes(sandbox, updater, 2)
        assert await sandbox.cpu() == ["600m"]
        assert len(await events(sandbox, UNBLOCKED)) == 2
        (resized,) = await sandbox.messages("InPlaceResizedByVPA")
        assert resized.endswith("[outside_range] (VPA web; app cpu 500m -> 600m)")

    in_updater_sandbox(test)


def test_x114_a_refused_eviction_is_logged_when_it_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def lines() -> list[dict[str, Any]]:
        return [vars(line) for line in caplog.records if line.message == "eviction refused"]

    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy(replicas=1)
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        body = {"metadata": {"name": "web"}, "spec": spec}
        await sandbox.admin.create(BUDGETS, body, namespace="shop")
        await sandbox.settle()
        await sandbox.autoscale("Recreate", minReplicas=1)
        await sandbox.recommend("100m")
        updater = sandbox.updater()
        with caplog.at_level(logging.INFO):
            await run_passes(sandbox, updater, 4)
            assert sandbox.calls("eviction") == [429] * 4
            (line,) = lines()
            assert (line["vpa"], line["changes"]) == ("shop/web", "app cpu 500m -> 100m")
            assert line["status"] == 429
            decided = [vars(line) for line in caplog.records if line.message == "pod decided"]
            (line,) = [line for line in decided if line["reason"] == "eviction_refused"]
            assert (line["vpa"], line["changes"]) == ("shop/web", "app cpu 500m -> 100m")
            # With a second budget for the same pod, evictions are refused for another reason.
            again = {"metadata": {"name": "again"}, "spec": spec}
            await sandbox.admin.create(BUDGETS, again, namespace="shop")
            await sandbox.settle()
            await run_passes(sandbox, updater, 2)
            assert [line["status"] for line in lines()] == [429, 500]

    in_updater_sandbox(test)

"""What the updater says about in-place updates that are blocked, and about refused calls."""

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


async def events(shop: UpdaterSandbox, reason: str) -> list[tuple[str, str]]:
    """Kind of the object, and message; sorted, each as often as it was sent."""
    listing = await shop.admin.list(EVENTS.as_dicts(), namespace="shop")
    return sorted(
        (event["involvedObject"]["kind"], event["message"])
        for event in listing.items
        if event["reason"] == reason
        for _ in range(event["count"])
    )


async def passes(shop: UpdaterSandbox, updater: Any, count: int) -> None:
    for _ in range(count):
        await updater.run_once()
        await shop.settle()


@pytest.mark.parametrize(("version", "first"), [("1.35", 2), ("1.36", 1)])
def test_x114_what_never_fits_is_reported_when_it_is_decided(version: str, first: int) -> None:
    """Before 1.36 the kubelet says so after the call, and with it the second pass decides."""

    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy(replicas=1)
        await shop.autoscale("InPlace", minReplicas=1)
        await shop.recommend("9")
        updater = shop.updater()
        await passes(shop, updater, first - 1)
        assert await events(shop, BLOCKED) == []
        await passes(shop, updater, 1)
        (pod,) = [pod.metadata.name for pod in (await shop.admin.list(PODS)).items]
        why = (
            "is blocked: the node can never hold what is wanted. [resize_infeasible] "
            "(VPA web; app cpu 500m -> 9)"
        )
        told = [
            ("Pod", f"In-place update {why}"),
            ("VerticalPodAutoscaler", f"In-place update of Pod {pod} {why}"),
        ]
        assert await events(shop, BLOCKED) == told
        assert len(await events(shop, "InPlaceResizeSkipped")) == 1
        await passes(shop, updater, 3)
        assert await events(shop, BLOCKED) == told
        assert len(await events(shop, "InPlaceResizeSkipped")) == 1
        await shop.recommend("600m")
        await passes(shop, updater, 3)
        assert await shop.cpu() == ["600m"]
        assert [kind for kind, _ in await events(shop, UNBLOCKED)] == [kind for kind, _ in told]

    in_updater_sandbox(test, version=version)


def test_x114_an_infeasible_resize_is_reported_where_the_pod_is_evicted_instead() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy(replicas=2)
        await shop.autoscale("InPlaceOrRecreate")
        await shop.recommend("9")
        updater = shop.updater()
        await passes(shop, updater, 1)
        blocked, evicted = await events(shop, BLOCKED), await events(shop, "EvictedByVPA")
        assert len(blocked) >= 2 * len(evicted) > 0
        ((_, message), *_) = evicted
        assert message.endswith("[resize_infeasible] (VPA web; app cpu 500m -> 9)")

    in_updater_sandbox(test)


def test_x114_a_deferred_resize_is_reported_once_and_again_when_it_is_over() -> None:
    """Two nodes of two cores, three pods that would like 1.9 each: two of them share a node."""

    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale("InPlace")
        await shop.recommend("1900m")
        updater = shop.updater()
        await passes(shop, updater, 8)
        pods = {pod.metadata.name: pod for pod in (await shop.admin.list(PODS)).items}
        nodes = Counter(pod.spec.node_name for pod in pods.values())
        first, second = sorted(n for n, pod in pods.items() if nodes[pod.spec.node_name] == 2)
        why = (
            "is blocked: the node has no room now; the kubelet tries again. [resize_deferred] "
            "(VPA web; app cpu 500m -> 1900m)"
        )
        told = await events(shop, BLOCKED)
        assert told == [
            ("Pod", f"In-place update {why}"),
            ("Pod", f"In-place update {why}"),
            ("VerticalPodAutoscaler", f"In-place update of Pod {first} {why}"),
            ("VerticalPodAutoscaler", f"In-place update of Pod {second} {why}"),
        ]
        assert await events(shop, UNBLOCKED) == []
        # One of the two goes, and the pod that follows finds no room on either node.
        await shop.admin.delete(PODS, first, namespace="shop")
        await asyncio.sleep(300)
        await passes(shop, updater, 2)
        over = "is no longer blocked. [too_young] (VPA web; app cpu 500m -> 1900m)"
        assert await events(shop, UNBLOCKED) == [
            ("Pod", f"In-place update {over}"),
            ("VerticalPodAutoscaler", f"In-place update of Pod {second} {over}"),
        ]
        assert await events(shop, BLOCKED) == told

    in_updater_sandbox(test)


def test_x114_what_a_quota_refuses_is_reported_until_it_is_accepted() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy(replicas=1)
        body = {"metadata": {"name": "tight"}, "spec": {"hard": {"requests.cpu": "550m"}}}
        await shop.admin.create(QUOTAS, body, namespace="shop")
        await shop.settle()
        await shop.autoscale("InPlaceOrRecreate", minReplicas=1)
        await shop.recommend("600m")
        updater = shop.updater()
        await passes(shop, updater, 4)
        told = await events(shop, BLOCKED)
        assert [kind for kind, _ in told] == ["Pod", "VerticalPodAutoscaler"]
        assert "[resize_refused] (VPA web; app cpu 500m -> 600m)" in told[0][1]
        await shop.admin.delete(QUOTAS, "tight", namespace="shop")
        await asyncio.sleep(2400)
        await passes(shop, updater, 2)
        assert await shop.cpu() == ["600m"]
        assert len(await events(shop, UNBLOCKED)) == 2
        (resized,) = await shop.told("InPlaceResizedByVPA")
        assert resized.endswith("[outside_range] (VPA web; app cpu 500m -> 600m)")

    in_updater_sandbox(test)


def test_x114_a_refused_eviction_is_logged_when_it_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def lines() -> list[dict[str, Any]]:
        return [vars(line) for line in caplog.records if line.message == "eviction refused"]

    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy(replicas=1)
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        body = {"metadata": {"name": "web"}, "spec": spec}
        await shop.admin.create(BUDGETS, body, namespace="shop")
        await shop.settle()
        await shop.autoscale("Recreate", minReplicas=1)
        await shop.recommend("100m")
        updater = shop.updater()
        with caplog.at_level(logging.INFO):
            await passes(shop, updater, 4)
            assert shop.calls("eviction") == [429] * 4
            (line,) = lines()
            assert (line["vpa"], line["changes"]) == ("shop/web", "app cpu 500m -> 100m")
            assert line["status"] == 429
            decided = [vars(line) for line in caplog.records if line.message == "pod decided"]
            (line,) = [line for line in decided if line["reason"] == "eviction_refused"]
            assert (line["vpa"], line["changes"]) == ("shop/web", "app cpu 500m -> 100m")
            # A second budget for the same pod, and evictions are refused for another reason.
            again = {"metadata": {"name": "again"}, "spec": spec}
            await shop.admin.create(BUDGETS, again, namespace="shop")
            await shop.settle()
            await passes(shop, updater, 2)
            assert [line["status"] for line in lines()] == [429, 500]

    in_updater_sandbox(test)

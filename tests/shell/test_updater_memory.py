"""What the updater remembers, what a restart makes it forget, and what each version allows."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from common.kube.client import PatchType
from common.kube.endpoints import DEPLOYMENTS, PODS, VPAS
from updater.evaluate.update_order import Thresholds
from updater_sandbox import UpdaterSandbox, in_updater_sandbox

MINUTE = timedelta(minutes=1)


async def recommend_around(shop: UpdaterSandbox, cpu: str) -> None:
    """Recommend this, in a range so wide that nobody leaves it."""
    container = {
        "containerName": "app",
        "target": {"cpu": cpu, "memory": "256Mi"},
        "lowerBound": {"cpu": "10m", "memory": "16Mi"},
        "upperBound": {"cpu": "2", "memory": "2Gi"},
    }
    await shop.admin.patch(
        VPAS.as_dicts(),
        "web",
        {"status": {"recommendation": {"containerRecommendations": [container]}}},
        patch_type=PatchType.MERGE,
        namespace="shop",
        subresource="status",
    )
    await shop.settle()


async def passes(shop: UpdaterSandbox, count: int, *, restarting: bool = False) -> None:
    """So many passes, a minute apart; each by a new process, or all by the same."""
    updater = shop.updater()
    for _ in range(count):
        await updater.run_once()
        await asyncio.sleep(60)
        if restarting:
            updater = shop.updater()


def test_that_mode_auto_is_deprecated_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.autoscale("Auto")
        await shop.settle()
        await passes(shop, 3)

    in_updater_sandbox(test)
    assert sum("mode Auto is deprecated" in message for message in caplog.messages) == 1


# Versions before 1.36 take what never fits, and the kubelet says so; later ones refuse it.
@pytest.mark.parametrize("version", ["1.33", "1.34", "1.35", "1.36"])
def test_a_restart_costs_one_attempt_for_each_pod_at_most(version: str) -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale("InPlace")
        await shop.recommend("9")
        await passes(shop, 6)
        tried = len(shop.calls("resize"))
        assert tried == 3  # one for each pod
        for restart in (1, 2):
            await passes(shop, 6)
            assert len(shop.calls("resize")) - tried <= 3 * restart
        assert len(shop.calls("resize")) - tried == (6 if version == "1.36" else 0)
        await shop.recommend("600m")
        await passes(shop, 4)
        assert await shop.cpu() == ["600m"] * 3
        assert shop.calls("eviction") == []

    in_updater_sandbox(test, version=version)


def test_a_resize_starts_the_twelve_hours_anew_across_a_restart_too() -> None:
    """Twenty minutes stand for the twelve hours."""

    async def test(shop: UpdaterSandbox) -> None:
        shop.rules = replace(shop.rules, thresholds=Thresholds(min_lifetime=20 * MINUTE))
        await shop.deploy()
        await shop.autoscale("InPlaceOrRecreate")
        await recommend_around(shop, "600m")
        await passes(shop, 4)
        assert shop.calls("resize") == []  # too young
        await asyncio.sleep(16 * 60)
        await passes(shop, 4, restarting=True)
        assert shop.calls("resize") == [200] * 3

        await recommend_around(shop, "800m")
        await passes(shop, 15, restarting=True)
        assert shop.calls("resize") == [200] * 3  # young again, though the pods are not
        await asyncio.sleep(5 * 60)
        await passes(shop, 4)
        assert await shop.cpu() == ["800m"] * 3
        assert shop.calls("eviction") == []

    in_updater_sandbox(test)


async def deploy_with_limits(shop: UpdaterSandbox) -> None:
    """Three pods of 256Mi with limits of 512Mi."""
    resources = {
        "requests": {"cpu": "500m", "memory": "256Mi"},
        "limits": {"cpu": "1", "memory": "512Mi"},
    }
    container = {"name": "app", "image": "shop:1", "resources": resources}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    body = {"metadata": {"name": "web"}, "spec": spec}
    await shop.admin.create(DEPLOYMENTS.as_dicts(), body, namespace="shop")
    await shop.settle()


async def memory_limits(shop: UpdaterSandbox) -> list[Any]:
    listing = await shop.admin.list(PODS, namespace="shop")
    resources = [pod.spec.containers[0].resources for pod in listing.items]
    return [(each.limits or {})["memory"] for each in resources if each is not None]


@pytest.mark.parametrize("version", ["1.34", "1.35", "1.36"])
@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate"])
def test_memory_limits_shrink_in_place(mode: str, version: str) -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await deploy_with_limits(shop)
        await shop.autoscale(mode)
        await shop.recommend("500m", "128Mi")
        await passes(shop, 4)
        assert await memory_limits(shop) == ["256Mi"] * 3
        assert shop.calls("resize") == [200] * 3
        assert shop.calls("eviction") == []

    in_updater_sandbox(test, version=version)


def test_kubernetes_1_33_refuses_that_and_mode_in_place_waits() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await deploy_with_limits(shop)
        await shop.autoscale("InPlace")
        await shop.recommend("500m", "128Mi")
        await passes(shop, 30)
        calls = shop.calls("resize")
        assert set(calls) == {422}
        assert len(calls) <= 3 * 5  # ever more rarely
        assert await memory_limits(shop) == ["512Mi"] * 3
        assert shop.calls("eviction") == []

    in_updater_sandbox(test, version="1.33")


def test_kubernetes_1_33_refuses_that_and_the_pod_is_replaced_where_that_is_allowed() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await deploy_with_limits(shop)
        await shop.autoscale("InPlaceOrRecreate")
        await shop.recommend("500m", "128Mi")
        await passes(shop, 1)
        assert 422 in shop.calls("resize")
        assert shop.calls("eviction") == [201]
        (message,) = await shop.told("EvictedByVPA")
        assert "[resize_refused] (VPA web" in message

    in_updater_sandbox(test, version="1.33")

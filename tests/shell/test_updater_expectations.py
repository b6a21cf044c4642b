"""Section 16 of updater.md, end to end, as far as ``test_updater_cycle.py`` does not hold it."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from common.kube.client import PatchType
from common.kube.endpoints import DEPLOYMENTS, Endpoint
from updater.eviction.disruption import DisruptionPolicy
from updater_sandbox import UpdaterSandbox, in_updater_sandbox

BUDGETS = Endpoint("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", dict[str, Any])


async def shrink(shop: UpdaterSandbox, replicas: int, cpu: str) -> None:
    """Make the Deployment one of so many pods of that size."""
    containers = [{"name": "app", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]
    spec = {"replicas": replicas, "template": {"spec": {"containers": containers}}}
    await shop.admin.patch(
        DEPLOYMENTS.as_dicts(),
        "web",
        {"spec": spec},
        patch_type=PatchType.STRATEGIC,
        namespace="shop",
    )
    await shop.settle()
    await shop.settle()


def test_a_budget_that_lets_seven_of_ten_go_lets_seven_go() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        tolerant = DisruptionPolicy(tolerance_fraction=1.0)
        shop.rules = replace(shop.rules, disruption=tolerant, checks_outcomes=False)
        await shop.deploy()
        await shrink(shop, 10, "100m")
        spec = {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}}
        body = {"metadata": {"name": "web"}, "spec": spec}
        await shop.admin.create(BUDGETS, body, namespace="shop")
        await shop.settle()
        await shop.autoscale("Recreate")
        await shop.recommend("50m", "64Mi")
        await shop.updater().run_once()
        assert sorted(shop.calls("eviction")) == [201] * 7 + [429] * 3

    in_updater_sandbox(test)


@pytest.mark.parametrize("version", ["1.33", "1.34", "1.35", "1.36"])
def test_what_no_node_has_is_no_reason_to_keep_a_pod(version: str) -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy()
        await shop.autoscale("InPlaceOrRecreate")
        await shop.recommend("999")
        updater = shop.updater()
        for _ in range(4):
            await updater.run_once()
            await shop.settle()
        assert 201 in shop.calls("eviction")
        told = await shop.told("EvictedByVPA")
        assert all("[resize_infeasible] (VPA web" in message for message in told)

    in_updater_sandbox(test, version=version)


@pytest.mark.parametrize("version", ["1.33", "1.34", "1.35", "1.36"])
def test_what_a_whole_node_has_is_waited_for_and_then_the_pod_goes(version: str) -> None:
    """Where other pods are on the node, too: it would fit, and not now."""

    async def test(shop: UpdaterSandbox) -> None:
        await shop.deploy(replicas=4)
        await shop.autoscale("InPlaceOrRecreate")
        await shop.recommend("2")
        updater = shop.updater()
        for _ in range(5):
            await updater.run_once()
            await asyncio.sleep(60)
        assert 200 in shop.calls("resize")
        assert shop.calls("eviction") == []
        for _ in range(3):
            await updater.run_once()
            await asyncio.sleep(60)
        assert 201 in shop.calls("eviction")
        told = await shop.told("EvictedByVPA")
        assert "[resize_deferred_too_long] (VPA web" in told[0]

    in_updater_sandbox(test, version=version)

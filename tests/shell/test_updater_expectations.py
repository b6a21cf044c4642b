"""Section 16 of updater.md, beyond ``test_updater_cycle.py``."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from common.kube.client import PatchType
from common.kube.endpoints import DEPLOYMENTS, Endpoint
from updater.eviction.disruption_budget import DisruptionPolicy
from updater_sandbox import UpdaterSandbox, in_updater_sandbox

BUDGETS = Endpoint("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", dict[str, Any])


async def shrink(sandbox: UpdaterSandbox, replicas: int, cpu: str) -> None:
    """Change the replicas and the CPU requests of the Deployment."""
    containers = [{"name": "app", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]
    spec = {"replicas": replicas, "template": {"spec": {"containers": containers}}}
    await sandbox.admin.patch(
        DEPLOYMENTS.as_dicts(),
        "web",
        {"spec": spec},
        patch_type=PatchType.STRATEGIC,
        namespace="shop",
    )
    await sandbox.settle()
    await sandbox.settle()


def test_a_budget_that_allows_seven_disruptions_of_ten() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        tolerant = DisruptionPolicy(tolerance_fraction=1.0)
        sandbox.rules = replace(sandbox.rules, disruption=tolerant, checks_outcomes=False)
        await sandbox.deploy()
        await shrink(sandbox, 10, "100m")
        spec = {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}}
        body = {"metadata": {"name": "web"}, "spec": spec}
        await sandbox.admin.create(BUDGETS, body, namespace="shop")
        await sandbox.settle()
        await sandbox.autoscale("Recreate")
        await sandbox.recommend("50m", "64Mi")
        await sandbox.updater().run_once()
        assert sorted(sandbox.calls("eviction")) == [201] * 7 + [429] * 3

    in_updater_sandbox(test)


@pytest.mark.parametrize("version", ["1.33", "1.34", "1.35", "1.36"])
def test_a_target_beyond_every_node_does_not_prevent_an_eviction(version: str) -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await sandbox.autoscale("InPlaceOrRecreate")
        await sandbox.recommend("999")
        updater = sandbox.updater()
        for _ in range(4):
            await updater.run_once()
            await sandbox.settle()
        assert 201 in sandbox.calls("eviction")
        messages = await sandbox.messages("EvictedByVPA")
        assert all("[resize_infeasible] (VPA web" in message for message in messages)

    in_updater_sandbox(test, version=version)


@pytest.mark.parametrize("version", ["1.33", "1.34", "1.35", "1.36"])
def test_a_target_within_a_nodes_capacity_is_waited_for_before_the_eviction(version: str) -> None:
    """With other pods on the node, the target would fit, but not now."""

    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy(replicas=4)
        await sandbox.autoscale("InPlaceOrRecreate")
        await sandbox.recommend("2")
        updater = sandbox.updater()
        for _ in range(5):
            await updater.run_once()
            await asyncio.sleep(60)
        assert 200 in sandbox.calls("resize")
        assert sandbox.calls("eviction") == []
        for _ in range(3):
            await updater.run_once()
            await asyncio.sleep(60)
        assert 201 in sandbox.calls("eviction")
        messages = await sandbox.messages("EvictedByVPA")
        assert "[resize_deferred_too_long] (VPA web" in messages[0]

    in_updater_sandbox(test, version=version)

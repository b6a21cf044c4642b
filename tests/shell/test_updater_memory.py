"""The updater's state across passes and restarts, and the differences of versions."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from common.kube.client import PatchType
from common.kube.endpoints import DEPLOYMENTS, PODS, VPAS
from updater.evaluate.update_verdict import Thresholds
from updater_sandbox import UpdaterSandbox, in_updater_sandbox

MINUTE = timedelta(minutes=1)


async def recommend_within_range(sandbox: UpdaterSandbox, cpu: str) -> None:
    """Recommend this, in a range that contains all requests."""
    container = {
        "containerName": "app",
        "target": {"cpu": cpu, "memory": "256Mi"},
        "lowerBound": {"cpu": "10m", "memory": "16Mi"},
        "upperBound": {"cpu": "2", "memory": "2Gi"},
    }
    await sandbox.admin.patch(
        VPAS.as_dicts(),
        "web",
        {"status": {"recommendation": {"containerRecommendations": [container]}}},
        patch_type=PatchType.MERGE,
        namespace="shop",
        subresource="status",
    )
    await sandbox.settle()


async def run_passes(sandbox: UpdaterSandbox, count: int, *, restarting: bool = False) -> None:
    """Run passes, a minute apart, each in a new process or all in one."""
    updater = sandbox.updater()
    for _ in range(count):
        await updater.run_once()
        await asyncio.sleep(60)
        if restarting:
            updater = sandbox.updater()


def test_the_deprecation_of_mode_auto_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.autoscale("Auto")
        await sandbox.settle()
        await run_passes(sandbox, 3)

    in_updater_sandbox(test)
    assert sum("mode Auto is deprecated" in message for message in caplog.messages) == 1


# Versions before 1.36 accept infeasible resizes, and the kubelet reports them.
@pytest.mark.parametrize("version", ["1.33", "1.34", "1.35", "1.36"])
def test_a_restart_causes_at_most_one_attempt_for_each_pod(version: str) -> None:
    """The room of the nodes is too small for a step."""

    async def test(sandbox: UpdaterSandbox) -> None:
        await sandbox.deploy()
        await sandbox.autoscale("InPlace")
        await sandbox.recommend("99")
        await run_passes(sandbox, 6)
        tried = len(sandbox.calls("resize"))
        assert tried == 3  # one for each pod
        for restart in (1, 2):
            await run_passes(sandbox, 6)
            assert len(sandbox.calls("resize")) - tried <= 3 * restart
        assert len(sandbox.calls("resize")) - tried == (6 if version == "1.36" else 0)
        await sandbox.recommend("600m")
        await run_passes(sandbox, 4)
        assert await sandbox.cpu() == ["600m"] * 3
        assert sandbox.calls("eviction") == []

    in_updater_sandbox(test, version=version)


def test_a_resize_restarts_the_twelve_hours_also_across_a_restart() -> None:
    """With twenty minutes instead of twelve hours."""

    async def test(sandbox: UpdaterSandbox) -> None:
        sandbox.rules = replace(sandbox.rules, thresholds=Thresholds(min_lifetime=20 * MINUTE))
        await sandbox.deploy()
        await sandbox.autoscale("InPlaceOrRecreate")
        await recommend_within_range(sandbox, "600m")
        await run_passes(sandbox, 4)
        assert sandbox.calls("resize") == []  # too young
        await asyncio.sleep(16 * 60)
        await run_passes(sandbox, 4, restarting=True)
        assert sandbox.calls("resize") == [200] * 3

        await recommend_within_range(sandbox, "800m")
        await run_passes(sandbox, 15, restarting=True)
        assert sandbox.calls("resize") == [200] * 3  # too young again because of the resize
        await asyncio.sleep(5 * 60)
        await run_passes(sandbox, 4)
        assert await sandbox.cpu() == ["800m"] * 3
        assert sandbox.calls("eviction") == []

    in_updater_sandbox(test)


async def deploy_with_limits(sandbox: UpdaterSandbox) -> None:
    """Create three pods with requests of 256Mi and limits of 512Mi."""
    resources = {
        "requests": {"cpu": "500m", "memory": "256Mi"},
        "limits": {"cpu": "1", "memory": "512Mi"},
    }
    container = {"name": "app", "image": "shop:1", "resources": resources}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    body = {"metadata": {"name": "web"}, "spec": spec}
    await sandbox.admin.create(DEPLOYMENTS.as_dicts(), body, namespace="shop")
    await sandbox.settle()


async def memory_limits(sandbox: UpdaterSandbox) -> list[Any]:
    listing = await sandbox.admin.list(PODS, namespace="shop")
    resources = [pod.spec.containers[0].resources for pod in listing.items]
    return [(each.limits or {})["memory"] for each in resources if each is not None]


@pytest.mark.parametrize("version", ["1.34", "1.35", "1.36"])
@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate"])
def test_memory_limits_shrink_in_place(mode: str, version: str) -> None:
    """The limits of 512Mi go down in three steps of a quarter at most."""

    async def test(sandbox: UpdaterSandbox) -> None:
        await deploy_with_limits(sandbox)
        await sandbox.autoscale(mode)
        await sandbox.recommend("500m", "128Mi")
        await run_passes(sandbox, 20)
        assert await memory_limits(sandbox) == ["256Mi"] * 3
        assert sandbox.calls("resize") == [200] * 9
        assert sandbox.calls("eviction") == []

    in_updater_sandbox(test, version=version)


def test_kubernetes_1_33_refuses_lower_memory_limits_and_mode_in_place_waits() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await deploy_with_limits(sandbox)
        await sandbox.autoscale("InPlace")
        await sandbox.recommend("500m", "128Mi")
        await run_passes(sandbox, 30)
        calls = sandbox.calls("resize")
        assert set(calls) == {422}
        assert len(calls) <= 3 * 5  # with growing pauses
        assert await memory_limits(sandbox) == ["512Mi"] * 3
        assert sandbox.calls("eviction") == []

    in_updater_sandbox(test, version="1.33")


def test_kubernetes_1_33_refuses_lower_memory_limits_and_the_pod_is_replaced_where_allowed() -> (
    None
):
    async def test(sandbox: UpdaterSandbox) -> None:
        await deploy_with_limits(sandbox)
        await sandbox.autoscale("InPlaceOrRecreate")
        await sandbox.recommend("500m", "128Mi")
        await run_passes(sandbox, 8)  # usage is watched for five minutes
        assert 422 in sandbox.calls("resize")
        assert sandbox.calls("eviction") == [201]
        (message,) = await sandbox.messages("EvictedByVPA")
        assert "[resize_refused] (VPA web" in message

    in_updater_sandbox(test, version="1.33")

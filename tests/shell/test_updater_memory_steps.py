"""Memory limits that go down in place by live usage, with a whole cluster in virtual time."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from common.kube.client import PatchType
from common.kube.endpoints import PODS
from common.quantity import Quantity
from updater.run import Updater
from updater.usage_watch import UsageWatch
from updater_sandbox import UpdaterSandbox, in_updater_sandbox

PODS_AS_DICTS = PODS.as_dicts()
PASSES_OF_A_STEP = 18  # of 20 s each: the pause, and the passes around it
PASSES_OF_THE_FIRST = 21  # also the pass that finds the pods, and one for each of them


async def run_passes(sandbox: UpdaterSandbox, updater: Updater, times: int) -> None:
    for _ in range(times):
        await updater.run_once()
        await sandbox.settle()


async def deploy(
    sandbox: UpdaterSandbox, mode: str, *, replicas: int = 3, policy: str = ""
) -> None:
    """Create pods with a request and a limit of 1Gi, of which 256Mi are recommended."""
    app: dict[str, Any] = {
        "name": "app",
        "image": "shop:1",
        "resources": {
            "requests": {"cpu": "500m", "memory": "1Gi"},
            "limits": {"memory": "1Gi"},
        },
    }
    if policy:
        app["resizePolicy"] = [{"resourceName": "memory", "restartPolicy": policy}]
    await sandbox.deploy(replicas=replicas, containers=[app])
    await sandbox.autoscale(mode)
    await sandbox.recommend("500m", "256Mi")


async def limits(sandbox: UpdaterSandbox) -> list[str]:
    """Return the memory limits that the kubelets report, which equal the requests."""
    listing = await sandbox.admin.list(PODS_AS_DICTS, namespace="shop")
    found = []
    for pod in listing.items:
        (status,) = pod["status"]["containerStatuses"]
        resources = status["resources"]
        assert resources["limits"]["memory"] == resources["requests"]["memory"]
        found.append(resources["limits"]["memory"])
    return sorted(found, key=lambda text: Quantity.parse(text).value)


async def use_memory(sandbox: UpdaterSandbox, amount: str) -> None:
    listing = await sandbox.admin.list(PODS, namespace="shop")
    for pod in listing.items:
        await sandbox.admin.patch(
            PODS_AS_DICTS,
            pod.metadata.name,
            {"metadata": {"annotations": {"usage.sandbox/memory": amount}}},
            patch_type=PatchType.MERGE,
            namespace="shop",
        )
    await sandbox.settle()


async def restarts(sandbox: UpdaterSandbox) -> int:
    listing = await sandbox.admin.list(PODS_AS_DICTS, namespace="shop")
    return sum(pod["status"]["containerStatuses"][0]["restartCount"] for pod in listing.items)


@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate"])
def test_a_large_decrease_goes_in_steps_while_usage_is_small(mode: str) -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await deploy(sandbox, mode)
        updater = sandbox.updater()
        await run_passes(sandbox, updater, 1)
        assert sandbox.calls("resize") == [], "usage is still unknown"
        await run_passes(sandbox, updater, 14)
        assert sandbox.calls("resize") == [], "usage is watched for five minutes"
        await run_passes(sandbox, updater, PASSES_OF_THE_FIRST - 15)
        assert await limits(sandbox) == ["768Mi"] * 3
        await run_passes(sandbox, updater, 4 * PASSES_OF_A_STEP)
        assert await limits(sandbox) == ["256Mi"] * 3
        assert sandbox.calls("resize") == [200] * 15, "five steps of three pods"
        assert sandbox.calls("eviction") == []
        assert await restarts(sandbox) == 0

    in_updater_sandbox(test)


@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate"])
def test_a_limit_stays_while_its_memory_is_used(mode: str) -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await deploy(sandbox, mode)
        await use_memory(sandbox, "720Mi")
        updater = sandbox.updater()
        await run_passes(sandbox, updater, 6)
        assert await limits(sandbox) == ["1Gi"] * 3
        await use_memory(sandbox, "50Mi")
        await run_passes(sandbox, updater, 30)
        assert await limits(sandbox) == ["1Gi"] * 3, "the window has 15 minutes"
        await run_passes(sandbox, updater, 20)
        assert await limits(sandbox) == ["768Mi"] * 3
        assert sandbox.calls("eviction") == []

    in_updater_sandbox(test)


def test_without_metrics_a_limit_stays_and_one_line_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger=UsageWatch.__module__)

    async def test(sandbox: UpdaterSandbox) -> None:
        await deploy(sandbox, "InPlace")
        sandbox.cluster.metrics.fault = 503
        updater = sandbox.updater()
        await run_passes(sandbox, updater, 6)
        assert await limits(sandbox) == ["1Gi"] * 3
        sandbox.cluster.metrics.fault = None
        await run_passes(sandbox, updater, PASSES_OF_THE_FIRST)
        assert await limits(sandbox) == ["768Mi"] * 3

    in_updater_sandbox(test)
    lines = [each.message for each in caplog.records if each.name == UsageWatch.__module__]
    assert lines == [
        "memory usage can't be read, so no memory limit goes down in place",
        "memory usage is read again",
    ]


def test_a_container_that_restarts_for_memory_is_lowered_at_once() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await deploy(sandbox, "InPlace", policy="RestartContainer")
        sandbox.cluster.metrics.fault = 503
        await run_passes(sandbox, sandbox.updater(), 8)
        assert await limits(sandbox) == ["256Mi"] * 3
        assert await restarts(sandbox) == 3

    in_updater_sandbox(test)


def test_an_oom_kill_after_a_step_is_counted_and_ends_the_decreases() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        registry = CollectorRegistry()
        await deploy(sandbox, "InPlace")
        updater = sandbox.updater(registry=registry)
        await run_passes(sandbox, updater, PASSES_OF_THE_FIRST)
        assert await limits(sandbox) == ["768Mi"] * 3
        await use_memory(sandbox, "900Mi")
        await run_passes(sandbox, updater, 6)
        await use_memory(sandbox, "50Mi")
        await run_passes(sandbox, updater, 3 * PASSES_OF_A_STEP)
        assert await limits(sandbox) == ["768Mi"] * 3
        labels = {"vpa_size_log2": "1", "vpa_name": "web", "vpa_namespace": "shop"}
        assert registry.get_sample_value("vpa_updater_oom_after_decrease_total", labels) == 3

    in_updater_sandbox(test)

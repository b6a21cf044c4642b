"""Rollouts of a Deployment of eight during evictions, in the sandbox with a pass a minute."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from common.kube.client import PatchType
from common.kube.endpoints import (
    DAEMON_SETS,
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    PODS,
    STATEFUL_SETS,
    Endpoint,
)
from sandbox.admission.eviction import is_ready
from updater.run import Updater
from updater_sandbox import UpdaterSandbox, in_updater_sandbox
from workloads import refusing_webhook

REPLICAS = 8
MAX_LOST = 3
PASS_SECONDS = 20  # of a pass with its effects


async def deploy(
    sandbox: UpdaterSandbox, endpoint: Endpoint[Any] = DEPLOYMENTS, **spec: Any
) -> None:
    """Create a workload of eight pods that request twice the target, and its VPA."""
    requests = {"cpu": "200m", "memory": "64Mi"}
    container = {"name": "app", "image": "shop:1", "resources": {"requests": requests}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    body = {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template,
            **spec,
        },
    }
    await sandbox.admin.create(endpoint.as_dicts(), body, namespace="shop")
    await asyncio.sleep(60)
    await sandbox.autoscale("Recreate", kind=endpoint.kind)


async def roll(
    sandbox: UpdaterSandbox, annotations: Mapping[str, str], endpoint: Endpoint[Any] = DEPLOYMENTS
) -> None:
    """Change annotations of the template, as ``kubectl rollout restart`` does."""
    template = {"template": {"metadata": {"annotations": annotations}}}
    await sandbox.admin.patch(
        endpoint.as_dicts(),
        "web",
        {"spec": template},
        patch_type=PatchType.MERGE,
        namespace="shop",
    )
    await sandbox.settle()


async def pods(sandbox: UpdaterSandbox) -> list[dict[str, Any]]:
    listing = await sandbox.admin.list(PODS.as_dicts(), namespace="shop")
    return [pod for pod in listing.items if "deletionTimestamp" not in pod["metadata"]]


async def run_passes(sandbox: UpdaterSandbox, updater: Updater, minutes: int) -> int:
    """Run a pass each minute; return the minimum of ready pods after a pass."""
    fewest = REPLICAS
    for _ in range(minutes):
        await updater.run_once()
        await asyncio.sleep(PASS_SECONDS)
        fewest = min(fewest, sum(map(is_ready, await pods(sandbox))))
        await asyncio.sleep(60 - PASS_SECONDS)
    return fewest


NEVER_READY = {"kubelet.sandbox/ready-delay": "never"}
IMMEDIATELY_READY = {"kubelet.sandbox/ready-delay": "0s"}


def test_an_eviction_wave_with_a_rollout_in_between_loses_three_pods() -> None:
    """A webhook refuses all new pods; the ReplicaSet of the lost ones shrinks in the rollout."""

    async def test(sandbox: UpdaterSandbox) -> None:
        await deploy(sandbox)
        await sandbox.admin.create(MUTATING_WEBHOOKS.as_dicts(), refusing_webhook())
        await sandbox.recommend("100m", "64Mi")
        updater = sandbox.updater()
        await run_passes(sandbox, updater, 1)
        assert len(await pods(sandbox)) == REPLICAS - MAX_LOST
        await roll(sandbox, {"again": "yes"})
        assert await run_passes(sandbox, updater, 90) == REPLICAS - MAX_LOST
        assert len(sandbox.calls("eviction")) == MAX_LOST
        assert await run_passes(sandbox, sandbox.updater(), 90) == REPLICAS - MAX_LOST, (
            "after a restart"
        )
        assert len(sandbox.calls("eviction")) == MAX_LOST

    in_updater_sandbox(test)


def without_outcome_checks(test: Callable[[UpdaterSandbox], Awaitable[None]]) -> None:
    """Run a test without outcome checks: the limits of a rollout don't depend on them."""

    async def without(sandbox: UpdaterSandbox) -> None:
        sandbox.rules = replace(sandbox.rules, checks_outcomes=False)
        await test(sandbox)

    in_updater_sandbox(without)


def test_a_rollout_that_is_stuck_loses_no_pod_of_the_old_version() -> None:
    """At six old pods and four new ones that are never ready."""

    async def test(sandbox: UpdaterSandbox) -> None:
        await deploy(sandbox)
        await roll(sandbox, NEVER_READY)
        old = {pod["metadata"]["uid"] for pod in filter(is_ready, await pods(sandbox))}
        assert (len(old), len(await pods(sandbox))) == (6, 10)
        await sandbox.recommend("100m", "64Mi")
        updater = sandbox.updater()
        assert await run_passes(sandbox, updater, 15) == len(old)
        assert old <= {pod["metadata"]["uid"] for pod in await pods(sandbox)}

        await roll(sandbox, IMMEDIATELY_READY)
        earlier = len(sandbox.calls("eviction"))  # of new pods, which were not ready
        await run_passes(sandbox, updater, 2)
        assert len(sandbox.calls("eviction")) == earlier + REPLICAS, "half of them in each pass"

    without_outcome_checks(test)


def test_nothing_is_evicted_while_the_strategy_recreates() -> None:
    async def test(sandbox: UpdaterSandbox) -> None:
        await deploy(sandbox, strategy={"type": "Recreate"})
        await sandbox.recommend("100m", "64Mi")
        await roll(sandbox, NEVER_READY)
        await run_passes(sandbox, sandbox.updater(), 5)
        assert sandbox.calls("eviction") == []
        await roll(sandbox, IMMEDIATELY_READY)
        await run_passes(sandbox, sandbox.updater(), 1)
        assert len(sandbox.calls("eviction")) == REPLICAS // 2

    without_outcome_checks(test)


@pytest.mark.parametrize("endpoint", [STATEFUL_SETS, DAEMON_SETS], ids=lambda each: each.kind)
def test_a_stuck_rollout_of_another_kind(endpoint: Endpoint[Any]) -> None:
    """One pod is replaced at a time, and the first one is never ready."""

    async def test(sandbox: UpdaterSandbox) -> None:
        await deploy(
            sandbox, endpoint, **({"serviceName": "web"} if endpoint is STATEFUL_SETS else {})
        )
        there = len(await pods(sandbox))
        await roll(sandbox, NEVER_READY, endpoint)
        await sandbox.recommend("100m", "64Mi")
        await run_passes(sandbox, sandbox.updater(), 5)
        left = sum(map(is_ready, await pods(sandbox)))
        assert left == there - 1

    without_outcome_checks(test)

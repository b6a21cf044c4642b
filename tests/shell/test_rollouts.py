"""Rollouts while the updater evicts: of a Deployment of eight in the sandbox, a pass a minute."""

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
MOST_LOST = 3
TAKES = 20  # seconds, of a pass with what it leads to


async def deploy(shop: UpdaterSandbox, endpoint: Endpoint[Any] = DEPLOYMENTS, **spec: Any) -> None:
    """A workload of eight pods that request twice what is recommended, and its VPA."""
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
    await shop.admin.create(endpoint.as_dicts(), body, namespace="shop")
    await asyncio.sleep(60)
    await shop.autoscale("Recreate", kind=endpoint.kind)


async def roll(
    shop: UpdaterSandbox, annotations: Mapping[str, str], endpoint: Endpoint[Any] = DEPLOYMENTS
) -> None:
    """As ``kubectl rollout restart`` does: other annotations of the template."""
    template = {"template": {"metadata": {"annotations": annotations}}}
    await shop.admin.patch(
        endpoint.as_dicts(),
        "web",
        {"spec": template},
        patch_type=PatchType.MERGE,
        namespace="shop",
    )
    await shop.settle()


async def pods(shop: UpdaterSandbox) -> list[dict[str, Any]]:
    listing = await shop.admin.list(PODS.as_dicts(), namespace="shop")
    return [pod for pod in listing.items if "deletionTimestamp" not in pod["metadata"]]


async def live(shop: UpdaterSandbox, updater: Updater, minutes: int) -> int:
    """A pass a minute; the fewest pods that were ready after one."""
    fewest = REPLICAS
    for _ in range(minutes):
        await updater.run_once()
        await asyncio.sleep(TAKES)
        fewest = min(fewest, sum(map(is_ready, await pods(shop))))
        await asyncio.sleep(60 - TAKES)
    return fewest


NEVER_READY = {"kubelet.sandbox/ready-delay": "never"}
AT_ONCE = {"kubelet.sandbox/ready-delay": "0s"}


def test_a_wave_with_a_rollout_in_between_loses_three_pods() -> None:
    """A webhook refuses all new pods; the ReplicaSet of the lost ones shrinks in the rollout."""

    async def test(shop: UpdaterSandbox) -> None:
        await deploy(shop)
        await shop.admin.create(MUTATING_WEBHOOKS.as_dicts(), refusing_webhook())
        await shop.recommend("100m", "64Mi")
        updater = shop.updater()
        await live(shop, updater, 1)
        assert len(await pods(shop)) == REPLICAS - MOST_LOST
        await roll(shop, {"again": "yes"})
        assert await live(shop, updater, 90) == REPLICAS - MOST_LOST
        assert len(shop.calls("eviction")) == MOST_LOST
        assert await live(shop, shop.updater(), 90) == REPLICAS - MOST_LOST, "after a restart"
        assert len(shop.calls("eviction")) == MOST_LOST

    in_updater_sandbox(test)


def unchecked(test: Callable[[UpdaterSandbox], Awaitable[None]]) -> None:
    """Whatever replacements come to: what a rollout keeps available is a promise of its own."""

    async def without(shop: UpdaterSandbox) -> None:
        shop.rules = replace(shop.rules, checks_outcomes=False)
        await test(shop)

    in_updater_sandbox(without)


def test_a_rollout_that_is_stuck_loses_no_pod_of_the_old_version() -> None:
    """At six old pods and four new ones that are never ready."""

    async def test(shop: UpdaterSandbox) -> None:
        await deploy(shop)
        await roll(shop, NEVER_READY)
        old = {pod["metadata"]["uid"] for pod in filter(is_ready, await pods(shop))}
        assert (len(old), len(await pods(shop))) == (6, 10)
        await shop.recommend("100m", "64Mi")
        updater = shop.updater()
        assert await live(shop, updater, 15) == len(old)
        assert old <= {pod["metadata"]["uid"] for pod in await pods(shop)}

        await roll(shop, AT_ONCE)
        earlier = len(shop.calls("eviction"))  # of new pods that were not ready
        await live(shop, updater, 2)
        assert len(shop.calls("eviction")) == earlier + REPLICAS, "half of them in each pass"

    unchecked(test)


def test_nothing_is_evicted_while_the_strategy_recreates() -> None:
    async def test(shop: UpdaterSandbox) -> None:
        await deploy(shop, strategy={"type": "Recreate"})
        await shop.recommend("100m", "64Mi")
        await roll(shop, NEVER_READY)
        await live(shop, shop.updater(), 5)
        assert shop.calls("eviction") == []
        await roll(shop, AT_ONCE)
        await live(shop, shop.updater(), 1)
        assert len(shop.calls("eviction")) == REPLICAS // 2

    unchecked(test)


@pytest.mark.parametrize("endpoint", [STATEFUL_SETS, DAEMON_SETS], ids=lambda each: each.kind)
def test_a_rollout_of_another_kind_that_is_stuck(endpoint: Endpoint[Any]) -> None:
    """One pod is replaced at a time, and the first one is never ready."""

    async def test(shop: UpdaterSandbox) -> None:
        await deploy(
            shop, endpoint, **({"serviceName": "web"} if endpoint is STATEFUL_SETS else {})
        )
        there = len(await pods(shop))
        await roll(shop, NEVER_READY, endpoint)
        await shop.recommend("100m", "64Mi")
        await live(shop, shop.updater(), 5)
        left = sum(map(is_ready, await pods(shop)))
        assert left == there - 1

    unchecked(test)

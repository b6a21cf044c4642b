"""Rollouts of workloads with VPAs fit the ResourceQuota of their namespace, in the sandbox."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import DEPLOYMENTS, PODS, RESOURCE_QUOTAS, VPAS
from common.quantity import Quantity
from sandbox import virtual_time
from sandbox.admission.eviction import is_ready
from sandbox.cluster import running_cluster
from sandbox.scenario import parse_scenario
from sandbox.virtual_time import VirtualClock
from three_components import components, registered
from workloads import NAMESPACE, deploy, prepare

SCENARIO = """
nodes:
- count: 3
  cpu: 8
usage:
- match: {labels: {app: web}}
  cpu: 700m
  memory: 100Mi
- match: {labels: {app: api}}
  cpu: 300m
  memory: 100Mi
"""
REPLICAS: Mapping[str, int] = {"web": 4, "api": 2}
HARD = "2"  # of CPU; five and three pods of a rollout want some 5
LEARNING = 600  # seconds
ROLLOUT = 300


async def roll(admin: KubeClient, name: str) -> None:
    """Start a rollout, as ``kubectl rollout restart`` does."""
    template = {"metadata": {"annotations": {"restarted": "now"}}}
    await admin.patch(
        DEPLOYMENTS.as_dicts(),
        name,
        {"spec": {"template": template}},
        patch_type=PatchType.MERGE,
        namespace=NAMESPACE,
    )


async def cpu_target(admin: KubeClient, name: str) -> int:
    vpa = await admin.get(VPAS.as_dicts(), name, namespace=NAMESPACE)
    (one,) = vpa["status"]["recommendation"]["containerRecommendations"]
    return Quantity.parse(one["target"]["cpu"]).milli


async def conditions(admin: KubeClient, name: str) -> set[str]:
    vpa = await admin.get(VPAS.as_dicts(), name, namespace=NAMESPACE)
    return {each["type"] for each in vpa["status"]["conditions"]}


async def ready_pods(admin: KubeClient) -> dict[str, int]:
    pods = (await admin.list(PODS.as_dicts(), namespace=NAMESPACE)).items
    updated = [each for each in pods if "restarted" in each["metadata"].get("annotations", {})]
    return {
        name: sum(is_ready(each) for each in updated if each["metadata"]["labels"]["app"] == name)
        for name in REPLICAS
    }


@pytest.mark.parametrize(
    ("caps", "completes"),
    [
        pytest.param(True, True, id="with --cap-to-quotas all rollouts complete"),
        pytest.param(False, False, id="without it the quota refuses pods"),
    ],
)
def test_rollouts_fit_the_quota(tmp_path: Path, *, caps: bool, completes: bool) -> None:
    async def main(clock: VirtualClock) -> None:
        async with (
            running_cluster(parse_scenario(SCENARIO), clock=clock) as cluster,
            cluster.client("admin") as admin,
        ):
            await prepare(admin)
            quota: dict[str, Any] = {
                "metadata": {"name": "team"},
                "spec": {"hard": {"requests.cpu": HARD}},
            }
            await admin.create(RESOURCE_QUOTAS.as_dicts(), quota, namespace=NAMESPACE)
            for name, replicas in REPLICAS.items():
                small = {"cpu": "50m", "memory": "64Mi"}
                await deploy(admin, name, replicas=replicas, requests=small, mode="Initial")
            async with components(
                cluster,
                clock,
                tmp_path,
                names=("recommender", "admission"),
                recommender_settings={"cap_to_quotas": caps},
            ):
                await registered(admin)
                await asyncio.sleep(LEARNING)
                targets = {name: await cpu_target(admin, name) for name in REPLICAS}
                for name in REPLICAS:
                    assert ("CappedByQuota" in await conditions(admin, name)) == caps
                    await roll(admin, name)
                await asyncio.sleep(ROLLOUT)
                if caps:
                    rollouts = 5 * targets["web"] + 3 * targets["api"]
                    assert 2000 - 8 < rollouts <= 2000, "each share is rounded down"
                assert (await ready_pods(admin) == REPLICAS) == completes

    virtual_time.run(main)

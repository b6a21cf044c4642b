"""Pods with the target of their VPA are scheduled in the sandbox, and aren't without caps."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from common.kube.client import KubeClient
from common.kube.endpoints import DAEMON_SETS, PODS, VPAS
from recommender.nodes.cap_mode import CapMode
from sandbox import virtual_time
from sandbox.cluster import running_cluster
from sandbox.scenario import parse_scenario
from sandbox.virtual_time import VirtualClock
from three_components import components, registered
from workloads import NAMESPACE, deploy, prepare

SCENARIO = """
nodes:
- count: 2
  cpu: 4
usage:
- match: {labels: {app: web}}
  cpu: 6
  memory: 100Mi
"""
LEARNING = 300  # seconds
STARTING = 60


def agent() -> dict[str, Any]:
    """Return a DaemonSet that takes half a core of each node."""
    labels = {"app": "agent"}
    container = {
        "name": "agent",
        "image": "registry.example/agent",
        "resources": {"requests": {"cpu": "500m"}},
    }
    return {
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


async def only_pod(admin: KubeClient) -> dict[str, Any]:
    pods = (await admin.list(PODS.as_dicts(), namespace=NAMESPACE)).items
    (found,) = [each for each in pods if each["metadata"]["labels"]["app"] == "web"]
    return found


@pytest.mark.parametrize(
    ("mode", "cpu", "phase", "condition"),
    [
        pytest.param(CapMode.AUTO, "3500m", "Running", True, id="a capped target fits a node"),
        pytest.param(CapMode.NEVER, "4742m", "Pending", False, id="another one fits none"),
    ],
)
def test_a_pod_with_the_target(
    tmp_path: Path, mode: CapMode, cpu: str, phase: str, *, condition: bool
) -> None:
    async def main(clock: VirtualClock) -> None:
        async with (
            running_cluster(parse_scenario(SCENARIO), clock=clock) as cluster,
            cluster.client("admin") as admin,
        ):
            await prepare(admin)
            await admin.create(DAEMON_SETS.as_dicts(), agent(), namespace=NAMESPACE)
            small = {"cpu": "50m", "memory": "64Mi"}
            await deploy(admin, "web", replicas=1, requests=small, mode="Initial")
            async with components(
                cluster,
                clock,
                tmp_path,
                names=("recommender", "admission"),
                recommender_settings={"cap_to_nodes": mode},
            ):
                await registered(admin)
                await asyncio.sleep(LEARNING)
                vpa = await admin.get(VPAS.as_dicts(), "web", namespace=NAMESPACE)
                (one,) = vpa["status"]["recommendation"]["containerRecommendations"]
                assert one["target"]["cpu"] == cpu
                types = {each["type"] for each in vpa["status"]["conditions"]}
                assert ("CappedByNodes" in types) == condition
                name = (await only_pod(admin))["metadata"]["name"]
                await admin.delete(PODS, name, namespace=NAMESPACE)
                await asyncio.sleep(STARTING)
                pod = await only_pod(admin)
        assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == cpu
        assert pod["status"]["phase"] == phase

    virtual_time.run(main)

"""A sandbox cluster with VPAs in many states, in which no component of ours runs.

Its VPAs have the statuses that the reference writes. Nothing of it depends on a read model.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import KubeError
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import DEPLOYMENTS, POD_METRICS, PODS, VPAS, Endpoint
from common.runtime.clock import Clock
from fake_api import TIMEOUT
from kubectl_program import KUBECTL
from sandbox.cluster import Cluster, running_cluster
from sandbox.scenario import Scenario, parse_scenario
from workloads import NAMESPACE, autoscaler, prepare

BUDGETS: Endpoint[dict[str, Any]] = Endpoint(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", dict[str, Any]
)
SCENARIO = parse_scenario("""
nodes: [{cpu: 32, memory: 64Gi}]
timing: {start-delay: 50ms, stop-delay: 50ms}
metrics: {window: 1s}
usage:
  - {match: {labels: {app: search}}, cpu: 150m, memory: 120Mi}
  - {match: {labels: {app: api}}, cpu: 30m, memory: 180Mi}
  - {match: {}, cpu: 10m, memory: 60Mi}
""")
TIME = "2026-01-01T00:00:00Z"

Quantities = Mapping[str, str]

LARGE: Quantities = {"cpu": "500m", "memory": "1Gi"}
SMALL: Quantities = {"cpu": "49m", "memory": "250Mi"}


def condition(type: str, status: str = "True", message: str = "") -> dict[str, Any]:
    return {"type": type, "status": status, "message": message, "lastTransitionTime": TIME}


def recommended(
    target: Quantities, *, lower: Quantities | None = None, upper: Quantities | None = None
) -> dict[str, Any]:
    """Return the status of a VPA with a recommendation; without bounds they are the target."""
    amounts = {
        "containerName": "app",
        "target": target,
        "uncappedTarget": target,
        "lowerBound": lower or target,
        "upperBound": upper or target,
    }
    return {
        "recommendation": {"containerRecommendations": [amounts]},
        "conditions": [condition("RecommendationProvided")],
    }


@dataclass(frozen=True, slots=True)
class CliCluster:
    """The cluster, and the kubeconfig of a person who may do everything."""

    sandbox: Cluster
    client: KubeClient
    kubeconfig: Path

    async def deploy(self, name: str, replicas: int, requests: Quantities) -> None:
        """Create a Deployment without a VPA."""
        labels = {"app": name}
        container = {"name": "app", "image": "registry.example/app"}
        await self.client.create(
            DEPLOYMENTS.as_dicts(),
            {
                "metadata": {"name": name},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {
                            "containers": [{**container, "resources": {"requests": requests}}]
                        },
                    },
                },
            },
            namespace=NAMESPACE,
        )

    async def autoscale(
        self, name: str, mode: str = "Recreate", *, status: Any = None, **spec: Any
    ) -> None:
        """Create a VPA with a status."""
        await self.client.create(
            VPAS.as_dicts(), autoscaler(name, mode, **spec), namespace=NAMESPACE
        )
        if status is not None:
            await self.client.patch(
                VPAS.as_dicts(),
                name,
                {"status": status},
                patch_type=PatchType.MERGE,
                namespace=NAMESPACE,
                subresource="status",
            )

    async def kubectl(self, *words: str) -> str:
        """Return what kubectl prints."""
        process = await asyncio.create_subprocess_exec(
            *(KUBECTL, f"--kubeconfig={self.kubeconfig}", *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return out.decode()

    async def until_running(self, count: int) -> None:
        """Wait until so many pods run."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                pods = (await self.client.list(PODS)).items
                if sum(pod.status.phase == "Running" for pod in pods) >= count:
                    return
                await asyncio.sleep(0.05)  # other processes set no event here

    async def until_measured(self) -> None:
        """Wait until the metrics API has the usage of all running pods."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                with contextlib.suppress(KubeError):
                    pods = (await self.client.list(PODS)).items
                    if len((await self.client.list(POD_METRICS)).items) >= len(pods):
                        return
                await asyncio.sleep(0.05)  # other processes set no event here


@asynccontextmanager
async def cli_cluster(
    folder: Path,
    *,
    scenario: Scenario = SCENARIO,
    clock: Clock | None = None,
    metrics: bool = True,
) -> AsyncIterator[CliCluster]:
    """Run the cluster with the definitions of the VPA and the namespace of the workloads."""
    running = running_cluster(scenario, clock=clock, metrics=metrics)
    async with running as sandbox, sandbox.client("test") as client:
        await prepare(client)
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(sandbox.kubeconfig)
        yield CliCluster(sandbox, client, kubeconfig)


async def fill(cluster: CliCluster) -> None:
    """Create a workload and a VPA for each state that a cluster without the updater can have."""
    for name, replicas, requests in (
        ("api", 2, SMALL),
        ("web", 3, LARGE),
        ("batch", 1, LARGE),
        ("cart", 2, LARGE),
        ("guarded", 2, LARGE),
        ("idle", 0, LARGE),
        ("ledger", 2, LARGE),
        ("quiet", 1, LARGE),
        ("search", 2, {"cpu": "100m"}),
        ("young", 2, {"cpu": "55m", "memory": "300Mi"}),
    ):
        await cluster.deploy(name, replicas, requests)
    await cluster.client.create(
        BUDGETS,
        {
            "metadata": {"name": "guard"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "guarded"}}},
        },
        namespace=NAMESPACE,
    )
    wide = recommended(
        SMALL, lower={"cpu": "25m", "memory": "200Mi"}, upper={"cpu": "1", "memory": "1Gi"}
    )
    await cluster.autoscale("api", status=recommended(SMALL))
    await cluster.autoscale("web", "InPlaceOrRecreate", status=recommended(SMALL))
    await cluster.autoscale("batch", status=recommended(SMALL))
    await cluster.autoscale("cart", "Off", status=recommended(SMALL))
    await cluster.autoscale("guarded", status=recommended(SMALL))
    await cluster.autoscale("idle", status={"conditions": [condition("NoPodsMatched")]})
    await cluster.autoscale("ledger", "Initial", status=recommended(SMALL))
    await cluster.autoscale(
        "orphan",
        status={
            "conditions": [
                condition("ConfigUnsupported", message="Deployment shop/orphan does not exist"),
                condition("RecommendationProvided", "False"),
            ]
        },
    )
    await cluster.autoscale("quiet")
    await cluster.autoscale("search", status=recommended({"cpu": "1200m", "memory": "2Gi"}))
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    await cluster.autoscale("web-copy", targetRef=target, status=recommended(SMALL))
    await cluster.autoscale("young", status=wide)
    await cluster.until_running(17)

"""The times of passes with and without --event-driven, of a whole updater in virtual time."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import prometheus_client
import pytest

from common.flags import read_flags
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import DEPLOYMENTS, PODS, REPLICA_SETS, VPAS
from definitions import vpa_definition
from sandbox import virtual_time
from sandbox.cluster import Cluster, running_cluster
from sandbox.kubelet.pod_resources import Totals
from sandbox.scenario import parse_scenario
from sandbox.virtual_time import VirtualClock
from updater.__main__ import PROGRAM, serve
from updater.plan.pod_readiness import is_ready
from updater.settings import UpdaterSettings
from workloads import DEFINITIONS

SCENARIO = """
kubernetes-version: "{version}"
nodes: [{{name: node, count: 2, cpu: 4, memory: 8Gi}}]
namespaces: [shop]
"""
INTERVAL = 300  # seconds
SECONDS = 10  # the meaning of "within seconds"
RESOURCES = {"requests": {"cpu": "500m", "memory": "256Mi"}}


@dataclass(slots=True)
class Workload:
    """A Deployment of three and its VPA, after a first pass of the updater without an action."""

    cluster: Cluster
    admin: KubeClient

    async def open(self) -> None:
        container = {"name": "app", "image": "shop:1", "resources": RESOURCES}
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
        spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        body = {"metadata": {"name": "web"}, "spec": spec}
        await self.admin.create(DEPLOYMENTS.as_dicts(), body, namespace="shop")
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        scaled = {"targetRef": target, "updatePolicy": {"updateMode": "InPlaceOrRecreate"}}
        vpa = {"metadata": {"name": "web"}, "spec": scaled}
        await self.admin.create(VPAS.as_dicts(), vpa, namespace="shop")
        await asyncio.sleep(20)

    async def recommend(self, cpu: str) -> None:
        """Set the target and both bounds to these values."""
        amounts = {"cpu": cpu, "memory": "256Mi"}
        bounds = dict.fromkeys(("target", "lowerBound", "upperBound"), amounts)
        status = {
            "recommendation": {"containerRecommendations": [{"containerName": "app", **bounds}]}
        }
        await self.patch(VPAS.as_dicts(), {"status": status}, subresource="status")

    async def patch(self, endpoint: Any, patch: Any, **more: str) -> None:
        await self.admin.patch(
            endpoint, "web", patch, patch_type=PatchType.MERGE, namespace="shop", **more
        )

    async def ready(self, labels: Mapping[str, str]) -> int:
        """Return the number of Ready pods with these labels that aren't being deleted."""
        listing = await self.admin.list(PODS, namespace="shop")
        return sum(
            is_ready(pod) and pod.metadata.deletion_timestamp is None
            for pod in listing.items
            if pod.metadata.labels == labels
        )

    def resizes(self) -> list[int]:
        return [each.code for each in self.cluster.audit(userAgent=PROGRAM, subresource="resize")]

    async def resized(self, count: int) -> int:
        """Wait until this many resizes were sent; return the seconds."""
        for seconds in range(3 * INTERVAL):
            if len(self.resizes()) >= count:
                return seconds
            await asyncio.sleep(1)
        pytest.fail(f"only {self.resizes()}")


def passes() -> float:
    """Return the number of passes."""
    count = prometheus_client.REGISTRY.get_sample_value(
        "vpa_updater_execution_latency_seconds_count", {"step": "total"}
    )
    return count or 0.0


class InSandbox(Protocol):
    """Runs a test with an updater, with or without the flag."""

    def __call__(
        self, test: Callable[[Workload], Awaitable[None]], *, event_driven: bool
    ) -> None: ...


@pytest.fixture(name="in_sandbox")
def _in_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InSandbox:
    monkeypatch.setattr("prometheus_client.REGISTRY", prometheus_client.CollectorRegistry())

    def run(test: Callable[[Workload], Awaitable[None]], *, event_driven: bool) -> None:
        async def main(clock: VirtualClock) -> None:
            scenario = parse_scenario(SCENARIO.format(version="1.36"))
            async with (
                running_cluster(scenario, clock=clock) as cluster,
                cluster.client("test") as admin,
            ):
                await admin.create(DEFINITIONS, vpa_definition())
                await asyncio.sleep(1)
                workload = Workload(cluster, admin)
                await workload.open()
                kubeconfig = tmp_path / "kubeconfig"
                kubeconfig.write_text(cluster.kubeconfig, encoding="utf-8")
                settings = read_flags(
                    UpdaterSettings,
                    [
                        f"--kubeconfig={kubeconfig}",
                        f"--updater-interval={INTERVAL}s",
                        "--address=127.0.0.1:0",
                        "--use-admission-controller-status=false",
                        "--eviction-outcome-check=false",  # there is no webhook
                        f"--event-driven={str(event_driven).lower()}",
                    ],
                    program=PROGRAM,
                    environ={},
                )
                async with asyncio.TaskGroup() as group:
                    updater = group.create_task(serve(settings, clock, environ={}))
                    await test(workload)
                    updater.cancel()

        try:
            virtual_time.run(main)
        finally:
            gc.unfreeze()

    return run


def test_a_group_is_updated_in_waves_without_intervals(in_sandbox: InSandbox) -> None:
    """Each wave begins when the kubelet has finished the former one, without an interval."""

    async def test(workload: Workload) -> None:
        await asyncio.sleep(INTERVAL * 1.5)
        await workload.recommend("600m")
        assert await workload.resized(1) < SECONDS
        assert await workload.resized(3) < 3 * SECONDS
        await asyncio.sleep(INTERVAL)
        before = passes()
        await asyncio.sleep(3 * INTERVAL)
        assert passes() - before == 3  # without events only the interval triggers passes
        assert workload.resizes() == [200, 200, 200]

    in_sandbox(test, event_driven=True)


def test_without_the_flag_each_wave_takes_an_interval(in_sandbox: InSandbox) -> None:
    async def test(workload: Workload) -> None:
        await asyncio.sleep(INTERVAL * 1.5)
        await workload.recommend("600m")
        await asyncio.sleep(INTERVAL * 0.4)
        assert workload.resizes() == []
        assert await workload.resized(1) < INTERVAL * 0.2
        await asyncio.sleep(INTERVAL * 0.9)
        assert len(workload.resizes()) == 1
        await asyncio.sleep(INTERVAL)
        assert len(workload.resizes()) == 2

    in_sandbox(test, event_driven=False)


def test_a_node_that_grows_triggers_a_pass(in_sandbox: InSandbox) -> None:
    """X101: an infeasible resize is sent again within seconds. No step had room."""

    async def test(workload: Workload) -> None:
        lower = {"resources": ["cpu"], "changeRequirement": "TargetLowerThanRequests"}
        policy = {"updatePolicy": {"evictionRequirements": [lower]}}  # no evictions
        await workload.patch(VPAS.as_dicts(), {"spec": policy})
        await asyncio.sleep(INTERVAL * 1.5)
        await workload.recommend("99")
        await asyncio.sleep(INTERVAL * 2.5)
        assert set(workload.resizes()) == {403}
        kubelets = workload.cluster.kubelets
        for node in list(kubelets.nodes.values()):
            larger = Totals(400_000, node.shape.capacity.memory)
            await kubelets.reshape(replace(node.shape, capacity=larger))
        before = len(workload.resizes())
        assert await workload.resized(before + 1) < SECONDS
        await asyncio.sleep(SECONDS)
        assert workload.resizes()[before] == 200

    in_sandbox(test, event_driven=True)


@pytest.mark.parametrize("event_driven", [False, True])
def test_the_first_pass_takes_its_interval(in_sandbox: InSandbox, *, event_driven: bool) -> None:
    async def test(workload: Workload) -> None:
        await asyncio.sleep(INTERVAL / 2)
        await workload.recommend("600m")
        await asyncio.sleep(INTERVAL * 0.4)
        assert workload.resizes() == []
        assert await workload.resized(1) < INTERVAL * 0.2

    in_sandbox(test, event_driven=event_driven)


def test_a_changed_policy_and_a_new_pod_trigger_a_pass(in_sandbox: InSandbox) -> None:
    async def test(workload: Workload) -> None:
        await workload.patch(VPAS.as_dicts(), {"spec": {"updatePolicy": {"updateMode": "Off"}}})
        await workload.recommend("600m")
        await asyncio.sleep(INTERVAL * 1.5)
        assert workload.resizes() == []
        policy = {"updatePolicy": {"updateMode": "InPlaceOrRecreate"}}
        await workload.patch(VPAS.as_dicts(), {"spec": policy})
        assert await workload.resized(3) < 3 * SECONDS
        await workload.patch(DEPLOYMENTS.as_dicts(), {"spec": {"replicas": 4}})
        assert await workload.resized(4) < 2 * SECONDS

    in_sandbox(test, event_driven=True)


def test_evictions_continue_when_replacements_are_ready(in_sandbox: InSandbox) -> None:
    """A ReplicaSet whose new pods have the target, and become Ready after half a minute.

    Meanwhile there are events all the time.
    """

    async def test(workload: Workload) -> None:
        name = {"app": "batch"}
        probe = {"httpGet": {"port": 80}, "initialDelaySeconds": 30}
        container = {"name": "app", "image": "shop:1", "readinessProbe": probe}
        spec = {
            "replicas": 3,
            "selector": {"matchLabels": name},
            "template": {
                "metadata": {"labels": name},
                "spec": {"containers": [{**container, "resources": RESOURCES}]},
            },
        }
        sets, body = REPLICA_SETS.as_dicts(), {"metadata": {"name": "web"}, "spec": spec}
        await workload.admin.create(sets, body, namespace="shop")
        target = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"}
        scaled = {"targetRef": target, "updatePolicy": {"updateMode": "Recreate"}}
        await workload.patch(VPAS.as_dicts(), {"spec": scaled})
        await asyncio.sleep(INTERVAL * 1.5)
        larger = {"requests": {"cpu": "600m", "memory": "256Mi"}}
        template = {"spec": {"containers": [{**container, "resources": larger}]}}
        await workload.patch(sets, {"spec": {"template": template}})
        await workload.recommend("600m")
        fewest, seconds = 3, 0
        while len(workload.cluster.audit(userAgent=PROGRAM, subresource="eviction")) < 3:
            await asyncio.sleep(1)
            seconds += 1
            noise = {"updateMode": "Recreate", "minReplicas": 1 + seconds % 2}
            await workload.patch(VPAS.as_dicts(), {"spec": {"updatePolicy": noise}})
            fewest = min(fewest, await workload.ready(name))
        assert 60 <= seconds < 60 + 3 * SECONDS
        assert fewest == 2

    in_sandbox(test, event_driven=True)

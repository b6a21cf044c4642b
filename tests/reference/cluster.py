"""A control plane on which the reference and ours take turns, and an operator with a shell."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from common.kube.client import KubeClient
from common.kube.endpoints import MUTATING_WEBHOOKS, PODS, VPAS
from controlplane.cluster import ControlPlane, running_control_plane
from e2e.pods import LARGE, Object, is_ready, requests
from e2e.waiting import wait_for
from reference import history, service_proxy, workloads
from reference.calls import Calls
from reference.history import History
from reference.page import Operator
from reference.programs import images
from sandbox.scenario import parse_scenario

SCENARIO = """
nodes: [{count: 3, cpu: 64, memory: 256Gi}]
timing: {start-delay: 100ms, stop-delay: 100ms, resize-delay: 100ms}
metrics: {window: 1s}
"""
_SAMPLES = 20  # of each container, before the first swap
_CYCLES = 2.5  # seconds in which each recommender runs twice


@dataclass(frozen=True)
class Cluster:
    """The cluster with its workloads. ``namespace`` is that of the components."""

    control_plane: ControlPlane
    client: KubeClient
    operator: Operator
    namespace: str

    wait_for = staticmethod(wait_for)

    def calls(self) -> Calls:
        """Return the calls from now on."""
        return Calls(self.control_plane)

    # The components

    async def wait_until_only(self, registry: str) -> None:
        """Wait until all pods of the components have images of a registry, and are ready.

        With leader election the reference's updater doesn't end at SIGTERM. The kubelet kills it
        after half a minute, for which this doesn't wait.
        """

        async def alone() -> bool:
            pods = await self.client.list(PODS.as_dicts(), namespace=self.namespace)
            return all(
                (_image(pod).startswith(f"{registry}/") and is_ready(pod))
                or ("deletionTimestamp" in pod["metadata"] and "vpa-updater" in _image(pod))
                for pod in pods.items
            )

        await self.wait_for(alone, f"all components have images of {registry}", seconds=90)

    async def webhook(self, name: str = "vpa-webhook-config") -> Object:
        """Return the first webhook of the configuration."""
        found: Object = (await self.client.get(MUTATING_WEBHOOKS, name))["webhooks"][0]
        return found

    async def describe(self) -> str:
        """Return what helps to understand a failure: objects, and the end of each log."""
        return await self.operator.shell(f"""
            kubectl get verticalpodautoscalers,pods -A -o wide || true
            kubectl -n {self.namespace} get events | tail -n 30 || true
            tail -n 15 {self.control_plane.files.folder}/logs/*/*/*.log || true
        """)

    # The workloads, and what is stored of them

    async def history(self) -> History:
        """Return what is stored of all VPAs."""
        return await history.read(self.client)

    async def learn(self) -> None:
        """Create the workloads, and wait for recommendations, checkpoints, and updated pods."""
        await workloads.create(self.client)
        await self.wait_for(self._has_learnt, "recommendations and checkpoints", seconds=90)
        await self.wait_for(self._all_updated, "pods with their recommendation", seconds=90)

    async def _has_learnt(self) -> bool:
        seen = await self.history()
        return (
            seen.recommendations.keys() == workloads.containers()
            and seen.checkpoints.keys() >= workloads.containers()
            and all(
                one.get("totalSamplesCount", 0) >= _SAMPLES
                and one["memoryHistogram"].get("totalWeight")
                for one in seen.checkpoints.values()
            )
        )

    async def _all_updated(self) -> bool:
        """Return True if the updater has nothing to do any more."""
        pods = await self.client.list(PODS.as_dicts(), namespace=workloads.NAMESPACE)
        updated = {*workloads.names("Recreate"), *workloads.names("InPlaceOrRecreate")}
        apps = [pod for pod in pods.items if pod["metadata"]["labels"]["app"] in updated]
        return len(apps) == 2 * len(updated) and all(requests(pod) != LARGE for pod in apps)

    @asynccontextmanager
    async def without_usage(self) -> AsyncIterator[History]:
        """Run a block without new samples; yield what is stored once nothing changes any more."""
        async with self.control_plane.without_metrics():
            last = await self.history()

            async def settled() -> bool:
                nonlocal last
                await asyncio.sleep(_CYCLES)
                before, last = last, await self.history()
                return last == before

            await self.wait_for(settled, "history doesn't change")
            yield last

    async def recompute(self) -> tuple[History, set[str]]:
        """Let the recommender compute everything again; return that, and who wrote it."""
        calls = self.calls()
        for vpa in (await self.history()).vpas:
            await history.clear_recommendation(self.client, vpa)

        async def complete() -> History | None:
            found = await self.history()
            return found if found.recommendations.keys() == workloads.containers() else None

        found = await self.wait_for(complete, "recommendations for all containers")
        assert found is not None
        writes = calls.of_components(verb="patch", resource=VPAS.resource, subresource="status")
        return found, {entry.user_agent.partition("/")[0] for entry in writes}

    async def wait_for_more_history(self) -> History:
        """Wait until every checkpoint has more samples; return what is stored then."""
        before = await self.history()

        async def grown() -> History | None:
            seen = await self.history()
            more = (
                seen.checkpoints[key].get("totalSamplesCount", 0) > one.get("totalSamplesCount", 0)
                for key, one in before.checkpoints.items()
            )
            return seen if all(more) else None

        found = await self.wait_for(grown, "checkpoints continue", seconds=90)
        assert found is not None
        return found


def _image(pod: Object) -> str:
    return str(pod["spec"]["containers"][0]["image"])


@asynccontextmanager
async def running_cluster(folder: Path, *, namespace: str) -> AsyncIterator[Cluster]:
    """Run a control plane on which the images of both run as processes."""
    (folder / "operator").mkdir()
    async with (
        running_control_plane(
            parse_scenario(SCENARIO), folder=folder / "cluster", images=images()
        ) as control_plane,
        control_plane.client("reference-tests") as client,
        service_proxy.serving(client),
    ):
        operator = Operator(control_plane.files.kubeconfig("admin"), folder / "operator")
        yield Cluster(control_plane, client, operator, namespace)

"""Recreates the pods of a workload where no node has room for the replacements, and times them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from capacity_definitions import BUFFERS
from common.kube.endpoints import NODES, PODS, Endpoint
from e2e.cluster import OTHER_RECOMMENDER, Case
from e2e.installation import UPDATER
from e2e.simulated_autoscaler import POOL, SimulatedAutoscaler, running, served

BEFORE = {"cpu": "450m", "memory": "64Mi"}
AFTER = {"cpu": "1900m", "memory": "64Mi"}
_ON_A_NODE = 4  # pods, before
_FIRST_CPU = 1800  # millicores of the nodes of the first pods; no replacement fits one
_ADDED_CPU = 2000  # of the other nodes
_SECONDS_PER_POD = 20.0


@dataclass
class PendingTimes:
    """The seconds that pods of a namespace waited for a node, by UID."""

    seconds: dict[str, float] = field(default_factory=dict)
    _seen: dict[str, float] = field(default_factory=dict)

    async def follow(self, case: Case) -> None:
        """Watch the pods until cancelled; those that are on a node at first don't count."""
        client, loop = case.cluster.client, asyncio.get_running_loop()
        endpoint = PODS.as_dicts()
        version = (await client.list(endpoint, namespace=case.namespace)).resource_version
        while True:
            watch = client.watch(endpoint, resource_version=version, namespace=case.namespace)
            async with contextlib.aclosing(watch):
                async for event in watch:
                    pod = event.object
                    if pod is None:
                        continue
                    version = pod["metadata"]["resourceVersion"]
                    uid = pod["metadata"]["uid"]
                    if not pod["spec"].get("nodeName"):
                        self._seen.setdefault(uid, loop.time())
                    elif uid in self._seen:
                        self.seconds.setdefault(uid, loop.time() - self._seen[uid])


@dataclass(frozen=True)
class Site:
    """A case whose namespace has a pool of nodes of its own."""

    case: Case
    autoscaler: SimulatedAutoscaler
    times: PendingTimes
    replicas: int

    async def recommend(self, **amounts: str) -> None:
        """Recommend other resources than the pods have."""
        await self.case.set_recommendation("web", app={**AFTER, **amounts})

    async def wait_until_recreated(self) -> None:
        """Wait until all pods have the recommendation."""
        seconds = self.replicas * (_SECONDS_PER_POD + self.autoscaler.delay)
        await self.case.wait_until_applied("web", self.replicas, seconds=seconds)

    async def pending_seconds(self) -> list[float]:
        """Return how long each present pod was Pending."""
        uids = await self.case.uids("web")

        async def all_are_seen() -> bool:
            return uids <= self.times.seconds.keys()

        await self.case.cluster.wait_for(all_are_seen, "the watch shows the node of each pod")
        return sorted(self.times.seconds[uid] for uid in uids)

    async def waited_for_nodes(self) -> int:
        """Return how many present pods are on nodes that were added after their creation."""
        nodes = (await self.case.cluster.client.list(NODES)).items
        created = {
            each["metadata"]["name"]: each["metadata"]["creationTimestamp"] for each in nodes
        }
        pods = await self.case.pods("web")
        return sum(
            pod["metadata"]["creationTimestamp"] < created[pod["spec"]["nodeName"]] for pod in pods
        )


@asynccontextmanager
async def site(
    case: Case,
    *arguments: str,
    replicas: int,
    delay: float,
    refuses: str = "",
    kind: Endpoint[dict[str, Any]] | None = BUFFERS,
) -> AsyncIterator[Site]:
    """Deploy pods that fill their nodes, and restart the updater with these arguments.

    A replacement takes a whole node, which has to be added. ``kind`` is how capacity can be
    requested; None: it can't.
    """
    kubelets = case.cluster.control_plane.kubelets
    autoscaler = SimulatedAutoscaler(
        case.cluster.client,
        kubelets.add,
        case.namespace,
        cpu=_ADDED_CPU,
        delay=delay,
        refuses=refuses,
    )
    for _ in range(-(-replicas // _ON_A_NODE)):
        await autoscaler.start_node(cpu=_FIRST_CPU)
    await case.deploy(
        "web",
        replicas=replicas,
        requests=BEFORE,
        spec={"nodeSelector": {POOL: autoscaler.pool}},
    )
    await case.wait_until_ready("web", replicas)
    await case.create_vpa("web", "Recreate", recommenders=OTHER_RECOMMENDER)
    times = PendingTimes()
    async with (
        contextlib.nullcontext() if kind is None else served(case.cluster.client, kind),
        case.cluster.installation.with_arguments(UPDATER, *arguments),
        running(autoscaler),
        asyncio.TaskGroup() as group,
    ):
        watch = group.create_task(times.follow(case))
        try:
            yield Site(case, autoscaler, times, replicas)
        finally:
            watch.cancel()

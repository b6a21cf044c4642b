"""Look-ups of the VPAs of custom kinds while the API server is slow, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from admission.cluster import CachedCluster
from common.api.meta import ObjectMeta, OwnerReference
from common.kube.client import KubeClient
from common.kube.endpoints import VPAS
from custom_kind import ROBOTS, define_robots, robot
from sandbox.apiserver.faults import ApiFault, Calls, Effect
from sandbox.cluster import Cluster
from synced_caches import following
from virtual_cluster import in_cluster
from workloads import NAMESPACE, autoscaler, prepare

DEADLINE = 2.0  # seconds; that of a review
POD = ObjectMeta(
    name="marvin-1",
    namespace=NAMESPACE,
    labels={"model": "marvin"},
    owner_references=(
        OwnerReference(
            api_version="example.com/v1", kind="Robot", name="marvin", uid="u", controller=True
        ),
    ),
)


@dataclass
class Lookups:
    """Look-ups for new pods of the only robot."""

    cluster: Cluster
    found: CachedCluster

    async def next(self) -> tuple[str, float]:
        """Return the name of a new pod's VPA, and the seconds of the look-up."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(DEADLINE):
                match = await self.found.match(POD)
        except TimeoutError:
            return "nothing in time", round(loop.time() - began, 3)
        return match.vpa.metadata.name if match.vpa else "none", round(loop.time() - began, 3)

    def slow_down(self, seconds: float) -> None:
        slow = ApiFault(calls=Calls(resource="robots/scale"), effect=Effect(delay=seconds))
        self.cluster.api.faults.add(slow)


def in_cluster_with_robot(test: Callable[[Lookups], Awaitable[None]]) -> None:
    async def prepared(cluster: Cluster, client: KubeClient) -> None:
        await prepare(client)
        await define_robots(client)
        manifest = robot("marvin", replicas=1, selector="model=marvin")
        await client.create(ROBOTS, manifest, namespace=NAMESPACE)
        target = {"apiVersion": "example.com/v1", "kind": "Robot", "name": "marvin"}
        vpa = autoscaler("marvin", targetRef=target)
        await client.create(VPAS.as_dicts(), vpa, namespace=NAMESPACE)
        found = CachedCluster(client)
        async with following(found.caches):
            await test(Lookups(cluster, found))

    in_cluster(prepared, scenario="nodes: []")


def test_no_pod_waits_for_a_cached_scale() -> None:
    async def test(reviews: Lookups) -> None:
        await reviews.next()
        reviews.slow_down(4)
        for pause in (31, 60, 299, 590):
            await asyncio.sleep(pause)
            assert await reviews.next() == ("marvin", 0)

    in_cluster_with_robot(test)


def test_a_pod_waits_for_an_expired_scale_until_the_deadline() -> None:
    async def test(reviews: Lookups) -> None:
        await reviews.next()
        reviews.slow_down(4)
        await asyncio.sleep(601)
        assert await reviews.next() == ("nothing in time", DEADLINE)
        await asyncio.sleep(4)  # the late response is cached
        assert await reviews.next() == ("marvin", 0)

    in_cluster_with_robot(test)

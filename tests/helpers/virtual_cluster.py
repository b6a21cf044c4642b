"""A sandbox cluster for one test, in virtual time."""

from collections.abc import Awaitable, Callable

from common.kube.client import KubeClient
from sandbox import virtual_time
from sandbox.cluster import Cluster, running_cluster
from sandbox.scenario import parse_scenario
from sandbox.virtual_time import VirtualClock

Test = Callable[[Cluster, KubeClient], Awaitable[None]]


def in_cluster(test: Test, *, scenario: str) -> None:
    """Run a test with a new cluster, its administrator and a new event loop."""

    async def main(clock: VirtualClock) -> None:
        async with (
            running_cluster(parse_scenario(scenario), clock=clock) as cluster,
            cluster.client("test/1") as client,
        ):
            await test(cluster, client)

    virtual_time.run(main)

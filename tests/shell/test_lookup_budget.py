"""The time that look-ups of one namespace may use in a cycle, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable

from common.api.autoscaling import TargetReference, VerticalPodAutoscaler, VpaSpec
from common.api.meta import ObjectMeta
from common.kube.client import LOOKUP_SECONDS, KubeClient
from common.kube.endpoints import NAMESPACES
from common.kube.targets import ControllerCaches, TargetError, Targets
from custom_kind import ROBOTS, define_robots, robot, robots
from sandbox.apiserver.faults import ApiFault, Calls, Effect
from sandbox.cluster import Cluster
from synced_caches import following
from virtual_cluster import in_cluster

INTERVAL = 60.0  # seconds
HANGING = "hanging.example.net"
NOISY, QUIET = "a-noisy", "quiet"
MANY = 40


def autoscaler(namespace: str, name: str, group: str) -> VerticalPodAutoscaler:
    target = TargetReference(api_version=f"{group}/v1", kind="Robot", name=name)
    return VerticalPodAutoscaler(
        metadata=ObjectMeta(name=name, namespace=namespace), spec=VpaSpec(target_ref=target)
    )


NOISY_VPAS = [autoscaler(NOISY, f"robot-{number:02}", HANGING) for number in range(MANY)]
MARVIN = autoscaler(QUIET, "marvin", "example.com")


class Cycles:
    """Cycles that resolve the targets of a namespace whose API hangs, and of another one."""

    def __init__(self, targets: Targets) -> None:
        self.targets = targets
        self.transient = True  # all errors so far

    async def next(self) -> tuple[dict[str, str], float]:
        """Resolve all targets one by one; return the results by name, and the seconds."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        self.targets.begin_cycle(INTERVAL)
        outcomes = {}
        for vpa in self.targets.postponed_first([*NOISY_VPAS, MARVIN]):
            try:
                outcomes[vpa.metadata.name] = str(await self.targets.selector(vpa))
            except TargetError as error:
                outcomes[vpa.metadata.name] = str(error).rpartition("last error ")[2]
                self.transient &= error.transient
        return outcomes, loop.time() - started


def in_cycles(test: Callable[[Cycles], Awaitable[None]]) -> None:
    async def prepared(cluster: Cluster, client: KubeClient) -> None:
        for namespace in (NOISY, QUIET):
            await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        await define_robots(client)
        await define_robots(client, HANGING)
        for vpa in NOISY_VPAS:
            body = robot(vpa.metadata.name, HANGING, replicas=1, selector="model=noise")
            await client.create(robots(HANGING), body, namespace=NOISY)
        await client.create(
            ROBOTS, robot("marvin", replicas=1, selector="model=marvin"), namespace=QUIET
        )
        hangs = ApiFault(calls=Calls(namespace=NOISY), effect=Effect(delay=300.0))
        cluster.api.faults.add(hangs)
        caches = ControllerCaches.create(client, namespace=QUIET)
        async with following(caches.all()):
            cycles = Cycles(Targets(client, caches))
            await test(cycles)
            assert cycles.transient
            assert client.reachable

    in_cluster(prepared, scenario="nodes: []")


def test_a_namespace_whose_api_hangs_delays_others_only_shortly() -> None:
    async def test(cycles: Cycles) -> None:
        outcomes, seconds = await cycles.next()
        assert outcomes["marvin"] == "model=marvin"
        assert seconds <= INTERVAL / 8 + 4 * LOOKUP_SECONDS
        postponed = [
            each for each in outcomes.values() if each.startswith("look-up budget of this cycle")
        ]
        assert len(postponed) >= MANY - 4

    in_cycles(test)


def test_postponed_lookups_are_first_in_the_next_cycle() -> None:
    async def test(cycles: Cycles) -> None:
        resolved: set[str] = set()
        for _ in range(MANY):
            outcomes, _seconds = await cycles.next()
            assert outcomes["marvin"] == "model=marvin"
            resolved |= {name for name, outcome in outcomes.items() if "no answer" in outcome}
            await asyncio.sleep(INTERVAL)
        assert len(resolved) == MANY  # all were resolved

    in_cycles(test)

"""Look-ups of slow scale subresources: timeouts, shared requests and the cache."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from common.kube.client import KubeClient, PatchType
from common.kube.scales import ScaleFound, Scales
from common.target.owners import Answer, Controller, Failed, Found, Unknown
from custom_kind import ROBOTS, define_robots, robot
from fake_api import FakeApi, until
from sandbox.apiserver.faults import ApiFault, Calls, Effect, Refusal
from sandbox.cluster import Cluster, running_cluster
from sandbox.scenario import parse_scenario
from virtual_cluster import in_cluster

MARVIN = Controller("default", "Robot", "marvin", "example.com/v1")
DELAY = 0.3  # seconds


async def prepare(cluster: Cluster, client: KubeClient) -> None:
    """Create a robot with a slow scale."""
    await define_robots(client)
    await client.create(ROBOTS, robot("marvin", replicas=1), namespace="default")
    slow = ApiFault(calls=Calls(resource="robots/scale"), effect=Effect(delay=DELAY))
    cluster.api.faults.add(slow)


async def test_a_late_response_is_cached() -> None:
    async with (
        running_cluster(parse_scenario("nodes: []")) as cluster,
        cluster.client("test") as client,
    ):
        await prepare(cluster, client)
        scales = Scales(client)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(DELAY / 3):
                await scales.fetch(MARVIN)
        assert scales.answer(MARVIN) == Unknown()
        await until(lambda: isinstance(scales.answer(MARVIN), Found))
        assert len(cluster.audit(resource="robots", subresource="scale")) == 1


class FailingClient:
    """A client whose look-ups fail with a bug after ``released``."""

    def __init__(self) -> None:
        self.released = asyncio.Event()

    async def look_up(self, _path: str, *, retry: bool) -> bytes:
        await self.released.wait()
        raise ValueError(f"retry is {retry}")


async def test_an_error_after_the_timeout_of_all_callers_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = FailingClient()
    scales = Scales(cast("KubeClient", client))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await scales.fetch(MARVIN)
    client.released.set()
    with pytest.raises(ValueError, match="retry is True"):
        await scales.fetch(MARVIN)
    assert [record.message for record in caplog.records] == ["look-up failed unexpectedly"]


async def test_concurrent_callers_share_one_request() -> None:
    async with (
        running_cluster(parse_scenario("nodes: []")) as cluster,
        cluster.client("test") as client,
    ):
        await prepare(cluster, client)
        scales = Scales(client)
        impatient = asyncio.create_task(scales.fetch(MARVIN))
        others = [asyncio.create_task(scales.fetch(MARVIN)) for _ in range(3)]
        await asyncio.sleep(0)
        impatient.cancel()
        answers = await asyncio.gather(*others)
        assert answers == [ScaleFound()] * 3
        assert len(cluster.audit(resource="robots", subresource="scale")) == 1


# Refreshed before they are needed


class RobotScales:
    """Robots in a cluster with virtual time, and their cached scales."""

    def __init__(self, cluster: Cluster, client: KubeClient, *, refreshed: bool = True) -> None:
        self.cluster = cluster
        self.client = client
        self.scales = Scales(client, ahead=refreshed)

    async def make(self, name: str = "marvin") -> None:
        body = robot(name, replicas=1, selector="model=old")
        await self.client.create(ROBOTS, body, namespace="default")

    async def change(self, name: str = "marvin") -> None:
        patch = {"spec": {"selector": "model=new"}}
        merge = PatchType.MERGE
        await self.client.patch(ROBOTS, name, patch, patch_type=merge, namespace="default")

    def fail(self, effect: Effect) -> Callable[[], None]:
        """Let requests for scales fail until the returned function is called."""
        rule = ApiFault(calls=Calls(resource="robots/scale"), effect=effect)
        return self.cluster.api.faults.add(rule)

    def request_count(self) -> int:
        """Return the number of responses to requests for scales."""
        return len(self.cluster.audit(resource="robots", subresource="scale"))

    async def look_up_selector(self, name: str = "marvin") -> str:
        """Return the selector or the error, and whether the look-up had to wait."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        found = await self.scales.current(Controller("default", "Robot", name, "example.com/v1"))
        text = found.selector if isinstance(found, ScaleFound) else type(found).__name__
        return text + ", waited" * (loop.time() > began)

    def owners(self) -> Answer:
        return self.scales.answer(MARVIN)


def in_cluster_with_robots(
    test: Callable[[RobotScales], Awaitable[None]], *, refreshed: bool = True
) -> None:
    async def prepared(cluster: Cluster, client: KubeClient) -> None:
        await define_robots(client)
        robots = RobotScales(cluster, client, refreshed=refreshed)
        await robots.make()
        await test(robots)

    in_cluster(prepared, scenario="nodes: []")


SLOW = Effect(delay=4.0)
FAULTS = Effect(refuse=Refusal.UNAVAILABLE)


def test_a_cached_scale_is_returned_while_it_is_refreshed() -> None:
    async def test(robots: RobotScales) -> None:
        robots.fail(SLOW)
        assert await robots.look_up_selector() == "model=old, waited"  # the first one waits
        await robots.change()
        await asyncio.sleep(29)
        assert (
            await robots.look_up_selector() == "model=old"
        )  # within half a minute there is no request
        await asyncio.sleep(4)
        assert robots.request_count() == 1
        assert [await robots.look_up_selector() for _ in range(3)] == ["model=old"] * 3
        await asyncio.sleep(6)
        assert robots.request_count() == 2
        assert await robots.look_up_selector() == "model=new"

    in_cluster_with_robots(test)


def test_a_scale_older_than_ten_minutes_is_waited_for() -> None:
    async def test(robots: RobotScales) -> None:
        robots.fail(SLOW)
        await robots.look_up_selector()
        await robots.change()
        await asyncio.sleep(599)
        assert await robots.look_up_selector() == "model=old"
        await asyncio.sleep(599)  # it was refreshed meanwhile
        assert await robots.look_up_selector() == "model=new"
        await asyncio.sleep(620)
        assert await robots.look_up_selector() == "model=new, waited"

    in_cluster_with_robots(test)


def test_a_lookup_once_a_minute_always_waits_for_the_current_scale() -> None:
    """As the recommender and the updater, whose cycles need current selectors."""

    async def test(robots: RobotScales) -> None:
        robots.fail(SLOW)
        await robots.look_up_selector()
        await robots.change()
        await asyncio.sleep(31)
        assert await robots.look_up_selector() == "model=new, waited"

    in_cluster_with_robots(test, refreshed=False)


def test_cached_scales_are_used_for_ten_minutes_while_the_api_server_fails() -> None:
    async def test(robots: RobotScales) -> None:
        await robots.look_up_selector()
        over = robots.fail(FAULTS)
        for _ in range(19):
            await asyncio.sleep(31)
            assert await robots.look_up_selector() == "model=old"
            assert isinstance(robots.owners(), Found)
        await asyncio.sleep(1)
        tried = robots.request_count()
        assert await robots.look_up_selector() == "model=old"
        await asyncio.sleep(1)
        assert robots.request_count() == tried  # at most every half minute
        await asyncio.sleep(30)
        assert await robots.look_up_selector() == "Unavailable, waited"
        assert await robots.look_up_selector() == "Unavailable"
        over()
        await asyncio.sleep(31)
        assert (await robots.look_up_selector()).startswith("model=old")

    in_cluster_with_robots(test)


def test_a_deleted_robot_is_removed_with_the_next_response() -> None:
    async def test(robots: RobotScales) -> None:
        await robots.look_up_selector()
        await robots.client.delete(ROBOTS, "marvin", namespace="default")
        await asyncio.sleep(31)
        assert await robots.look_up_selector() == "model=old"
        await asyncio.sleep(1)
        assert await robots.look_up_selector() == "NoScale"

    in_cluster_with_robots(test)


def test_used_owners_are_never_evicted_from_the_cache() -> None:
    async def test(robots: RobotScales) -> None:
        await robots.scales.fetch(MARVIN)
        for _ in range(10):
            await asyncio.sleep(299)
            assert isinstance(robots.owners(), Found)
        assert robots.request_count() <= 11

    in_cluster_with_robots(test)


def test_the_number_of_concurrent_requests_is_bounded() -> None:
    async def test(robots: RobotScales) -> None:
        names = [f"robot-{number}" for number in range(20)]
        for name in names:
            await robots.make(name)
            await robots.look_up_selector(name)
        before = robots.request_count()
        robots.fail(SLOW)
        await asyncio.sleep(31)
        for _ in range(2):
            assert [await robots.look_up_selector(name) for name in names] == ["model=old"] * 20
        await asyncio.sleep(6)
        assert robots.request_count() - before == 8
        for _ in range(2):
            assert [await robots.look_up_selector(name) for name in names] == ["model=old"] * 20
            await asyncio.sleep(6)
        assert robots.request_count() - before == 20

    in_cluster_with_robots(test)


async def test_unused_entries_are_evicted() -> None:
    many = [Controller("default", "Robot", f"{n}", "no.example/v1") for n in range(20_001)]
    async with FakeApi() as api, api.client() as client:
        scales = Scales(client, ahead=True)
        for each in many:
            await scales.fetch(each)
        assert len(api.requests) == 1
        assert scales.answer(many[0]) == Unknown()
        assert isinstance(scales.answer(many[1]), Failed)
        assert isinstance(scales.answer(many[-1]), Failed)


async def test_the_number_of_cached_kinds_is_bounded() -> None:
    kinds = [Controller("default", "Robot", "x", f"{n}.example/v1") for n in range(1001)]
    async with FakeApi() as api, api.client() as client:
        scales = Scales(client)
        for each in (*kinds, kinds[-1], kinds[0]):
            await scales.fetch(each)
        assert api.routes.count("GET /apis/1000.example") == 1
        assert api.routes.count("GET /apis/0.example") == 2

"""Scale subresources that come late: who gives up waiting, and who asks next."""

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
    """A robot whose scale takes its time."""
    await define_robots(client)
    await client.create(ROBOTS, robot("marvin", replicas=1), namespace="default")
    slow = ApiFault(calls=Calls(resource="robots/scale"), effect=Effect(delay=DELAY))
    cluster.api.faults.add(slow)


async def test_an_answer_for_which_nobody_waits_any_longer_is_remembered() -> None:
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


class Broken:
    """Fails each look-up as a bug would, once it is told to."""

    def __init__(self) -> None:
        self.fails = asyncio.Event()

    async def look_up(self, _path: str, *, retry: bool) -> bytes:
        await self.fails.wait()
        raise ValueError(f"retry is {retry}")


async def test_a_bug_that_shows_when_nobody_waits_any_longer_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = Broken()
    scales = Scales(cast("KubeClient", client))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await scales.fetch(MARVIN)
    client.fails.set()
    with pytest.raises(ValueError, match="retry is True"):
        await scales.fetch(MARVIN)
    assert [record.message for record in caplog.records] == ["look-up failed unexpectedly"]


async def test_those_who_ask_at_the_same_time_share_one_question() -> None:
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


# Ahead of those who ask


class Robots:
    """Robots in a cluster with virtual time, and what is known of them."""

    def __init__(self, cluster: Cluster, client: KubeClient, *, ahead: bool = True) -> None:
        self.cluster = cluster
        self.client = client
        self.scales = Scales(client, ahead=ahead)

    async def make(self, name: str = "marvin") -> None:
        body = robot(name, replicas=1, selector="model=old")
        await self.client.create(ROBOTS, body, namespace="default")

    async def change(self, name: str = "marvin") -> None:
        patch = {"spec": {"selector": "model=new"}}
        merge = PatchType.MERGE
        await self.client.patch(ROBOTS, name, patch, patch_type=merge, namespace="default")

    def fail(self, effect: Effect) -> Callable[[], None]:
        """Let questions for scales fail until the answer is called."""
        rule = ApiFault(calls=Calls(resource="robots/scale"), effect=effect)
        return self.cluster.api.faults.add(rule)

    def asked(self) -> int:
        """How many questions for scales were answered."""
        return len(self.cluster.audit(resource="robots", subresource="scale"))

    async def seen(self, name: str = "marvin") -> str:
        """The selector, or why there is none, and whether one had to wait for it."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        found = await self.scales.current(Controller("default", "Robot", name, "example.com/v1"))
        told = found.selector if isinstance(found, ScaleFound) else type(found).__name__
        return told + ", waited" * (loop.time() > began)

    def owners(self) -> Answer:
        return self.scales.answer(MARVIN)


def among_robots(test: Callable[[Robots], Awaitable[None]], *, ahead: bool = True) -> None:
    async def prepared(cluster: Cluster, client: KubeClient) -> None:
        await define_robots(client)
        robots = Robots(cluster, client, ahead=ahead)
        await robots.make()
        await test(robots)

    in_cluster(prepared, scenario="nodes: []")


SLOW = Effect(delay=4.0)
TROUBLE = Effect(refuse=Refusal.UNAVAILABLE)


def test_what_is_known_answers_while_it_is_fetched_anew() -> None:
    async def test(robots: Robots) -> None:
        robots.fail(SLOW)
        assert await robots.seen() == "model=old, waited"  # the first one has to
        await robots.change()
        await asyncio.sleep(29)
        assert await robots.seen() == "model=old"  # half a minute: it is not even asked
        await asyncio.sleep(4)
        assert robots.asked() == 1
        assert [await robots.seen() for _ in range(3)] == ["model=old"] * 3
        await asyncio.sleep(6)
        assert robots.asked() == 2
        assert await robots.seen() == "model=new"

    among_robots(test)


def test_after_ten_minutes_it_is_waited_for() -> None:
    async def test(robots: Robots) -> None:
        robots.fail(SLOW)
        await robots.seen()
        await robots.change()
        await asyncio.sleep(599)
        assert await robots.seen() == "model=old"
        await asyncio.sleep(599)  # it was fetched meanwhile
        assert await robots.seen() == "model=new"
        await asyncio.sleep(620)
        assert await robots.seen() == "model=new, waited"

    among_robots(test)


def test_who_looks_once_a_minute_always_waits_for_what_is_true_now() -> None:
    """The recommender and the updater: a cycle that is a minute behind would gain nothing."""

    async def test(robots: Robots) -> None:
        robots.fail(SLOW)
        await robots.seen()
        await robots.change()
        await asyncio.sleep(31)
        assert await robots.seen() == "model=new, waited"

    among_robots(test, ahead=False)


def test_an_api_server_in_trouble_takes_nothing_away_for_ten_minutes() -> None:
    async def test(robots: Robots) -> None:
        await robots.seen()
        over = robots.fail(TROUBLE)
        for _ in range(19):
            await asyncio.sleep(31)
            assert await robots.seen() == "model=old"
            assert isinstance(robots.owners(), Found)
        await asyncio.sleep(1)
        tried = robots.asked()
        assert await robots.seen() == "model=old"
        await asyncio.sleep(1)
        assert robots.asked() == tried  # not more often than every half minute
        await asyncio.sleep(30)
        assert await robots.seen() == "Unavailable, waited"
        assert await robots.seen() == "Unavailable"
        over()
        await asyncio.sleep(31)
        assert (await robots.seen()).startswith("model=old")

    among_robots(test)


def test_a_robot_that_is_gone_is_gone_once_that_is_known() -> None:
    async def test(robots: Robots) -> None:
        await robots.seen()
        await robots.client.delete(ROBOTS, "marvin", namespace="default")
        await asyncio.sleep(31)
        assert await robots.seen() == "model=old"
        await asyncio.sleep(1)
        assert await robots.seen() == "NoScale"

    among_robots(test)


def test_owners_that_are_asked_for_are_never_forgotten() -> None:
    async def test(robots: Robots) -> None:
        await robots.scales.fetch(MARVIN)
        for _ in range(10):
            await asyncio.sleep(299)
            assert isinstance(robots.owners(), Found)
        assert robots.asked() <= 11

    among_robots(test)


def test_a_few_are_fetched_at_a_time() -> None:
    async def test(robots: Robots) -> None:
        names = [f"robot-{number}" for number in range(20)]
        for name in names:
            await robots.make(name)
            await robots.seen(name)
        before = robots.asked()
        robots.fail(SLOW)
        await asyncio.sleep(31)
        for _ in range(2):
            assert [await robots.seen(name) for name in names] == ["model=old"] * 20
        await asyncio.sleep(6)
        assert robots.asked() - before == 8
        for _ in range(2):
            assert [await robots.seen(name) for name in names] == ["model=old"] * 20
            await asyncio.sleep(6)
        assert robots.asked() - before == 20

    among_robots(test)


async def test_no_more_is_remembered_than_anybody_has_use_for() -> None:
    many = [Controller("default", "Robot", f"{n}", "no.example/v1") for n in range(20_001)]
    async with FakeApi() as api, api.client() as client:
        scales = Scales(client, ahead=True)
        for each in many:
            await scales.fetch(each)
        assert len(api.requests) == 1
        assert scales.answer(many[0]) == Unknown()
        assert isinstance(scales.answer(many[1]), Failed)
        assert isinstance(scales.answer(many[-1]), Failed)


async def test_the_kinds_that_are_remembered_are_bounded_too() -> None:
    kinds = [Controller("default", "Robot", "x", f"{n}.example/v1") for n in range(1001)]
    async with FakeApi() as api, api.client() as client:
        scales = Scales(client)
        for each in (*kinds, kinds[-1], kinds[0]):
            await scales.fetch(each)
        assert api.routes.count("GET /apis/1000.example") == 1
        assert api.routes.count("GET /apis/0.example") == 2

"""What scripted faults of watches do to our caches: what is late, what is lost (nothing), and
whether the cache knows that it is behind. In virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from common.kube.cache import Cache, Change
from common.kube.client import KubeClient, PatchType
from common.kube.endpoints import Endpoint
from sandbox import virtual_time
from sandbox.apiserver.faults import ApiFault
from sandbox.cluster import Cluster, running_cluster
from sandbox.description import Section
from sandbox.scenario import parse_scenario
from sandbox.virtual_time import VirtualClock

CONFIG_MAPS = Endpoint("", "v1", "configmaps", "ConfigMap", dict[str, Any])
MINUTE, HOUR = 60, 3600


def rule(**raw: Any) -> ApiFault:
    calls = {"user-agent": "follower/*", "resource": "configmaps"}
    return ApiFault.parse(
        Section(
            {"match": calls | raw.pop("match", {})}
            | {name.replace("_", "-"): value for name, value in raw.items()},
            "rule",
        )
    )


@dataclass
class Follower:
    """A cache of the config maps in a namespace, and what it was told when."""

    cluster: Cluster
    cache: Cache[dict[str, Any]] = field(init=False)
    began: float = 0.0
    told: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return asyncio.get_running_loop().time() - self.began

    def note(self, change: Change[dict[str, Any]]) -> None:
        found = change.new or change.old
        assert found is not None
        name = found["metadata"]["name"]
        if name != "kube-root-ca.crt":
            sign = "-" if change.new is None else "" if change.old else "+"
            self.told.append(f"{sign}{name}@{self.seconds:.0f}")

    def watches(self) -> int:
        """How many watches it has begun."""
        return len(self.cluster.audit(verb="watch", userAgent="follower/"))


Test = Callable[[Follower, KubeClient], Awaitable[None]]


def following(test: Test, *rules: ApiFault) -> None:
    """Run ``test`` beside a cache that meets faults from its first watch on."""

    async def main(clock: VirtualClock) -> None:
        async with (
            running_cluster(parse_scenario("namespaces: [shop]"), clock=clock) as cluster,
            cluster.client("follower/1") as follower,
            cluster.client("test/1") as client,
            asyncio.TaskGroup() as group,
        ):
            for one in rules:
                cluster.api.faults.add(one)
            it = Follower(cluster)
            it.cache = Cache(follower, CONFIG_MAPS, namespace="shop", on_change=it.note)
            task = group.create_task(it.cache.run())
            await it.cache.wait_synced()
            await asyncio.sleep(0.5)  # virtual: the watch stands
            it.began = asyncio.get_running_loop().time()
            await test(it, client)
            task.cancel()

    virtual_time.run(main)


async def create(client: KubeClient, *names: str) -> None:
    """One each second."""
    for name in names:
        await asyncio.sleep(1)
        await client.create(CONFIG_MAPS, {"metadata": {"name": name}}, namespace="shop")


WATCHES = {"match": {"verb": "watch"}}


@dataclass(frozen=True, kw_only=True)
class Case:
    """Three objects are made after one, two and three seconds."""

    id: str
    effect: dict[str, Any]
    want: list[str]
    lasts: float = 20.0  # seconds until we look at what the cache was told


CASES = [
    Case(id="nothing wrong", effect={"delay": 0}, want=["+a@1", "+b@2", "+c@3"]),
    Case(
        id="a pause between two events: the later ones come later",
        effect={"watch_pause": "4s"},
        want=["+a@1", "+b@5", "+c@9"],
    ),
    Case(
        id="a delay: events come in bundles",
        effect={"watch_delay": "5s"},
        want=["+a@6", "+b@11", "+c@11"],
    ),
    Case(
        id="events twice: told once",
        effect={"watch_duplicates": True},
        want=["+a@1", "+b@2", "+c@3"],
    ),
    Case(
        id="no bookmarks: nobody misses them",
        effect={"watch_bookmarks": False},
        want=["+a@1", "+b@2", "+c@3"],
    ),
    Case(
        id="a watch that pauses ends in time all the same",
        effect={"watch_pause": HOUR, "watch_end": "5s"},
        want=["+a@1", "+b@4", "+c@4"],
    ),
    Case(
        id="watches that end properly: gone on from the last version",
        effect={"watch_end": "1700ms"},
        want=["+a@1", "+b@2", "+c@3"],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_cache_is_told_of(case: Case) -> None:
    async def test(it: Follower, client: KubeClient) -> None:
        await create(client, "a", "b", "c")
        await asyncio.sleep(case.lasts)
        assert it.told == case.want
        assert it.cache.fresh

    following(test, rule(**WATCHES, **case.effect))


def test_a_watch_that_pauses_is_silent_and_open_and_the_cache_can_not_know() -> None:
    async def test(it: Follower, client: KubeClient) -> None:
        await create(client, "a", "b")
        await client.delete(CONFIG_MAPS, "a", namespace="shop")
        await asyncio.sleep(2 * MINUTE)
        assert it.told == ["+a@1"]
        assert it.cache.get("shop", "a") is not None, "an object that is gone long since"
        assert it.cache.fresh, "the connection stands, and a quiet one looks the same"
        assert it.watches() == 1
        # Three minutes without a byte are enough: the next watch begins where this one stood.
        await asyncio.sleep(10 * MINUTE)
        names = [line.partition("@")[0] for line in it.told]
        assert names == ["+a", "+b", "-a"]
        assert [180 < float(line.partition("@")[2]) < 380 for line in it.told[1:]] == [True, True]
        assert it.cache.get("shop", "a") is None

    following(test, rule(**WATCHES, watch_pause=HOUR))


def test_a_watch_that_says_nothing_at_all_is_left_after_three_minutes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(it: Follower, client: KubeClient) -> None:
        await create(client, "a")
        await asyncio.sleep(2 * MINUTE)
        assert (it.told, it.cache.fresh, it.watches()) == ([], True, 1)
        await asyncio.sleep(2 * MINUTE)
        (line,) = it.told
        assert 179 < float(line.removeprefix("+a@")) < 190
        assert it.cache.fresh

    following(test, rule(**WATCHES, watch_delay=HOUR, count=1))
    assert [one for one in caplog.records if one.levelname == "ERROR"] == []


@dataclass(frozen=True, kw_only=True)
class Break:
    """What keeps a cache from watching, for the first twenty seconds."""

    id: str
    effect: dict[str, Any]
    error: str  # the code of the answers, or nothing where there are none


BREAKS = [
    Break(id="connections that break without an answer", effect={"drop": True}, error=""),
    Break(id="connections that break soon after", effect={"watch_cut": "100ms"}, error="200"),
    Break(id="an overloaded server", effect={"refuse": 429, "retry_after": 3}, error="429"),
    Break(id="a conflict", effect={"refuse": 409}, error="409"),
    Break(id="an internal error", effect={"refuse": 500}, error="500"),
    Break(id="a server that is unavailable", effect={"refuse": 503}, error="503"),
    Break(id="a token that isn't known", effect={"refuse": 401}, error="401"),
    Break(id="a right that is gone", effect={"refuse": 403}, error="403"),
]


@pytest.mark.parametrize("case", BREAKS, ids=lambda case: case.id)
def test_a_cache_knows_that_it_is_behind_for(case: Break) -> None:
    async def test(it: Follower, client: KubeClient) -> None:
        heal = it.cluster.api.faults.add(rule(**WATCHES, **case.effect))
        # Watches that stand go on: they are cut off, as a server does that goes away.
        await it.cluster.restart_api_server()
        await create(client, "a", "b")
        await client.patch(
            CONFIG_MAPS,
            "b",
            {"data": {"x": "y"}},
            patch_type=PatchType.MERGE,
            namespace="shop",
        )
        await client.delete(CONFIG_MAPS, "a", namespace="shop")
        await asyncio.sleep(18)
        known = [it.cache.fresh]
        heal()
        await asyncio.sleep(2 * MINUTE)
        known.append(it.cache.fresh)
        assert known == [False, True]
        assert it.cache.get("shop", "a") is None
        found = it.cache.get("shop", "b")
        assert found is not None
        assert found["data"] == {"x": "y"}
        if case.error:
            codes = {str(one.code) for one in it.cluster.audit(verb="watch", userAgent="follower/")}
            assert case.error in codes

    following(test)


def test_a_cache_is_not_disturbed_by_a_clock_that_jumps() -> None:
    async def test(it: Follower, client: KubeClient) -> None:
        await create(client, "a")
        for jump in (timedelta(hours=2), timedelta(hours=-4)):
            it.cluster.clock.jump(jump)
        await create(client, "b")
        await asyncio.sleep(10)
        assert it.told == ["+a@1", "+b@2"]
        assert (it.cache.fresh, it.watches()) == (True, 1)

    following(test)

"""Scripted faults of watches: caches lose no event, and detect if they are stale. Virtual time."""

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
from sandbox.apiserver.faults import ApiFault, Calls, Effect, Refusal
from sandbox.cluster import Cluster, running_cluster
from sandbox.scenario import parse_scenario
from sandbox.virtual_time import VirtualClock

CONFIG_MAPS = Endpoint("", "v1", "configmaps", "ConfigMap", dict[str, Any])
MINUTE, HOUR = 60, 3600


def rule(verb: str = "", *, count: int | None = None, **effect: Any) -> ApiFault:
    calls = Calls(verb=verb, user_agent="follower/*", resource="configmaps")
    return ApiFault(calls=calls, effect=Effect(**effect), count=count)


@dataclass
class Recorder:
    """A cache of the config maps in a namespace, and the times of its events."""

    cluster: Cluster
    cache: Cache[dict[str, Any]] = field(init=False)
    began: float = 0.0
    lines: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return asyncio.get_running_loop().time() - self.began

    def note(self, change: Change[dict[str, Any]]) -> None:
        found = change.new or change.old
        assert found is not None
        name = found["metadata"]["name"]
        if name != "kube-root-ca.crt":
            sign = "-" if change.new is None else "" if change.old else "+"
            self.lines.append(f"{sign}{name}@{self.seconds:.0f}")

    def watches(self) -> int:
        """Return the number of started watches."""
        return len(self.cluster.audit(verb="watch", userAgent="follower/"))


Test = Callable[[Recorder, KubeClient], Awaitable[None]]


def following(test: Test, *rules: ApiFault) -> None:
    """Run a test with a cache, with faults from its first watch."""

    async def main(clock: VirtualClock) -> None:
        async with (
            running_cluster(parse_scenario("namespaces: [shop]"), clock=clock) as cluster,
            cluster.client("follower/1") as follower,
            cluster.client("test/1") as client,
            asyncio.TaskGroup() as group,
        ):
            for one in rules:
                cluster.api.faults.add(one)
            recorder = Recorder(cluster)
            recorder.cache = Cache(follower, CONFIG_MAPS, namespace="shop", on_change=recorder.note)
            task = group.create_task(recorder.cache.run())
            await recorder.cache.wait_synced()
            await asyncio.sleep(0.5)  # virtual time, in which the watch begins
            recorder.began = asyncio.get_running_loop().time()
            await test(recorder, client)
            task.cancel()

    virtual_time.run(main)


async def create(client: KubeClient, *names: str) -> None:
    """Create one object each second."""
    for name in names:
        await asyncio.sleep(1)
        await client.create(CONFIG_MAPS, {"metadata": {"name": name}}, namespace="shop")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A fault, while three objects are created after one, two and three seconds."""

    id: str
    effect: dict[str, Any]
    want: list[str]
    lasts: float = 20.0  # seconds until the events are compared


CASES = [
    Case(id="no fault", effect={"delay": 0.0}, want=["+a@1", "+b@2", "+c@3"]),
    Case(
        id="a pause between two events: later ones are delayed",
        effect={"watch_pause": 4.0},
        want=["+a@1", "+b@5", "+c@9"],
    ),
    Case(
        id="a delay: events arrive together",
        effect={"watch_delay": 5.0},
        want=["+a@6", "+b@11", "+c@11"],
    ),
    Case(
        id="duplicate events: reported once",
        effect={"watch_duplicates": True},
        want=["+a@1", "+b@2", "+c@3"],
    ),
    Case(
        id="no bookmarks: no effect",
        effect={"watch_bookmarks": False},
        want=["+a@1", "+b@2", "+c@3"],
    ),
    Case(
        id="a watch that pauses ends in time all the same",
        effect={"watch_pause": HOUR, "watch_end": 5.0},
        want=["+a@1", "+b@4", "+c@4"],
    ),
    Case(
        id="watches that end: continued from the last version",
        effect={"watch_end": 1.7},
        want=["+a@1", "+b@2", "+c@3"],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_events_of_a_cache_with_a_fault(case: Case) -> None:
    async def test(recorder: Recorder, client: KubeClient) -> None:
        await create(client, "a", "b", "c")
        await asyncio.sleep(case.lasts)
        assert recorder.lines == case.want
        assert recorder.cache.fresh

    following(test, rule("watch", **case.effect))


def test_a_cache_cannot_detect_a_paused_watch() -> None:
    async def test(recorder: Recorder, client: KubeClient) -> None:
        await create(client, "a", "b")
        await client.delete(CONFIG_MAPS, "a", namespace="shop")
        await asyncio.sleep(2 * MINUTE)
        assert recorder.lines == ["+a@1"]
        assert recorder.cache.get("shop", "a") is not None, "an object that was deleted long before"
        assert recorder.cache.fresh, "the connection is open, as that of a quiet watch"
        assert recorder.watches() == 1
        # After three minutes without a byte, the next watch continues from its version.
        await asyncio.sleep(10 * MINUTE)
        names = [line.partition("@")[0] for line in recorder.lines]
        assert names == ["+a", "+b", "-a"]
        assert [180 < float(line.partition("@")[2]) < 380 for line in recorder.lines[1:]] == [
            True,
            True,
        ]
        assert recorder.cache.get("shop", "a") is None

    following(test, rule("watch", watch_pause=HOUR))


def test_a_silent_watch_is_closed_after_three_minutes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(recorder: Recorder, client: KubeClient) -> None:
        await create(client, "a")
        await asyncio.sleep(2 * MINUTE)
        assert (recorder.lines, recorder.cache.fresh, recorder.watches()) == ([], True, 1)
        await asyncio.sleep(2 * MINUTE)
        (line,) = recorder.lines
        assert 179 < float(line.removeprefix("+a@")) < 190
        assert recorder.cache.fresh

    following(test, rule("watch", watch_delay=HOUR, count=1))
    assert [one for one in caplog.records if one.levelname == "ERROR"] == []


@dataclass(frozen=True, kw_only=True)
class Break:
    """A fault that prevents watches for the first twenty seconds."""

    id: str
    effect: dict[str, Any]
    error: str  # the code of the responses, or None without responses


BREAKS = [
    Break(id="connections that break without an answer", effect={"drop": True}, error=""),
    Break(id="connections that break soon after", effect={"watch_cut": 0.1}, error="200"),
    Break(
        id="an overloaded server", effect={"refuse": Refusal(429), "retry_after": 3}, error="429"
    ),
    Break(id="a conflict", effect={"refuse": Refusal(409)}, error="409"),
    Break(id="an internal error", effect={"refuse": Refusal(500)}, error="500"),
    Break(id="a server that is unavailable", effect={"refuse": Refusal(503)}, error="503"),
    Break(id="an unknown token", effect={"refuse": Refusal(401)}, error="401"),
    Break(id="a removed permission", effect={"refuse": Refusal(403)}, error="403"),
]


@pytest.mark.parametrize("case", BREAKS, ids=lambda case: case.id)
def test_a_cache_detects_that_it_is_stale(case: Break) -> None:
    async def test(recorder: Recorder, client: KubeClient) -> None:
        heal = recorder.cluster.api.faults.add(rule("watch", **case.effect))
        # Open watches would continue, so they are cut off, as by a stopped server.
        await recorder.cluster.restart_api_server()
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
        known = [recorder.cache.fresh]
        heal()
        await asyncio.sleep(2 * MINUTE)
        known.append(recorder.cache.fresh)
        assert known == [False, True]
        assert recorder.cache.get("shop", "a") is None
        found = recorder.cache.get("shop", "b")
        assert found is not None
        assert found["data"] == {"x": "y"}
        if case.error:
            codes = {
                str(one.code) for one in recorder.cluster.audit(verb="watch", userAgent="follower/")
            }
            assert case.error in codes

    following(test)


def test_a_clock_jump_does_not_affect_a_cache() -> None:
    async def test(recorder: Recorder, client: KubeClient) -> None:
        await create(client, "a")
        for jump in (timedelta(hours=2), timedelta(hours=-4)):
            recorder.cluster.clock.jump(jump)
        await create(client, "b")
        await asyncio.sleep(10)
        assert recorder.lines == ["+a@1", "+b@2"]
        assert (recorder.cache.fresh, recorder.watches()) == (True, 1)

    following(test)

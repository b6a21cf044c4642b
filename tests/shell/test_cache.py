"""Informer caches: list, watch and list again, and their content meanwhile."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from common.api.core import Pod
from common.kube.cache import Cache, Change
from common.kube.endpoints import PODS
from common.kube.watch_recovery import Pauses
from fake_api import FakeApi, Hasty, Reply, listing, named, status, until, watch_line

LIST = "GET /api/v1/pods"
WATCH = "WATCH /api/v1/pods"
SILENCE = Reply(chunks=[], hold=True)
TOO_OLD = Reply(chunks=[watch_line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})])


class ChangeLog:
    """A list of changes as texts: ``+a@1``, ``a@1>2``, ``-a@2``."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.changed = asyncio.Event()

    def record(self, change: Change[Pod]) -> None:
        old, new = change.old, change.new
        if old is None and new is not None:
            self.lines.append(f"+{new.metadata.name}@{new.metadata.resource_version}")
        elif new is None and old is not None:
            self.lines.append(f"-{old.metadata.name}@{old.metadata.resource_version}")
        elif old is not None and new is not None:
            versions = f"{old.metadata.resource_version}>{new.metadata.resource_version}"
            self.lines.append(f"{new.metadata.name}@{versions}")
        self.changed.set()

    async def wait_for_lines(self, count: int) -> list[str]:
        async with asyncio.timeout(10):
            while len(self.lines) < count:
                self.changed.clear()
                await self.changed.wait()
        return self.lines


@contextlib.asynccontextmanager
async def running_cache(
    api: FakeApi, record: Callable[[Change[Pod]], None] | None = None
) -> AsyncIterator[Cache[Pod]]:
    async with api.client() as client, asyncio.TaskGroup() as group:
        cache = Cache(client, PODS, on_change=record)
        task = group.create_task(cache.run())
        try:
            yield cache
        finally:
            task.cancel()


async def test_a_cache_lists_and_then_watches() -> None:
    changes = ChangeLog()
    async with FakeApi() as api:
        api.on(LIST, listing(named("a", 1), named("b", 2), version=10))
        events = (
            watch_line("ADDED", named("c", 11)),
            watch_line("MODIFIED", named("a", 12)),
            watch_line("MODIFIED", named("a", 12)),  # a server may repeat events
            watch_line("BOOKMARK", {"metadata": {"resourceVersion": "13"}}),
            watch_line("DELETED", named("b", 14)),
        )
        api.on(WATCH, Reply(chunks=events, hold=True))
        async with running_cache(api, changes.record) as cache:
            assert not cache.synced
            assert len(cache.snapshot) == 0
            await cache.wait_synced()
            assert await changes.wait_for_lines(5) == ["+a@1", "+b@2", "+c@11", "a@1>12", "-b@2"]
            assert sorted(pod.metadata.name for pod in cache.snapshot.items()) == ["a", "c"]
        assert api.requests[1].query["resourceVersion"] == "10"


async def test_an_object_that_nests_deeply_does_not_end_a_watch() -> None:
    deep = msgspec.Raw(b"[" * 9900 + b"]" * 9900)
    changes = ChangeLog()
    async with FakeApi() as api:
        api.on(LIST, listing(version=10))
        events = (
            watch_line("ADDED", named("deep", 11, unknown=deep)),
            watch_line("ADDED", named("b", 12)),
        )
        api.on(WATCH, Reply(chunks=events, hold=True))
        async with running_cache(api, changes.record):
            assert await changes.wait_for_lines(2) == ["+deep@11", "+b@12"]
        assert api.routes.count(LIST) == 1


async def test_a_watch_continues_from_the_last_version() -> None:
    async with FakeApi() as api:
        api.on(LIST, listing(version=10))
        bookmark = watch_line("BOOKMARK", {"metadata": {"resourceVersion": "40"}})
        api.on(WATCH, Reply(chunks=[bookmark]), Reply(chunks=[bookmark[:9]], cut=True), SILENCE)
        async with running_cache(api):
            last = await api.asked(WATCH, times=3)
    assert last.query["resourceVersion"] == "40"
    assert api.routes.count(LIST) == 1


@pytest.mark.parametrize("gone", [TOO_OLD, status(410, "Gone")], ids=["in the stream", "status"])
async def test_a_version_that_is_too_old_causes_a_new_list(gone: Reply) -> None:
    changes = ChangeLog()
    async with FakeApi() as api:
        api.on(
            LIST,
            listing(named("a", 1), named("b", 2), named("c", 3), version=10),
            listing(named("a", 1), named("b", 12), named("d", 13), version=20),
        )
        api.on(WATCH, gone, SILENCE)
        async with running_cache(api, changes.record) as cache:
            await cache.wait_synced()
            before = cache.snapshot
            lines = await changes.wait_for_lines(6)
            assert lines[3:] == ["-c@3", "b@2>12", "+d@13"]
            assert cache.get("shop", "a") is before.get("shop", "a")  # unchanged: the very same
            last = await api.asked(WATCH, times=2)
    assert last.query["resourceVersion"] == "20"


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(b"<html>gateway trouble</html>\n", id="no event"),
        pytest.param(
            watch_line("ERROR", {"kind": "Status", "code": 500, "reason": "InternalError"}),
            id="an error event other than 410",
        ),
    ],
)
async def test_an_event_that_cannot_be_handled_causes_a_new_list(bad: bytes) -> None:
    """Each watch from the same version would send it again."""
    async with FakeApi() as api:
        api.on(LIST, listing(named("a", 1), version=10), listing(named("b", 12), version=20))
        api.on(WATCH, Reply(chunks=[bad], hold=True), SILENCE)
        async with running_cache(api) as cache:
            last = await api.asked(WATCH, times=2)
            assert [pod.metadata.name for pod in cache.snapshot.items()] == ["b"]
    assert last.query["resourceVersion"] == "20"


async def test_objects_are_current_while_the_watch_is_open() -> None:
    async with FakeApi() as api:
        api.on(LIST, listing(named("a", 1)))
        api.on(WATCH, SILENCE)
        async with running_cache(api) as cache:
            seen = [cache.fresh]
            await cache.wait_synced()
            seen.append(cache.fresh)
            await api.asked(WATCH)
            await api.stop()
            await until(lambda: not cache.fresh)
            assert len(cache.snapshot) == 1  # outdated, but still readable
            await api.start()
            await api.asked(WATCH, times=2)
            seen.append(cache.fresh)  # missed events may still arrive
            await until(lambda: cache.fresh)
    assert seen == [False, True, False]
    assert api.routes.count(LIST) == 1


async def test_a_refused_watch_makes_the_cache_stale() -> None:
    """Other requests may succeed meanwhile."""
    async with FakeApi() as api:
        api.on(LIST, listing(named("a", 1)))
        api.on(WATCH, status(403, "Forbidden"))
        async with running_cache(api) as cache:
            await cache.wait_synced()
            await until(lambda: not cache.fresh)
            api.on(WATCH, TOO_OLD, SILENCE)
            await api.asked(LIST, times=2)
            await until(lambda: cache.fresh)


async def test_an_incomplete_list_is_never_visible() -> None:
    async with FakeApi() as api:
        api.on(
            LIST,
            listing(named("a", 1), continue_="more"),
            status(403, "Forbidden"),
            listing(named("a", 1), named("b", 2)),
        )
        api.on(WATCH, SILENCE)
        sizes = []
        async with running_cache(api, lambda _: None) as cache:
            while not cache.synced:
                sizes.append(len(cache.snapshot))
                await asyncio.sleep(0)
            assert len(cache.snapshot) == 2
    assert set(sizes) == {0}


async def test_an_object_that_can_no_longer_be_decoded_is_removed() -> None:
    changes = ChangeLog()
    async with FakeApi() as api:
        api.on(LIST, listing(named("a", 1)))
        strange = watch_line("MODIFIED", named("a", 11, status={"phase": 1}))
        api.on(WATCH, Reply(chunks=[strange], hold=True))
        async with running_cache(api, changes.record) as cache:
            assert await changes.wait_for_lines(2) == ["+a@1", "-a@1"]
            assert cache.get("shop", "a") is None


async def test_a_snapshot_does_not_change() -> None:
    changes = ChangeLog()
    async with FakeApi() as api:
        api.on(LIST, listing(named("a", 1), named("x", 2, namespace="other")))
        api.on(WATCH, SILENCE)
        async with running_cache(api, changes.record) as cache:
            await cache.wait_synced()
            before = cache.snapshot
            assert cache.snapshot is before  # unchanged
            assert [p.metadata.name for p in before.in_namespace("shop")] == ["a"]
            assert before.in_namespace("nowhere") == ()

    async with FakeApi() as api:
        api.on(LIST, listing(named("a", 1), named("x", 2, namespace="other")))
        more = (watch_line("ADDED", named("b", 11)), watch_line("DELETED", named("a", 12)))
        api.on(WATCH, Reply(chunks=more, hold=True))
        seen = []

        def look(change: Change[Pod]) -> None:
            seen.append((cache.snapshot, len(cache.snapshot)))

        async with running_cache(api, look) as cache:
            await until(lambda: len(seen) == 4)
            assert [len(snapshot) for snapshot, _ in seen] == [size for _, size in seen]
            assert [size for _, size in seen] == [2, 2, 3, 2]
            first, last = seen[0][0], seen[-1][0]
            assert first.get("shop", "a") is not None
            assert last.get("shop", "a") is None
            assert first.get("other", "x") is last.get("other", "x")
            was, now = first.by_namespace(), last.by_namespace()
            assert was["other"] is now["other"]  # unchanged
            assert was["shop"] is not now["shop"]
            assert sorted(last.namespaces()) == ["other", "shop"]


async def test_the_beginning_and_end_of_an_outage_are_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="common.kube")
    denied = status(403, "Forbidden", "pods is forbidden")
    async with FakeApi() as api:
        api.on(LIST, denied, denied, denied, listing(named("a", 1)))
        api.on(WATCH, SILENCE)
        async with running_cache(api) as cache:
            await cache.wait_synced()
    assert [record.message for record in caplog.records] == [
        "can't follow the resource, trying again",
        "following again",
    ]


@pytest.mark.parametrize(
    ("count", "warnings"),
    [(1, []), (2, ["can't follow the resource, trying again"])],
    ids=["once", "twice"],
)
async def test_a_server_that_asks_for_a_pause_is_a_trouble_if_it_asks_again(
    count: int, warnings: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Right after a definition was created, the answer is "storage is (re)initializing"."""
    caplog.set_level(logging.INFO, logger="common.kube")
    busy = status(429, "TooManyRequests", "storage is (re)initializing")
    async with FakeApi() as api:
        api.on(LIST, listing(named("a", 1)))
        api.on(WATCH, *(busy for _ in range(count)), SILENCE)
        async with running_cache(api) as cache:
            await cache.wait_synced()
            await api.asked(WATCH, times=count + 1)
    assert [one.message for one in caplog.records if one.levelno == logging.WARNING] == warnings


async def test_two_caches_log_an_outage_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="common.kube")
    api = FakeApi()
    await api.start()
    api.on(LIST, listing(named("a", 1)))
    api.on(WATCH, SILENCE)
    async with api.client() as client, asyncio.TaskGroup() as group:
        caches = [Cache(client, PODS) for _ in range(2)]
        tasks = [group.create_task(cache.run()) for cache in caches]
        for cache in caches:
            await cache.wait_synced()
        await api.asked(WATCH, times=2)
        await api.stop()
        await until(lambda: not client.reachable)
        assert all(len(cache.snapshot) == 1 for cache in caches)
        await api.start()
        await until(lambda: client.reachable)
        for task in tasks:
            task.cancel()
    await api.stop()
    assert [record.message for record in caplog.records] == [
        "API server unreachable, trying again until it is back",
        "API server reachable again",
    ]


def test_pauses_double_up_to_thirty_seconds() -> None:
    class Longest(Hasty):
        def uniform(self, a: float, b: float) -> float:
            return b

    pauses = Pauses(Longest())
    assert [pauses.next() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    pauses.used()
    assert pauses.after_use() == 0
    assert pauses.after_use() == 1  # after a watch without events there is a pause
    assert pauses.next() == 2


def test_pauses_are_spread_by_half() -> None:
    class Shortest(Hasty):
        def uniform(self, a: float, b: float) -> float:
            return a

    assert Pauses(Shortest()).next() == 0.5


ANSWERS = [
    ("a list", [listing(named("a"))], True),
    ("a refusal", [status(403, "Forbidden")], False),
    ("the resource isn't served", [status(404, "NotFound")], False),
    ("no list is no answer", [Reply(body="[", status=200), listing()], True),
    ("a failure is no answer", [status(501, "NotImplemented"), listing()], True),
]


@pytest.mark.parametrize(
    ("replies", "synced"), [pytest.param(*case, id=name) for name, *case in ANSWERS]
)
async def test_the_first_answer_can_be_awaited(
    replies: list[Reply],
    synced: bool,  # noqa: FBT001 - a column of the table
) -> None:
    async with FakeApi() as api:
        api.on(LIST, *replies)
        api.on(WATCH, SILENCE)
        async with running_cache(api) as cache, asyncio.timeout(10):
            await cache.wait_answered()
            assert cache.synced is synced

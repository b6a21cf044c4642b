"""Watches over HTTP: their parameters and their end."""

import contextlib

import pytest

from common.errors import ForbiddenError, GoneError, UnreachableError
from common.kube.client import KubeClient
from common.kube.endpoints import PODS
from fake_api import FakeApi, Reply, named, status, watch_line

WATCH = "WATCH /api/v1/pods"
ADDED = watch_line("ADDED", named("a", 11))
TOO_OLD = watch_line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})


async def names(client: KubeClient, version: str = "10") -> list[str]:
    events = client.watch(PODS, resource_version=version, field_selector="status.phase!=Failed")
    async with contextlib.aclosing(events):
        return [event.name async for event in events]


async def test_a_watch_requests_bookmarks_and_a_timeout() -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(WATCH, Reply(chunks=[ADDED[:20], ADDED[20:]]))
        assert await names(client) == ["a"]
    query = dict(api.requests[0].query)
    assert 300 <= int(query.pop("timeoutSeconds")) <= 600
    assert query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "10",
        "fieldSelector": "status.phase!=Failed",
    }


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(status(410, "Expired"), id="as the status"),
        pytest.param(Reply(chunks=[ADDED, TOO_OLD]), id="in the stream"),
    ],
)
async def test_a_version_that_is_too_old(reply: Reply) -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(WATCH, reply)
        with pytest.raises(GoneError):
            await names(client)


async def test_a_stream_that_breaks_within_a_line() -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(WATCH, Reply(chunks=[ADDED, ADDED[:15]], cut=True))
        events = client.watch(PODS, resource_version="10")
        assert (await anext(events)).resource_version == "11"
        with pytest.raises(UnreachableError):
            await anext(events)
        assert client.reachable  # it responded; the next call shows if it still does


async def test_a_refused_watch_raises_the_error_of_the_response() -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(WATCH, status(403, "Forbidden"))
        with pytest.raises(ForbiddenError):
            await names(client)


async def test_a_watch_that_is_left_early_closes_its_connection() -> None:
    async with FakeApi() as api, api.client() as client:
        api.on(WATCH, Reply(chunks=[ADDED], hold=True))
        events = client.watch(PODS, resource_version="10")
        async with contextlib.aclosing(events):
            async for event in events:
                assert event.name == "a"
                break

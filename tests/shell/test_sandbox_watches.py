"""Watches: their events, their beginning and their end."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from asgi import Watching, scope_of
from sandbox.virtual_time import run
from sandbox_client import Api, api_server, pod

PODS = "/api/v1/namespaces/golden/pods"


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with api_server() as server:
        yield server


async def seen(api: Api, query: str, *, path: str = PODS) -> list[tuple[str, str]]:
    """Return type and name of the events so far, from a watch that then ends."""
    api.server.stop_watches()
    events = (await api("GET", f"{path}?watch=true&{query}")).lines
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


async def test_a_watch_without_a_version_begins_with_existing_objects(api: Api) -> None:
    await api.make(PODS, pod("a"))
    await api.make(PODS, pod("b"))
    both = [("ADDED", "a"), ("ADDED", "b")]
    assert await seen(api, "") == both
    assert await seen(api, "resourceVersion=0") == both
    assert await seen(api, f"resourceVersion={api.store.version}") == []


async def test_a_watch_from_a_version_has_later_events(api: Api) -> None:
    await api.make(PODS, pod("a"))
    at = api.store.version
    await api.make(PODS, pod("b"))
    await api.merge(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}})
    await api("DELETE", f"{PODS}/b")
    # A pod is marked as deleted before its deletion, even without a grace period.
    later = [("ADDED", "b"), ("MODIFIED", "a"), ("MODIFIED", "b"), ("DELETED", "b")]
    assert await seen(api, f"resourceVersion={at}") == later
    assert await seen(api, f"resourceVersion={at + 2}") == later[2:]
    assert await seen(api, f"resourceVersion={at}", path="/api/v1/pods") == later
    elsewhere = "/api/v1/namespaces/default/pods"
    assert await seen(api, f"resourceVersion={at}", path=elsewhere) == []


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        pytest.param("labelSelector=on", ["ADDED", "MODIFIED", "DELETED"], id="enters and leaves"),
        pytest.param(
            "labelSelector=!on", ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"], id="inverse"
        ),
        pytest.param("labelSelector=other", [], id="never in it"),
        pytest.param("fieldSelector=metadata.name%3Dother", [], id="another name"),
    ],
)
async def test_objects_enter_and_leave_a_selection(
    api: Api, selector: str, want: list[str]
) -> None:
    at = api.store.version
    await api.make(PODS, pod("a"))
    for labels in ({"on": "1"}, {"on": "2"}, {"on": None}):
        await api.merge(f"{PODS}/a", {"metadata": {"labels": labels}})
    await api("DELETE", f"{PODS}/a")
    events = await seen(api, f"resourceVersion={at}&{selector}")
    assert [type_ for type_, _ in events] == want


async def test_an_object_that_leaves_a_selection_is_sent_in_its_old_state_with_the_new_version(
    api: Api,
) -> None:
    body = pod("a")
    body["metadata"]["labels"] = {"on": "1"}
    await api.make(PODS, body)
    at = api.store.version
    await api.merge(f"{PODS}/a", {"metadata": {"labels": {"on": None}}})
    api.server.stop_watches()
    [event] = (await api("GET", f"{PODS}?watch=1&resourceVersion={at}&labelSelector=on")).lines
    assert event["type"] == "DELETED"
    assert event["object"]["metadata"]["labels"] == {"on": "1"}
    assert event["object"]["metadata"]["resourceVersion"] == str(api.store.version)


async def test_watched_objects_have_their_kind(api: Api) -> None:
    await api.make(PODS, pod("a"))
    api.server.stop_watches()
    [event] = (await api("GET", f"{PODS}?watch=1")).lines
    assert (event["object"]["kind"], event["object"]["apiVersion"]) == ("Pod", "v1")


async def test_tables_are_watched_row_by_row(api: Api) -> None:
    await api.make(PODS, pod("a"))
    api.server.stop_watches()
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    [event] = (await api("GET", f"{PODS}?watch=1", accept=accept)).lines
    assert event["object"]["kind"] == "Table"
    assert [row["cells"][0] for row in event["object"]["rows"]] == ["a"]


async def test_a_history_that_is_too_short_is_an_error_event() -> None:
    async with api_server(history=2) as api:
        at = api.store.version
        for name in "abc":
            await api.make(PODS, pod(name))
        [event] = (await api("GET", f"{PODS}?watch=1&resourceVersion={at}")).lines
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def test_invalid_parameters(api: Api) -> None:
    for query, code in (
        ("resourceVersion=x", 400),
        ("timeoutSeconds=x", 400),
        ("labelSelector=a%20b", 400),
    ):
        assert (await api("GET", f"{PODS}?watch=true&{query}")).status == code
    any_word = await api("GET", f"{PODS}?watch=maybe&timeoutSeconds=1")
    assert (any_word.status, any_word.lines) == (200, [])


def reader_of(api: Api, version: int) -> Watching:
    """Return a client that reads a watch from a version."""
    path = f"{PODS}?watch=true&resourceVersion={version}"
    headers = {"authorization": f"Bearer {api.token}"}
    return Watching(api.server, scope_of("GET", path, headers))


async def test_changes_reach_every_open_watch(api: Api) -> None:
    readers = [reader_of(api, api.store.version) for _ in range(3)]
    async with asyncio.TaskGroup() as group:
        for reader in readers:
            group.create_task(reader.run())
        await asyncio.sleep(0)
        await api.make(PODS, pod("a"))
        for reader in readers:
            event = await reader.events.get()
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")
        for reader in readers:
            reader.leave()
    assert all(reader.ended for reader in readers)


async def test_a_watch_from_a_future_version_waits(api: Api) -> None:
    reader = reader_of(api, api.store.version + 1)
    async with asyncio.TaskGroup() as group:
        group.create_task(reader.run())
        await asyncio.sleep(0)
        await api.make(PODS, pod("a"))
        await api.make(PODS, pod("b"))
        event = await reader.events.get()
        assert event["object"]["metadata"]["name"] == "b"
        reader.leave()


async def test_a_client_that_does_not_read_is_disconnected(api: Api) -> None:
    reader = reader_of(api, api.store.version)
    body = pod()
    body["metadata"]["annotations"] = {"large": "x" * 2_000_000}
    async with asyncio.TaskGroup() as group:
        group.create_task(reader.run())
        await asyncio.sleep(0)
        for index in range(20):  # while the reader can't run
            body["metadata"]["name"] = f"p{index}"
            await api.make(PODS, body)
    assert reader.ended


def test_bookmarks_are_sent_once_a_minute_and_before_the_timeout() -> None:
    async def main(_clock: object) -> tuple[list[Any], float, float]:
        loop = asyncio.get_running_loop()
        async with api_server() as api:
            await api.make(PODS, pod("a"))
            began = loop.time()
            query = f"resourceVersion={api.store.version}&timeoutSeconds=150"
            events = (await api("GET", f"{PODS}?watch=1&{query}&allowWatchBookmarks=true")).lines
            middle = loop.time()
            await api("GET", f"{PODS}?watch=1&resourceVersion={api.store.version}")
            return events, middle - began, loop.time() - middle

    events, requested_seconds, default_seconds = run(main)
    assert requested_seconds == 150
    assert 1800 <= default_seconds <= 3600
    assert [event["type"] for event in events] == ["BOOKMARK"] * 3  # after 60, 120 and 148 seconds
    assert set(events[0]["object"]["metadata"]) == {"resourceVersion"}

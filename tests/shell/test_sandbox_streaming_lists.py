"""``sendInitialEvents``: a watch that begins with a list, from 1.34 on."""

import pytest

from sandbox_client import api_server, pod

PODS = "/api/v1/namespaces/golden/pods"
STREAM = f"{PODS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"


@pytest.mark.parametrize("minor", [34, 35, 36])
async def test_a_stream_tells_the_list_and_then_that_it_was_all(minor: int) -> None:
    async with api_server(minor) as api:
        made = await api.make(PODS, pod("web"))
        answer = await api("GET", f"{STREAM}&allowWatchBookmarks=true")
    first, second, *_ = answer.lines
    assert (first["type"], first["object"]) == ("ADDED", made)
    assert second["type"] == "BOOKMARK"
    meta = second["object"]["metadata"]
    assert meta["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(meta["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])


async def test_without_bookmarks_the_end_is_not_told() -> None:
    async with api_server() as api:
        await api.make(PODS, pod("web"))
        answer = await api("GET", STREAM)
    assert [line["type"] for line in answer.lines] == ["ADDED"]


async def test_1_33_refuses_so_that_clients_list_first() -> None:
    async with api_server(33) as api:
        answer = await api("GET", f"{STREAM}&allowWatchBookmarks=true")
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    [cause] = answer.json["details"]["causes"]
    assert (cause["field"], cause["reason"]) == ("sendInitialEvents", "FieldValueForbidden")
    assert cause["message"] == (
        "Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate "
        "is enabled"
    )

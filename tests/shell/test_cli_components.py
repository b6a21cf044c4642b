"""The read API of the components, read through the pod proxy: leaders, pages, refusals."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from common.read_model.updater import PlannedVpa
from fake_api import FakeApi, Reply, listing, status
from kubectl_vpa.cluster import components
from kubectl_vpa.cluster.components import Components
from kubectl_vpa.cluster.reader import Reader
from kubectl_vpa.judge.findings import RECOMMENDER, UPDATER

PODS = "GET /api/v1/pods"


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    made = FakeApi()
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


def pod(name: str, app: str = UPDATER, *, args: tuple[str, ...] = (), port: int = 0) -> Any:
    container: dict[str, Any] = {"name": "it", "image": "registry.example/it", "args": list(args)}
    if port:
        container["ports"] = [{"name": "prometheus", "containerPort": port}]
    return {
        "metadata": {"name": name, "namespace": "kube-system", "labels": {"app": app}},
        "spec": {"containers": [container]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def path(name: str, rest: str, port: int = 8943) -> str:
    return f"GET /api/v1/namespaces/kube-system/pods/{name}:{port}/proxy/api/v1{rest}"


def origin(*, leading: bool | None = None, leader: str | None = None) -> dict[str, Any]:
    last_pass = {"number": 7, "at": "2026-03-01T12:00:00Z", "seconds": 0.5}
    return {"lastPass": last_pass, "leading": leading, "leader": leader}


def overview(*, leading: bool | None = None, leader: str | None = None) -> Reply:
    about = {"component": "updater", "version": "1.8.0", "identity": "me", "paths": []}
    return Reply(body=about | origin(leading=leading, leader=leader))


def page(*items: Any, continue_: str | None = None, leading: bool | None = None) -> Reply:
    metadata = {**origin(leading=leading), "continue": continue_, "remainingItemCount": None}
    return Reply(body={"metadata": metadata, "items": list(items)})


def planned(name: str) -> dict[str, Any]:
    return {"namespace": "shop", "name": name, "mode": "Off", "why": "mode Off", "pods": []}


async def plan(api: FakeApi) -> tuple[list[str] | None, list[str]]:
    """Return the names of the planned VPAs of a namespace, and the notes."""
    found: list[PlannedVpa] = []
    async with api.client() as client:
        reader = Reader(client=client, namespace="shop")
        read = await Components(reader).plan(found.extend, namespace="shop")
        return None if read is None else [each.name for each in found], reader.notes


async def test_pages_follow_each_other(api: FakeApi) -> None:
    api.on(PODS, listing(pod("u-1")))
    api.on(path("u-1", ""), overview())
    api.on(path("u-1", "/plan"), page(planned("a"), continue_="next"), page(planned("b")))
    assert await plan(api) == (["a", "b"], [])
    assert [dict(each.query) for each in api.requests[2:]] == [
        {"namespace": "shop", "limit": "1000"},
        {"namespace": "shop", "limit": "1000", "continue": "next"},
    ]
    assert api.requests[0].query["labelSelector"].startswith("app in (vpa-recommender,")


@pytest.mark.parametrize(
    ("made", "port"),
    [
        (pod("u-1"), 8943),
        (pod("u-1", port=9000), 9000),
        (pod("u-1", args=("--address=:9001",), port=9000), 9001),
    ],
    ids=["the default", "the declared port", "the flag"],
)
async def test_the_port_is_that_of_the_pod(api: FakeApi, made: Any, port: int) -> None:
    api.on(PODS, listing(made))
    api.on(path("u-1", "", port), overview())
    api.on(path("u-1", "/plan", port), page())
    assert await plan(api) == ([], [])


async def test_the_leader_answers(api: FakeApi) -> None:
    api.on(PODS, listing(pod("u-1"), pod("u-2"), pod("r-1", RECOMMENDER)))
    api.on(path("u-1", ""), overview(leading=False, leader="u-2_x"))
    api.on(path("u-2", ""), overview(leading=True, leader="u-2_x"))
    api.on(path("u-2", "/plan"), page(planned("a"), leading=True))
    assert await plan(api) == (["a"], [])


async def test_a_pod_of_another_namespace_is_not_asked(api: FakeApi) -> None:
    """Everyone who may create pods can label one like a component."""
    false = pod("u-0")
    false["metadata"]["namespace"] = "aaa"
    api.on(PODS, listing(false, pod("u-1")))
    api.on(path("u-1", ""), overview())
    api.on(path("u-1", "/plan"), page(planned("a")))
    assert await plan(api) == (["a"], [])
    assert not [route for route in api.routes if "/aaa/" in route]


async def test_replicas_without_their_leader_are_not_read(api: FakeApi) -> None:
    api.on(PODS, listing(pod("u-1"), pod("u-2")))
    api.on(path("u-1", ""), overview(leading=False, leader="u-2_x"))
    api.on(path("u-2", ""), status(503, "ServiceUnavailable"))
    note = "what the components know: the leader (u-2_x) doesn't answer"
    assert await plan(api) == (None, [note])


async def test_a_leader_that_stops_leading_is_not_believed(api: FakeApi) -> None:
    api.on(PODS, listing(pod("u-1")))
    api.on(path("u-1", ""), overview(leading=True, leader="u-1_x"))
    api.on(path("u-1", "/plan"), page(leading=False))
    assert await plan(api) == (None, ["what the components know: u-1 no longer leads"])


NOTES = [
    (status(403, "Forbidden"), "you may not get pods/proxy in kube-system"),
    (Reply(status=404, body="404 page not found"), "they have no read API"),
    (
        Reply(status=401, body={"error": "no token"}),
        "they don't answer requests through this API server; use kubectl port-forward",
    ),
    (status(503, "ServiceUnavailable", "connection refused"), "u-1: connection refused"),
    (
        Reply(body={"status": "ok"}),
        "the answer of u-1 has an unexpected form: Object missing required field `lastPass`",
    ),
]


@pytest.mark.parametrize(("reply", "note"), NOTES, ids=[note for _, note in NOTES])
async def test_the_reason_is_noted_once(api: FakeApi, reply: Reply, note: str) -> None:
    api.on(PODS, listing(pod("u-1"), pod("r-1", RECOMMENDER)))
    api.on(path("u-1", ""), reply)
    api.on(path("r-1", "", 8942), status(403, "Forbidden"))
    async with api.client() as client:
        reader = Reader(client=client, namespace="shop")
        asked = Components(reader)
        assert await asked.actions() is None
        assert await asked.plan(lambda _: None) is None
        assert reader.notes == [f"what the components know: {note}"]
    assert api.routes == [PODS, path("u-1", "")]


async def test_a_pod_that_does_not_answer_is_not_waited_for(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(components, "_SECONDS", 0.01)
    api.on(PODS, listing(pod("u-1")))
    api.on(path("u-1", ""), Reply(chunks=(), hold=True))
    (note,) = (await plan(api))[1]
    assert note.endswith("; a NetworkPolicy may keep the API server out")


async def test_pages_that_were_read_before_an_error_are_kept(api: FakeApi) -> None:
    api.on(PODS, listing(pod("u-1")))
    api.on(path("u-1", ""), overview())
    api.on(path("u-1", "/plan"), page(planned("a"), continue_="b"), status(503, "Busy", "busy"))
    assert await plan(api) == (["a"], ["what the components know: u-1: busy"])


async def test_without_components_nothing_is_noted(api: FakeApi) -> None:
    api.on(PODS, listing())
    assert await plan(api) == (None, [])


async def test_without_the_right_to_find_them_it_is_noted(api: FakeApi) -> None:
    api.on(PODS, status(403, "Forbidden"))
    note = "what the components know: you may not list pods in all namespaces"
    assert await plan(api) == (None, [note])


async def test_a_vpa_that_the_recommender_does_not_know_is_none(api: FakeApi) -> None:
    api.on(PODS, listing(pod("r-1", RECOMMENDER)))
    api.on(path("r-1", "", 8942), overview())
    missing = Reply(status=404, body=msgspec.Raw(b'{"error":"there is no such VPA"}'))
    api.on(path("r-1", "/vpas/shop/web", 8942), missing)
    async with api.client() as client:
        reader = Reader(client=client, namespace="shop")
        assert await Components(reader).vpa("shop", "web") is None
        assert reader.notes == []

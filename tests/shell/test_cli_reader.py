"""Reads of ``kubectl vpa``: pages, refusals, and lists that expire between two pages."""

from collections.abc import AsyncIterator, Sequence

import pytest

from common.api.core import Pod
from common.errors import ForbiddenError, UnreachableError
from common.kube.endpoints import PODS, VPAS
from fake_api import FakeApi, Reply, listing, named, status
from kubectl_vpa.cluster.reader import Reader

ALL = "GET /api/v1/namespaces/shop/pods"


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    made = FakeApi()
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


def add(names: list[str], pods: Sequence[Pod]) -> None:
    names += [pod.metadata.name for pod in pods]


async def fold(api: FakeApi) -> tuple[list[str] | None, list[str]]:
    """Return the names of the pods that were read, and the notes."""
    async with api.client() as client:
        reader = Reader(client=client, namespace="shop")
        found = await reader.fold(PODS, list[str], add, field_selector="status.phase!=Failed")
        return found, reader.notes


async def test_pages_follow_each_other(api: FakeApi) -> None:
    api.on(ALL, listing(named("a"), named("b"), continue_="next"), listing(named("c")))
    assert await fold(api) == (["a", "b", "c"], [])
    assert [dict(each.query) for each in api.requests] == [
        {"limit": "500", "fieldSelector": "status.phase!=Failed"},
        {"limit": "500", "fieldSelector": "status.phase!=Failed", "continue": "next"},
    ]


async def test_an_expired_list_starts_again_from_nothing(api: FakeApi) -> None:
    api.on(
        ALL,
        listing(named("a"), continue_="old"),
        status(410, "Expired"),
        listing(named("a"), continue_="new"),
        listing(named("b")),
    )
    assert await fold(api) == (["a", "b"], [])


async def test_a_refusal_is_a_note(api: FakeApi) -> None:
    api.on(ALL, status(403, "Forbidden"))
    assert await fold(api) == (None, ["pods in shop: you may not list them"])


async def test_a_kind_that_is_not_served_is_a_note(api: FakeApi) -> None:
    assert await fold(api) == (None, ["pods in shop: the cluster doesn't serve them"])


async def test_a_needed_list_that_is_read_in_pages_raises(api: FakeApi) -> None:
    api.on(ALL, status(403, "Forbidden"))
    async with api.client() as client:
        reader = Reader(client=client, namespace="shop")
        with pytest.raises(ForbiddenError):
            await reader.fold(PODS, list[str], add, label_selector="app=web", needed=True)
    assert [each.query["labelSelector"] for each in api.requests] == ["app=web"]


async def test_a_list_that_is_needed_raises(api: FakeApi) -> None:
    api.on("GET /apis/autoscaling.k8s.io/v1/verticalpodautoscalers", status(403, "Forbidden"))
    async with api.client() as client:
        reader = Reader(client=client, namespace="")
        with pytest.raises(ForbiddenError):
            await reader.list(VPAS, needed=True)


async def test_an_unreachable_server_raises(api: FakeApi) -> None:
    api.on(ALL, Reply(cut=True))
    with pytest.raises(UnreachableError):
        await fold(api)


async def test_an_object_of_an_unexpected_form_is_a_note(api: FakeApi) -> None:
    odd = named("odd", status={"phase": {"not": "a text"}})
    api.on(ALL, listing(named("a"), odd))
    assert await fold(api) == (["a"], ["1 pods of an unexpected form: shop/odd"])

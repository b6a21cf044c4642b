"""Paginated lists: the next page is requested before the current one is decoded."""

import msgspec
import pytest

from common.api.core import Namespace
from common.errors import GoneError
from common.kube.endpoints import Endpoint
from common.kube.paginated_list import Undecoded, read_pages, read_undecoded

PAGE = 200  # objects


class Counted(Namespace, frozen=True, kw_only=True):
    """A kind that counts its decoded objects."""

    def __post_init__(self) -> None:
        decoded.append(1)


decoded: list[int] = []
THINGS = Endpoint("", "v1", "things", "Thing", Counted)


def page(first: int, *, token: str = "") -> bytes:
    items = [{"metadata": {"name": f"n{number}"}} for number in range(first, first + PAGE)]
    meta = {"resourceVersion": "7", "continue": token}
    return msgspec.json.encode({"metadata": meta, "items": items})


async def test_the_next_page_is_requested_before_the_current_one_is_decoded() -> None:
    decoded.clear()
    seen: dict[str, int] = {}

    async def fetch(token: str) -> bytes:
        seen[token] = len(decoded)
        return page(0, token="more") if not token else page(PAGE)

    found = await read_pages(THINGS, "/things", fetch, known=())
    assert [one.metadata.name for one in found.items] == [f"n{n}" for n in range(2 * PAGE)]
    assert seen[""] == 0
    assert seen["more"] < PAGE


async def test_the_error_of_a_later_page_is_raised_unchanged() -> None:
    async def fetch(token: str) -> bytes:
        if token:
            raise GoneError("too old", reason="Expired")
        return page(0, token="more")

    with pytest.raises(GoneError):
        await read_pages(THINGS, "/things", fetch, known=())


async def test_an_undecoded_list_is_decoded_slice_by_slice() -> None:
    async def fetch(token: str) -> bytes:
        return page(0, token="more") if not token else page(PAGE)

    items = await read_undecoded("/things", fetch)
    decoded.clear()
    slices = Undecoded(endpoint=THINGS, items=items, undecodable=[]).slices(150)
    taken: list[Counted] = []
    for found in slices:
        assert len(decoded) == len(taken) + len(found)
        taken += found
    assert [one.metadata.name for one in taken] == [f"n{n}" for n in range(2 * PAGE)]


def test_malformed_objects_of_an_undecoded_list_are_skipped_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    items = [msgspec.Raw(b'{"metadata":{"name":"a"}}'), msgspec.Raw(b'{"metadata":7}')]
    undecodable: list[str] = []
    first = Undecoded(endpoint=THINGS, items=items, undecodable=undecodable)
    assert [one.metadata.name for found in first.slices(10) for one in found] == ["a"]
    assert undecodable == ["unknown"]
    again = Undecoded(endpoint=THINGS, items=items, undecodable=[], known=undecodable)
    assert [len(found) for found in again.slices(10)] == [1]
    assert len(caplog.records) == 1

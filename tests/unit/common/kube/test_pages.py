"""Lists page by page: the next page is on its way while one is decoded."""

import msgspec
import pytest

from common.api.meta import PartialObject
from common.errors import GoneError
from common.kube.endpoints import Endpoint
from common.kube.pages import Undecoded, read_pages, read_undecoded

PAGE = 200  # objects


class Counted(PartialObject, frozen=True, kw_only=True):
    """Counts how many of it were decoded."""

    def __post_init__(self) -> None:
        decoded.append(1)


decoded: list[int] = []
THINGS = Endpoint("", "v1", "things", "Thing", Counted)


def page(first: int, *, token: str = "") -> bytes:
    items = [{"metadata": {"name": f"n{number}"}} for number in range(first, first + PAGE)]
    meta = {"resourceVersion": "7", "continue": token}
    return msgspec.json.encode({"metadata": meta, "items": items})


async def test_the_next_page_is_asked_for_before_this_one_is_decoded() -> None:
    decoded.clear()
    seen: dict[str, int] = {}

    async def fetch(token: str) -> bytes:
        seen[token] = len(decoded)
        return page(0, token="more") if not token else page(PAGE)

    found = await read_pages(THINGS, "/things", fetch, known=())
    assert [one.metadata.name for one in found.items] == [f"n{n}" for n in range(2 * PAGE)]
    assert seen[""] == 0
    assert seen["more"] < PAGE


async def test_a_refusal_of_a_later_page_leaves_as_what_it_is() -> None:
    async def fetch(token: str) -> bytes:
        if token:
            raise GoneError("too old", reason="Expired")
        return page(0, token="more")

    with pytest.raises(GoneError):
        await read_pages(THINGS, "/things", fetch, known=())


async def test_an_undecoded_list_is_decoded_as_it_is_taken() -> None:
    async def fetch(token: str) -> bytes:
        return page(0, token="more") if not token else page(PAGE)

    items = await read_undecoded("/things", fetch)
    decoded.clear()
    slices = Undecoded(endpoint=THINGS, items=items, strange=[]).slices(150)
    taken: list[Counted] = []
    for found in slices:
        assert len(decoded) == len(taken) + len(found)
        taken += found
    assert [one.metadata.name for one in taken] == [f"n{n}" for n in range(2 * PAGE)]


def test_strange_objects_of_an_undecoded_list_are_left_out_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    items = [msgspec.Raw(b'{"metadata":{"name":"a"}}'), msgspec.Raw(b'{"metadata":7}')]
    strange: list[str] = []
    first = Undecoded(endpoint=THINGS, items=items, strange=strange)
    assert [one.metadata.name for found in first.slices(10) for one in found] == ["a"]
    assert strange == ["unknown"]
    again = Undecoded(endpoint=THINGS, items=items, strange=[], known=strange)
    assert [len(found) for found in again.slices(10)] == [1]
    assert len(caplog.records) == 1

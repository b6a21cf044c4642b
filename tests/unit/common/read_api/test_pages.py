"""Pages of tables and histories: limits, tokens, filters and hidden namespaces."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.read_api.access import EVERYTHING, UserInfo, Visibility
from common.read_api.history import History
from common.read_api.pages import Page, read_history, read_page
from common.read_api.query import BadQueryError, ListQuery, encode_token
from common.read_model.page import HistoryEntry

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class FakeRows:
    """Pods whose body is their name; ``made`` records what was asked for."""

    key: tuple[str, str]
    names: Sequence[str]
    made: list[str]

    def body(self, index: int) -> bytes:
        self.made.append(self.names[index])
        return msgspec.json.encode(self.names[index])

    def item(self, bodies: Sequence[bytes]) -> bytes:
        return b'["%b",[%b]]' % ("/".join(self.key).encode(), b",".join(bodies))


class FakeTable:
    """A table of VPAs with pods."""

    number = 1

    def __init__(self, pods: Mapping[tuple[str, str], Sequence[str]]) -> None:
        self.pods = pods
        self.keys = sorted(pods)
        self.ends = list(accumulate(len(pods[key]) or 1 for key in self.keys))
        self.made: list[str] = []

    def rows(self, key: tuple[str, str]) -> FakeRows:
        return FakeRows(key, self.pods[key], self.made)


class Rights:
    """Reviews of a person with a right in some namespaces."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed
        self.reviewed: list[str] = []

    async def user_of(self, token: str) -> UserInfo | None:
        raise AssertionError(token)

    async def may_read(self, user: UserInfo, namespace: str) -> bool:
        self.reviewed.append(namespace)
        return namespace in self.allowed


def restricted(rights: Rights) -> Visibility:
    return Visibility(rights, UserInfo(username="bob"))


def items(page: Page) -> list[tuple[str, list[str]]]:
    return [msgspec.json.decode(each, type=tuple[str, list[str]]) for each in page.items]


CLUSTER = FakeTable(
    {
        ("bank", "ledger"): ["l-0"],
        ("shop", "api"): ["a-0", "a-1", "a-2"],
        ("shop", "off"): [],
        ("shop", "web"): ["w-0", "w-1"],
        ("shop-2", "web"): ["x-0"],
    }
)


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    query: ListQuery = ListQuery()  # noqa: RUF009 - a value, and frozen
    allowed: tuple[str, ...] | None = None  # None: everything
    pages: list[list[tuple[str, list[str]]]]
    remaining: list[int | None]


LEDGER = ("bank/ledger", ["l-0"])
API, WEB = ("shop/api", ["a-0", "a-1", "a-2"]), ("shop/web", ["w-0", "w-1"])
OFF: tuple[str, list[str]] = ("shop/off", [])
OTHER = ("shop-2/web", ["x-0"])
CASES = [
    Case(id="everything", pages=[[LEDGER, API, OFF, WEB, OTHER]], remaining=[None]),
    Case(
        id="exactly as many rows as the limit",
        query=ListQuery(limit=8),
        pages=[[LEDGER, API, OFF, WEB, OTHER]],
        remaining=[None],
    ),
    Case(
        id="one row more than the limit",
        query=ListQuery(limit=7),
        pages=[[LEDGER, API, OFF, WEB], [OTHER]],
        remaining=[1, None],
    ),
    Case(
        id="a page ends within a VPA",
        query=ListQuery(limit=3),
        pages=[
            [LEDGER, ("shop/api", ["a-0", "a-1"])],
            [("shop/api", ["a-2"]), OFF, ("shop/web", ["w-0"])],
            [("shop/web", ["w-1"]), OTHER],
        ],
        remaining=[5, 2, None],
    ),
    Case(
        id="a page ends behind a VPA, also one without pods",
        query=ListQuery(limit=4),
        pages=[[LEDGER, API], [OFF, WEB, OTHER]],
        remaining=[4, None],
    ),
    Case(
        id="single rows",
        query=ListQuery(limit=1, namespace="shop"),
        pages=[
            [("shop/api", ["a-0"])],
            [("shop/api", ["a-1"])],
            [("shop/api", ["a-2"])],
            [OFF],
            [("shop/web", ["w-0"])],
            [("shop/web", ["w-1"])],
        ],
        remaining=[5, 4, 3, 2, 1, None],
    ),
    Case(
        id="a namespace whose name begins another one's",
        query=ListQuery(namespace="shop"),
        pages=[[API, OFF, WEB]],
        remaining=[None],
    ),
    Case(id="an unknown namespace", query=ListQuery(namespace="x"), pages=[[]], remaining=[None]),
    Case(id="a name", query=ListQuery(name="web"), pages=[[WEB, OTHER]], remaining=[None]),
    Case(
        id="a name, page by page",
        query=ListQuery(name="web", limit=2),
        pages=[[WEB], [OTHER]],
        remaining=[None, None],
    ),
    Case(
        id="a namespace and a name",
        query=ListQuery(namespace="shop", name="api"),
        pages=[[API]],
        remaining=[None],
    ),
    Case(
        id="one visible namespace",
        allowed=("shop",),
        query=ListQuery(limit=4),
        pages=[[API, OFF], [WEB]],
        remaining=[None, None],
    ),
    Case(id="no visible namespace", allowed=(), pages=[[]], remaining=[None]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_the_pages_of_a_table(case: Case) -> None:
    visibility = EVERYTHING if case.allowed is None else restricted(Rights(*case.allowed))
    query, pages, remaining = case.query, [], []
    while True:
        page = await read_page(CLUSTER, query, visibility)
        pages.append(items(page))
        remaining.append(page.remaining)
        if page.token is None:
            break
        query = replace(query, after=page.token)
    assert pages == case.pages
    assert remaining == case.remaining


names = st.text("abc-", min_size=1, max_size=3)
tables = st.dictionaries(
    st.tuples(names, names), st.lists(names, unique=True, max_size=5).map(sorted), max_size=8
)


@given(tables, st.integers(1, 12), st.sets(names))
async def test_pages_of_any_size_have_all_visible_rows_once_and_in_order(
    pods: Mapping[tuple[str, str], Sequence[str]], limit: int, allowed: Collection[str]
) -> None:
    table, visibility = FakeTable(pods), restricted(Rights(*allowed))
    query, found = ListQuery(limit=limit), list[tuple[str, str]]()
    empty: list[str] = []
    for _ in range(100):
        page = await read_page(table, query, visibility)
        for vpa, rows in items(page):
            found += [(vpa, row) for row in rows]
            empty += [] if rows else [vpa]
        if page.token is None:
            break
        query = replace(query, after=page.token)
    visible = {key: rows for key, rows in sorted(pods.items()) if key[0] in allowed}
    assert found == [("/".join(key), row) for key, rows in visible.items() for row in rows]
    assert empty == ["/".join(key) for key, rows in visible.items() if not rows]


async def test_a_token_of_an_older_pass_continues_behind_what_is_gone() -> None:
    page = await read_page(CLUSTER, ListQuery(limit=3), EVERYTHING)
    assert page.token is not None
    after = FakeTable(
        {
            ("bank", "new"): ["n-0"],  # before the last row: not on this page
            ("shop", "api"): ["a-0", "a-0b", "a-2"],  # a-1, the last row, is gone
            ("shop", "web"): ["w-0"],
        }
    )
    following = await read_page(after, ListQuery(after=page.token), EVERYTHING)
    assert items(following) == [("shop/api", ["a-2"]), ("shop/web", ["w-0"])]
    without = FakeTable({("shop", "web"): ["w-0"]})
    following = await read_page(without, ListQuery(after=page.token), EVERYTHING)
    assert items(following) == [("shop/web", ["w-0"])]


async def test_a_page_computes_only_the_rows_that_it_sends() -> None:
    table = FakeTable({("shop", "web"): [f"w-{number:03}" for number in range(100)]})
    await read_page(table, ListQuery(limit=7), EVERYTHING)
    assert table.made == [f"w-{number:03}" for number in range(7)]


async def test_a_page_ends_when_it_is_large() -> None:
    huge = "x" * (1024 * 1024)
    table = FakeTable({("shop", "web"): [f"w-{number}-{huge}" for number in range(9)]})
    page = await read_page(table, ListQuery(), EVERYTHING)
    assert (page.rows, page.remaining) == (4, 5)


@pytest.mark.parametrize(
    ("namespaces", "reviews"),
    [
        pytest.param(64, [64], id="as many as are reviewed at once"),
        pytest.param(65, [64, 1], id="one more"),
    ],
)
async def test_a_page_reviews_a_limited_number_of_namespaces(
    namespaces: int, reviews: list[int]
) -> None:
    known = [f"n-{number:03}" for number in range(namespaces)]
    table = FakeTable({(name, "web"): ["w-0"] for name in known})
    history = History[HistoryEntry]()
    for name in reversed(known):
        record(history, name)
    for read in (partial(read_page, table), partial(read_history, history)):
        rights, query, counts, rows = Rights(known[-1]), ListQuery(), list[int](), 0
        while True:
            rights.reviewed.clear()
            page = await read(query, restricted(rights))
            counts.append(len(rights.reviewed))
            rows += page.rows
            if page.token is None:
                break
            query = replace(query, after=page.token)
        assert (counts, rows) == (reviews, 1)


# Histories


def record(history: History[HistoryEntry], namespace: str = "shop", vpa: str = "web") -> int:
    number = history.next_number()
    history.add(HistoryEntry(number=number, at=NOW, namespace=namespace, vpa=vpa))
    return number


def numbers(page: Page) -> list[int]:
    return [msgspec.json.decode(each, type=HistoryEntry).number for each in page.items]


@pytest.mark.parametrize(
    ("query", "allowed", "want", "remaining"),
    [
        pytest.param(ListQuery(), None, [[6, 5, 4, 3, 2, 1]], [None], id="newest first"),
        pytest.param(
            ListQuery(limit=4), None, [[6, 5, 4, 3], [2, 1]], [2, None], id="page by page"
        ),
        pytest.param(ListQuery(limit=6), None, [[6, 5, 4, 3, 2, 1]], [None], id="all on one page"),
        pytest.param(ListQuery(namespace="bank"), None, [[4, 2]], [None], id="a namespace"),
        pytest.param(ListQuery(name="api"), None, [[5, 2]], [None], id="a VPA"),
        pytest.param(
            ListQuery(limit=1), ("bank",), [[4], [2]], [None, None], id="a visible namespace"
        ),
        pytest.param(ListQuery(), (), [[]], [None], id="no visible namespace"),
    ],
)
async def test_the_pages_of_a_history(
    query: ListQuery,
    allowed: tuple[str, ...] | None,
    want: list[list[int]],
    remaining: list[int | None],
) -> None:
    history = History[HistoryEntry]()
    places = [("shop", "web"), ("bank", "api"), ("shop", "web"), ("bank", "web"), ("shop", "api")]
    for namespace, vpa in [*places, ("shop", "web")]:
        record(history, namespace, vpa)
    visibility = EVERYTHING if allowed is None else restricted(Rights(*allowed))
    pages, left = [], []
    while True:
        page = await read_history(history, query, visibility)
        pages.append(numbers(page))
        left.append(page.remaining)
        if page.token is None:
            break
        query = replace(query, after=page.token)
    assert (pages, left) == (want, remaining)


@pytest.mark.parametrize(
    "after", [encode_token(["shop", "web", None]), "x"], ids=["a table's", "x"]
)
async def test_a_history_refuses_other_tokens(after: str) -> None:
    with pytest.raises(BadQueryError):
        await read_history(History[HistoryEntry](), ListQuery(after=after), EVERYTHING)


def test_a_history_drops_its_oldest_entries() -> None:
    history = History[HistoryEntry](most=3)
    for _ in range(3):
        record(history)
    assert [entry.number for entry in history.newest_first()] == [3, 2, 1]
    record(history)
    assert [entry.number for entry in history.newest_first()] == [4, 3, 2]
    assert (1 in history, 2 in history, len(history)) == (False, True, 3)


def test_each_change_of_a_history_has_another_version() -> None:
    history, versions = History[HistoryEntry](most=1), [0]
    versions.append(history.version)
    first = record(history)
    versions.append(history.version)
    history.update(first, vpa="api")
    versions.append(history.version)
    assert [entry.vpa for entry in history.newest_first()] == ["api"]
    record(history)
    versions.append(history.version)
    history.update(first, vpa="dropped")
    assert history.version == versions[-1]
    assert versions == [0, 0, 1, 2, 3]

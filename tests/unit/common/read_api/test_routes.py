"""The routes of the read API: statuses, headers, ETags, and the limit of requests."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import fastapi
import msgspec
import pytest

import asgi
from common.read_api.access import Access, Address, UserInfo
from common.read_api.history import History
from common.read_api.routes import Leadership, Origin, ReadApi
from common.read_model.page import (
    HistoryEntry,
    ListMetadata,
    Overview,
    PassInfo,
    ReadMetadata,
    Refusal,
)
from common.read_model.recommender import VpaList

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Rights:
    """Tokens are names; ``alice`` may read everything, and ``bob`` the namespace shop."""

    async def user_of(self, token: str) -> UserInfo | None:
        return UserInfo(username=token) if token in ("alice", "bob", "eve") else None

    async def may_read(self, user: UserInfo, namespace: str) -> bool:
        return (user.username, namespace) in (("alice", ""), ("bob", "shop"))


class NoAddresses:
    async def includes(self, _address: Address) -> bool:
        return False


@dataclass
class Rows:
    """One row, whose body waits for nothing."""

    key: tuple[str, str]
    names: Sequence[str] = ("",)

    def body(self, _index: int) -> bytes:
        return msgspec.json.encode("/".join(self.key))

    def item(self, bodies: Sequence[bytes]) -> bytes:
        return b"".join(bodies)


@dataclass
class Table:
    number: int = 1
    keys: Sequence[tuple[str, str]] = (("bank", "ledger"), ("shop", "api"), ("shop", "web"))

    @property
    def ends(self) -> Sequence[int]:
        return range(1, len(self.keys) + 1)

    def rows(self, key: tuple[str, str]) -> Rows:
        return Rows(key)


class Found(ReadMetadata, frozen=True, kw_only=True):
    """An object of the test."""

    name: str


@dataclass
class Component:
    """A component with a path of each kind."""

    table: Table = field(default_factory=Table)
    history: History[HistoryEntry] = field(default_factory=History)
    leadership: Leadership = Leadership(leading=True, leader="me")  # noqa: RUF009 - frozen
    passed: PassInfo | None = PassInfo(number=1, at=NOW, seconds=0.5)  # noqa: RUF009 - frozen
    detailed: int = 0  # answers of the path with a name
    app: fastapi.FastAPI = field(default_factory=fastapi.FastAPI)
    api: ReadApi = field(init=False)

    def __post_init__(self) -> None:
        origin = Origin(
            component="updater",
            identity="me",
            leadership=lambda: self.leadership,
            last_pass=lambda: self.passed,
        )
        self.api = ReadApi(origin, Access(Rights(), NoAddresses()))
        self.api.add_table("/api/v1/vpas", lambda: self.table, VpaList, name="name", about="List.")
        self.api.add_history("/api/v1/past", self.history, VpaList, about="Remember.")
        self.api.add_object(
            "/api/v1/all", lambda meta: self.found(meta, "all"), Found, about="All."
        )
        path = "/api/v1/vpas/{namespace}/{name}"
        self.api.add_vpa(path, self.detail, Found, about="Describe. In detail.")
        self.app.include_router(self.api.router)

    def found(self, metadata: ReadMetadata, name: str) -> Found:
        return Found(**msgspec.structs.asdict(metadata), name=name)

    def detail(self, namespace: str, name: str, metadata: ReadMetadata) -> Found | None:
        self.detailed += 1
        known = (namespace, name) in self.table.keys
        return self.found(metadata, name) if known else None

    async def ask(
        self, path: str, *, token: str = "", peer: str = "127.0.0.1", tag: str = ""
    ) -> asgi.Response:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        headers |= {"if-none-match": tag} if tag else {}
        scope = asgi.scope_of("GET", path, headers) | {"client": (peer, 1)}
        return await asgi.call(self.app, scope, asgi.pieces(b""))


def names(response: asgi.Response) -> Any:
    return msgspec.json.decode(response.body)["items"]


def header(response: asgi.Response, name: str) -> str:
    return dict(response.headers)[name]


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    path: str
    token: str = ""
    peer: str = "127.0.0.1"
    want: int | list[str]


LIST, DETAIL = "/api/v1/vpas", "/api/v1/vpas/shop/web"
CASES = [
    Case(id="a list", path=LIST, want=["bank/ledger", "shop/api", "shop/web"]),
    Case(id="a list, by name", path=f"{LIST}?name=web", want=["shop/web"]),
    Case(id="a namespace", path=f"{LIST}?namespace=shop", want=["shop/api", "shop/web"]),
    Case(id="a limit", path=f"{LIST}?limit=1", want=["bank/ledger"]),
    Case(id="no limit", path=f"{LIST}?limit=0", want=400),
    Case(id="a wrong token of a page", path=f"{LIST}?continue=x", want=400),
    Case(id="a history's", path="/api/v1/past?continue=x", want=400),
    Case(id="all rights", path=LIST, token="alice", want=["bank/ledger", "shop/api", "shop/web"]),
    Case(id="rights in a namespace", path=LIST, token="bob", want=["shop/api", "shop/web"]),
    Case(id="no rights", path=LIST, token="eve", want=[]),
    Case(id="its namespace", path=f"{LIST}?namespace=shop&limit=1", token="bob", want=["shop/api"]),
    Case(id="another namespace", path=f"{LIST}?namespace=bank", token="bob", want=403),
    Case(id="an unknown namespace", path=f"{LIST}?namespace=none", token="bob", want=403),
    Case(id="an unknown namespace, all rights", path=f"{LIST}?namespace=none", want=[]),
    Case(id="no token", path=LIST, peer="10.0.0.1", want=401),
    Case(id="an unknown token", path=LIST, token="forged", want=401),
    Case(id="the overview without a token", path="/api/v1", peer="10.0.0.1", want=401),
    Case(id="the overview without rights", path="/api/v1", token="eve", want=200),
    Case(id="an object of the cluster", path="/api/v1/all", token="alice", want=200),
    Case(id="the same, rights in a namespace", path="/api/v1/all", token="bob", want=403),
    Case(id="a VPA", path=DETAIL, want=200),
    Case(id="a VPA, rights in its namespace", path=DETAIL, token="bob", want=200),
    Case(id="a VPA of another namespace", path="/api/v1/vpas/bank/ledger", token="bob", want=403),
    Case(id="no VPA of another namespace", path="/api/v1/vpas/bank/none", token="bob", want=403),
    Case(id="no VPA", path="/api/v1/vpas/shop/none", want=404),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_the_status_and_rows_of_a_request(case: Case) -> None:
    answer = await Component().ask(case.path, token=case.token, peer=case.peer)
    if isinstance(case.want, list):
        assert (answer.status, names(answer)) == (200, case.want)
    else:
        assert answer.status == case.want
    assert header(answer, "content-type") == "application/json"
    if answer.status == 200:
        assert header(answer, "cache-control") == "private, no-cache"
        assert header(answer, "vary") == "Authorization"
    else:
        assert msgspec.json.decode(answer.body, type=Refusal).error
        assert ("www-authenticate" in dict(answer.headers)) == (answer.status == 401)


async def test_a_page_names_its_origin() -> None:
    answer = await Component().ask(f"{LIST}?limit=1")
    found = msgspec.json.decode(answer.body)["metadata"]
    metadata = msgspec.convert(found, ListMetadata)
    assert metadata.last_pass == PassInfo(number=1, at=NOW, seconds=0.5)
    assert (metadata.leading, metadata.leader) == (True, "me")
    assert metadata.remaining_item_count == 2
    following = await Component().ask(f"{LIST}?limit=1&continue={metadata.continue_}")
    assert names(following) == ["shop/api"]


async def test_the_overview_lists_the_paths() -> None:
    found = msgspec.json.decode((await Component().ask("/api/v1")).body, type=Overview)
    assert (found.component, found.identity) == ("updater", "me")
    assert [each.path for each in found.paths] == [
        *("/api/v1", "/api/v1/vpas", "/api/v1/past", "/api/v1/all"),
        "/api/v1/vpas/{namespace}/{name}",
    ]


@pytest.mark.parametrize("path", [LIST, DETAIL, "/api/v1/past", "/api/v1/all", "/api/v1"])
async def test_an_answer_that_the_caller_has_is_not_made_again(path: str) -> None:
    component = Component()
    tag = header(await component.ask(path), "etag")
    made = component.detailed
    again = await component.ask(path, tag=tag)
    assert (again.status, again.body, header(again, "etag")) == (304, b"", tag)
    assert component.detailed == made
    assert (await component.ask(path, tag='W/"other"')).status == 200


async def changed(component: Component, what: str) -> None:
    match what:
        case "pass":
            component.table = replace(component.table, number=2)
            component.passed = PassInfo(number=2, at=NOW, seconds=0.5)
        case "leader":
            component.leadership = Leadership(leading=False, leader="other")
        case "history":
            number = component.history.next_number()
            entry = HistoryEntry(number=number, at=NOW, namespace="shop", vpa="web")
            component.history.add(entry)


@pytest.mark.parametrize(
    ("path", "what"),
    [
        pytest.param(LIST, "pass", id="a list after a pass"),
        pytest.param(DETAIL, "pass", id="a VPA after a cycle"),
        pytest.param("/api/v1", "pass", id="the overview after a pass"),
        pytest.param(LIST, "leader", id="a list after a change of the leader"),
        pytest.param("/api/v1/past", "history", id="a history with a new entry"),
    ],
)
async def test_a_change_has_another_tag(path: str, what: str) -> None:
    component = Component()
    tag = header(await component.ask(path), "etag")
    await changed(component, what)
    assert (await component.ask(path, tag=tag)).status == 200


async def test_tags_differ_between_queries_persons_and_processes() -> None:
    component, other = Component(), Component()
    answers = [
        await component.ask(LIST),
        await component.ask(f"{LIST}?limit=1"),
        await component.ask(LIST, token="bob"),
        await component.ask(LIST, token="eve"),
        await other.ask(LIST),
    ]
    assert len({header(answer, "etag") for answer in answers}) == len(answers)


async def test_a_tag_opens_nothing() -> None:
    component = Component()
    tag = header(await component.ask(LIST), "etag")
    assert (await component.ask(LIST, tag=tag, peer="10.0.0.1")).status == 401
    detail = header(await component.ask("/api/v1/vpas/bank/ledger"), "etag")
    refused = await component.ask("/api/v1/vpas/bank/ledger", tag=detail, token="bob")
    assert refused.status == 403


async def test_too_many_requests_at_once_are_refused() -> None:
    component = Component()
    keys = [("shop", f"web-{number:03}") for number in range(100)]
    component.table = Table(keys=keys)
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(component.ask(LIST)) for _ in range(33)]
    statuses = sorted(task.result().status for task in asked)
    assert statuses == [200] * 32 + [503]
    assert (await component.ask(LIST)).status == 200
    (refused,) = (task.result() for task in asked if task.result().status == 503)
    assert header(refused, "retry-after") == "1"


def test_the_openapi_document_describes_the_answers() -> None:
    paths = Component().app.openapi()["paths"]
    described = paths[LIST]["get"]
    named = {each["name"] for each in described["parameters"]}
    assert named == {"name", "namespace", "limit", "continue"}
    assert set(described["responses"]) == {"200", "304", "400", "401", "403", "404", "503"}
    schema = described["responses"]["200"]["content"]["application/json"]["schema"]
    assert "VpaSummary" in schema["$defs"]
    described = paths["/api/v1/vpas/{namespace}/{name}"]["get"]
    assert [(each["name"], each["in"]) for each in described["parameters"]] == [
        ("namespace", "path"),
        ("name", "path"),
    ]
    assert described["description"] == "Describe. In detail."

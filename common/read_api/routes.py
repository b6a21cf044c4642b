"""The routes of the read API on the ops address: ``/api/v1`` and the paths of a component."""

import asyncio
import contextlib
import functools
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import fastapi
import msgspec

from common.api.base import Wire
from common.read_api.access import Access, AccessError, Visibility
from common.read_api.history import History
from common.read_api.pages import Page, Table, read_history, read_page
from common.read_api.query import BadQueryError, ListQuery, etag, matches
from common.read_model.page import (
    ListMetadata,
    Overview,
    PassInfo,
    PathInfo,
    ReadMetadata,
    Refusal,
)
from common.runtime.text_or_json import described_json
from common.version import version

ROOT = "/api/v1"

_MOST_READERS = 2  # pages that are made at once
_MOST_WAITING = 32  # requests, these included
_BUSY = "too many requests at once"
_LIST_PARAMETERS = {
    "namespace": "Return the rows of this namespace alone.",
    "limit": "Return at most so many rows: 1 to 1000, by default 250.",
    "continue": "Return the page after the one that had this token.",
}
_CHALLENGE = {"www-authenticate": 'Bearer realm="vpa"'}
_RETRY = {"retry-after": "1"}
_REFUSALS = {
    400: "A parameter is malformed.",
    401: "There is no valid token, and the caller is neither on loopback nor an API server.",
    403: "The person may not get VPAs in the namespace.",
    404: "There is no such object.",
    503: "The API server can't be asked for access, or too many requests wait.",
}

Answer: TypeAlias = Wire | None
"""The answer of a path with a single object; None: there is none."""


ReadRows: TypeAlias = Callable[[ListQuery, Visibility], Awaitable[Page]]
"""Makes a page of rows that don't change."""


@dataclass(frozen=True, slots=True)
class Leadership:
    """Whether this replica leads, and the leader's identity; None: unknown."""

    leading: bool | None = None
    leader: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The process that answers."""

    component: str
    identity: str
    leadership: Callable[[], Leadership]
    last_pass: Callable[[], PassInfo | None]

    def metadata(self) -> ReadMetadata:
        """Return the part that all answers share."""
        leads = self.leadership()
        return ReadMetadata(last_pass=self.last_pass(), leading=leads.leading, leader=leads.leader)


class ReadApi:
    """Collects the paths of a component; ``router`` serves them.

    An answer is made only if it differs from the one that the caller has: the ETag depends on the
    pass, the query and the rights of the caller.
    """

    def __init__(self, origin: Origin, access: Access) -> None:
        self.router = fastapi.APIRouter()
        self._origin = origin
        self._access = access
        self._process = secrets.token_hex(8)  # numbers of passes start again with each process
        self._readers = asyncio.Semaphore(_MOST_READERS)
        self._waiting = 0
        self._paths: list[PathInfo] = []
        self._add(
            ROOT,
            self._overview,
            Overview,
            about="Name the process, its leader and its last pass, and list the other paths.",
        )

    def add_table(
        self, path: str, table: Callable[[], Table], answer: type[Wire], *, name: str, about: str
    ) -> None:
        """Serve pages of a table; ``name`` is the parameter that filters by VPA."""

        async def read(request: fastapi.Request, visibility: Visibility) -> fastapi.Response:
            def rows() -> tuple[int, ReadRows]:
                found = table()
                return found.number, functools.partial(read_page, found)

            return await self._list(request, visibility, name, rows)

        self._add(path, read, answer, about=about, parameters=_parameters(name))

    def add_history(
        self, path: str, history: History[Any], answer: type[Wire], *, about: str
    ) -> None:
        """Serve pages of a history, newest first."""

        async def read(request: fastapi.Request, visibility: Visibility) -> fastapi.Response:
            def rows() -> tuple[int, ReadRows]:
                return history.version, functools.partial(read_history, history)

            return await self._list(request, visibility, "vpa", rows)

        self._add(path, read, answer, about=about, parameters=_parameters("vpa"))

    def add_object(
        self, path: str, find: Callable[[ReadMetadata], Wire], answer: type[Wire], *, about: str
    ) -> None:
        """Serve an object about the whole cluster, which needs access to all namespaces."""

        async def read(request: fastapi.Request, visibility: Visibility) -> fastapi.Response:
            await visibility.require("")
            body = msgspec.json.encode(find(self._origin.metadata()))
            return _tagged(request, etag(self._process, body.decode()), body)

        self._add(path, read, answer, about=about)

    def add_vpa(
        self,
        path: str,
        find: Callable[[str, str, ReadMetadata], Answer],
        answer: type[Wire],
        *,
        about: str,
    ) -> None:
        """Serve an object about the VPA whose namespace and name are in the path."""

        async def read(request: fastapi.Request, visibility: Visibility) -> fastapi.Response:
            namespace, name = (request.path_params[part] for part in ("namespace", "name"))
            await visibility.require(namespace)
            metadata = self._origin.metadata()
            tag = self._tag(request, visibility, metadata, None)
            if matches(request.headers.get("if-none-match", ""), tag):
                return _unchanged(tag)
            async with self._turn():
                found = find(namespace, name, metadata)
            if found is None:
                raise AccessError(404, f"no VPA {namespace}/{name} is known here")
            return _tagged(request, tag, msgspec.json.encode(found))

        parameters = (("namespace", "path"), ("name", "path"))
        self._add(
            path,
            read,
            answer,
            about=about,
            parameters=[
                {"name": each, "in": place, "required": True, "schema": {"type": "string"}}
                for each, place in parameters
            ],
        )

    def _add(
        self,
        path: str,
        read: Callable[[fastapi.Request, Visibility], Awaitable[fastapi.Response]],
        answer: type[Wire],
        *,
        about: str,
        parameters: Sequence[dict[str, Any]] = (),
    ) -> None:
        async def endpoint(request: fastapi.Request) -> fastapi.Response:
            try:
                peer = request.client.host if request.client else ""
                given = request.headers.get("authorization")
                return await read(request, await self._access.admit(given, peer))
            except BadQueryError as error:
                return _refused(400, str(error))
            except AccessError as error:
                return _refused(error.status, str(error))

        self._paths.append(PathInfo(path=path, about=about))
        self.router.add_api_route(
            path,
            endpoint,
            methods=["GET"],
            response_model=None,
            summary=about.partition(".")[0],
            description=about,
            operation_id=path.strip("/").replace("/", "_").translate({123: None, 125: None}),
            responses=_responses(path, answer),
            openapi_extra={"parameters": list(parameters)},
        )

    async def _overview(
        self, request: fastapi.Request, _visibility: Visibility
    ) -> fastapi.Response:
        origin, metadata = self._origin, self._origin.metadata()
        found = Overview(
            last_pass=metadata.last_pass,
            leading=metadata.leading,
            leader=metadata.leader,
            component=origin.component,
            version=version(),
            identity=origin.identity,
            paths=tuple(self._paths),
        )
        body = msgspec.json.encode(found)
        return _tagged(request, etag(self._process, body.decode()), body)

    async def _list(
        self,
        request: fastapi.Request,
        visibility: Visibility,
        name: str,
        rows: Callable[[], tuple[int, ReadRows]],
    ) -> fastapi.Response:
        query = ListQuery.of(request.query_params, name=name)
        if query.namespace:
            await visibility.require(query.namespace)
        metadata, (number, read_rows) = self._origin.metadata(), rows()  # of one pass
        tag = self._tag(request, visibility, metadata, number)
        if matches(request.headers.get("if-none-match", ""), tag):
            return _unchanged(tag)
        async with self._turn():
            page = await read_rows(query, visibility)
        head = ListMetadata(
            last_pass=metadata.last_pass,
            leading=metadata.leading,
            leader=metadata.leader,
            continue_=page.token,
            remaining_item_count=page.remaining,
        )
        body = b'{"metadata":%b,"items":[%b]}\n' % (
            msgspec.json.encode(head),
            b",\n".join(page.items),
        )
        return _tagged(request, tag, body)

    def _tag(
        self,
        request: fastapi.Request,
        visibility: Visibility,
        metadata: ReadMetadata,
        number: int | None,
    ) -> str:
        url = request.url
        return etag(self._process, metadata, number, url.path, url.query, visibility.scope)

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None, None]:
        """Wait for the turn of a request to make its answer.

        Raises:
            AccessError: 503, too many requests wait.
        """
        if self._waiting >= _MOST_WAITING:
            raise AccessError(503, _BUSY)
        self._waiting += 1
        try:
            async with self._readers:
                yield
        finally:
            self._waiting -= 1


def _tagged(request: fastapi.Request, tag: str, body: bytes) -> fastapi.Response:
    if matches(request.headers.get("if-none-match", ""), tag):
        return _unchanged(tag)
    return fastapi.Response(body, media_type="application/json", headers=_headers(tag))


def _unchanged(tag: str) -> fastapi.Response:
    return fastapi.Response(status_code=304, headers=_headers(tag))


def _headers(tag: str) -> dict[str, str]:
    return {"etag": tag, "cache-control": "private, no-cache", "vary": "Authorization"}


def _refused(status: int, error: str) -> fastapi.Response:
    headers = {401: _CHALLENGE, 503: _RETRY}.get(status)
    body = msgspec.json.encode(Refusal(error=error)) + b"\n"
    return fastapi.Response(body, status, media_type="application/json", headers=headers)


def _parameters(name: str) -> list[dict[str, Any]]:
    """Return the parameters of a list for ``/openapi.json``."""
    texts = {name: "Return the rows of VPAs with this name alone.", **_LIST_PARAMETERS}
    return [
        {"name": each, "in": "query", "description": text, "schema": {"type": "string"}}
        for each, text in texts.items()
    ]


def _responses(path: str, answer: type[Wire]) -> dict[int | str, dict[str, Any]]:
    describe = functools.partial(described_json, path=path, method="get")
    found: dict[int | str, dict[str, Any]] = {
        200: describe(answer, status=200)
        | {"description": (answer.__doc__ or "").partition("\n")[0]},
        304: {"description": "The answer is the one that If-None-Match names."},
    }
    for status, text in _REFUSALS.items():
        found[status] = describe(Refusal, status=status) | {"description": text}
    return found

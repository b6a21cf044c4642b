"""The runner of cases: it sends their requests to an API server and returns the responses."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from common.kube.connection import Connection, client_context
from recorded_requests.case import Case, Request
from recorded_requests.normal import normal

_MAX_CONCURRENT = 8  # cases; each has its own namespace
_TIMEOUT = 20.0  # seconds; of a request with ``until``
_POLL_INTERVAL = 0.02  # seconds

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Hook:
    """The address of the run's webhook."""

    url: str = ""
    authority: str = ""  # base64 of PEM, as in a webhook configuration


@dataclass(slots=True)
class _Progress:
    """The values of a case's placeholders, from its responses so far."""

    values: dict[str, str]
    tokens: dict[str, str] = field(default_factory=dict)
    versions: list[str] = field(default_factory=list)

    def fill(self, value: Any) -> Any:
        """Return a copy with the placeholders replaced."""
        if isinstance(value, str):
            for name, text in self.values.items():
                value = value.replace(f"{{{name}}}", text)
            return value
        if isinstance(value, Mapping):
            return {self.fill(key): self.fill(item) for key, item in value.items()}
        return [self.fill(item) for item in value] if isinstance(value, list) else value

    def update(self, body: Any) -> None:
        meta = body.get("metadata") if isinstance(body, dict) else None
        if isinstance(meta, dict) and meta.get("uid") and meta.get("resourceVersion"):
            self.values |= {"uid": meta["uid"], "version": meta["resourceVersion"]}
            self.versions.append(meta["resourceVersion"])
        if isinstance(meta, dict) and meta.get("continue"):
            self.values["continue"] = meta["continue"]


class Runner:
    """A client of one API server that runs cases as administrator or ServiceAccount.

    ``trusted`` is the TLS context for ServiceAccounts. It has no client certificate, which would
    override their tokens.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        connection: Connection,
        trusted: ssl.SSLContext,
        hook: Hook,
    ) -> None:
        self._session = session
        self._connection = connection
        self._trusted = trusted
        self._hook = hook

    async def run(self, cases: list[Case]) -> dict[str, list[Answer]]:
        """Return the responses of every case, by its name.

        Raises:
            RuntimeError: a request failed that had to succeed.
        """
        room = asyncio.Semaphore(_MAX_CONCURRENT)

        async def one(case: Case) -> list[Answer]:
            async with room:
                return await self._case(case)

        async with asyncio.TaskGroup() as group:
            tasks = {case.name: group.create_task(one(case)) for case in cases}
        return {name: task.result() for name, task in tasks.items()}

    async def version(self) -> str:
        """Return the server's version, for example ``v1.36.3``."""
        request = Request(method="GET", path="/version")
        _, _, body = await self._send_once(request, _Progress({}))
        return str(body["gitVersion"])

    async def prepare(self, requests: Iterable[Request]) -> None:
        """Create the objects that all cases need.

        Raises:
            RuntimeError: a request failed.
        """
        for request in requests:
            status, _, body = await self._send(request, _Progress({}))
            if status >= 300:
                raise RuntimeError(f"{request.method} {request.path}: {body}")

    async def _case(self, case: Case) -> list[Answer]:
        progress = _Progress(
            {"ns": case.name, "webhook": self._hook.url, "authority": self._hook.authority}
        )
        for request in (*_NAMESPACE, *case.before):
            status, _, body = await self._send(request, progress)
            wanted = (request in _NAMESPACE and status in (404, 409)) or request.until is not None
            if status >= 300 and not wanted:
                raise RuntimeError(f"{case.name}: {request.method} {request.path}: {body}")
        answers = []
        for request in case.requests:
            status, warnings, body = await self._send(request, progress)
            answer: Answer = {"status": status, "body": normal(body, progress.versions)}
            if warnings:
                answer["warnings"] = warnings
            answers.append(answer)
        return answers

    async def _send(self, request: Request, progress: _Progress) -> tuple[int, list[str], Any]:
        if request.user and request.user not in progress.tokens:
            path = f"/api/v1/namespaces/{{ns}}/serviceaccounts/{request.user}/token"
            made = Request(method="POST", path=path, body={"spec": {}})
            status, _, body = await self._send_once(made, progress)
            if status != 201:
                raise RuntimeError(f"no token for {request.user}: {body}")
            progress.tokens[request.user] = body["status"]["token"]
        body = None
        try:
            async with asyncio.timeout(_TIMEOUT):
                while True:
                    status, warnings, body = await self._send_once(request, progress)
                    if request.until is None or _field(body, request.until[0]) == request.until[1]:
                        progress.update(body)
                        return status, warnings, body
                    await asyncio.sleep(_POLL_INTERVAL)
        except TimeoutError:
            where = f"{progress.values.get('ns')}: {request.method} {request.path}"
            raise RuntimeError(f"{where}: waited for {request.until}, last answer {body}") from None

    async def _send_once(self, request: Request, progress: _Progress) -> tuple[int, list[str], Any]:
        headers = {"User-Agent": "recorder/1", "Accept": request.accept}
        if request.user in progress.tokens:
            context = self._trusted
            headers["Authorization"] = f"Bearer {progress.tokens[request.user]}"
        else:
            context = self._connection.ssl_context or self._trusted
            headers |= await self._connection.headers()
        data = None
        if request.body is not None:
            raw = isinstance(request.body, bytes)
            data = request.body if raw else msgspec.json.encode(progress.fill(request.body))
            headers["Content-Type"] = request.content_type
        url = self._connection.base_url + progress.fill(request.path)
        async with self._session.request(
            request.method, url, data=data, headers=headers, ssl=context
        ) as got:
            text = await got.read()
            warnings = got.headers.getall("Warning", [])
            return got.status, warnings, _decoded(text, got.content_type)


@asynccontextmanager
async def runner(connection: Connection, authority: str, hook: Hook) -> AsyncIterator[Runner]:
    """Yield a runner, and close its connections; ``authority`` of the server is PEM."""
    connector = aiohttp.TCPConnector(limit=_MAX_CONCURRENT * 2)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield Runner(session, connection, client_context(ca_data=authority), hook)


_NAMESPACE = (
    Request(method="POST", path="/api/v1/namespaces", body={"metadata": {"name": "{ns}"}}),
    # A controller would create it later. Its token is not mounted, so that pods don't differ.
    Request(
        method="POST",
        path="/api/v1/namespaces/{ns}/serviceaccounts",
        body={"metadata": {"name": "default"}, "automountServiceAccountToken": False},
    ),
    Request(
        method="PATCH",
        path="/api/v1/namespaces/{ns}/serviceaccounts/default",
        body={"automountServiceAccountToken": False},
        content_type="application/merge-patch+json",
    ),
)


def _decoded(text: bytes, content_type: str) -> Any:
    if not text or "json" not in content_type:
        return text.decode(errors="replace")
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:  # a watch: one event per line
        return [msgspec.json.decode(line) for line in text.splitlines() if line]


def _field(body: Any, path: str) -> Any:
    for part in path.split("."):
        if isinstance(body, list):
            body = body[int(part)] if part.isdigit() and int(part) < len(body) else None
        else:
            body = body.get(part) if isinstance(body, dict) else None
    return body

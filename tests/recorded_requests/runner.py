"""Sends the requests of a case to an API server, and keeps what counts of the answers."""

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

_AT_ONCE = 8  # cases; each has a namespace of its own
_PATIENCE = 20.0  # seconds for controllers to do what a case waits for
_PAUSE = 0.02  # seconds between two looks

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Hook:
    """Where the webhook of the run listens."""

    url: str = ""
    authority: str = ""  # base64 of PEM, as a webhook configuration wants it


@dataclass(slots=True)
class _Progress:
    """What one case has learnt so far."""

    values: dict[str, str]
    tokens: dict[str, str] = field(default_factory=dict)
    versions: list[str] = field(default_factory=list)

    def fill(self, value: Any) -> Any:
        """A copy with the placeholders replaced."""
        if isinstance(value, str):
            for name, text in self.values.items():
                value = value.replace(f"{{{name}}}", text)
            return value
        if isinstance(value, Mapping):
            return {self.fill(key): self.fill(item) for key, item in value.items()}
        return [self.fill(item) for item in value] if isinstance(value, list) else value

    def learn(self, body: Any) -> None:
        meta = body.get("metadata") if isinstance(body, dict) else None
        if isinstance(meta, dict) and meta.get("uid") and meta.get("resourceVersion"):
            self.values |= {"uid": meta["uid"], "version": meta["resourceVersion"]}
            self.versions.append(meta["resourceVersion"])
        if isinstance(meta, dict) and meta.get("continue"):
            self.values["continue"] = meta["continue"]


class Runner:
    """Runs cases against one API server, as its administrator or a ServiceAccount.

    ``trusted`` checks the server for ServiceAccounts: the administrator may have a certificate,
    which would win against their tokens.
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
        """The answers of every case, by its name.

        Raises:
            RuntimeError: something that had to succeed before a request didn't.
        """
        room = asyncio.Semaphore(_AT_ONCE)

        async def one(case: Case) -> list[Answer]:
            async with room:
                return await self._case(case)

        async with asyncio.TaskGroup() as group:
            tasks = {case.name: group.create_task(one(case)) for case in cases}
        return {name: task.result() for name, task in tasks.items()}

    async def version(self) -> str:
        """What the server calls itself, ``v1.36.3``."""
        request = Request(method="GET", path="/version")
        _, _, body = await self._once(request, _Progress({}))
        return str(body["gitVersion"])

    async def prepare(self, requests: Iterable[Request]) -> None:
        """Send what is to be there before the first case.

        Raises:
            RuntimeError: something was refused.
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
            status, _, body = await self._once(made, progress)
            if status != 201:
                raise RuntimeError(f"no token for {request.user}: {body}")
            progress.tokens[request.user] = body["status"]["token"]
        body = None
        try:
            async with asyncio.timeout(_PATIENCE):
                while True:
                    status, warnings, body = await self._once(request, progress)
                    if request.until is None or _field(body, request.until[0]) == request.until[1]:
                        progress.learn(body)
                        return status, warnings, body
                    await asyncio.sleep(_PAUSE)
        except TimeoutError:
            where = f"{progress.values.get('ns')}: {request.method} {request.path}"
            raise RuntimeError(f"{where}: waited for {request.until}, last answer {body}") from None

    async def _once(self, request: Request, progress: _Progress) -> tuple[int, list[str], Any]:
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
    """A runner whose connections are closed at the end; ``authority`` of the server is PEM."""
    connector = aiohttp.TCPConnector(limit=_AT_ONCE * 2)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield Runner(session, connection, client_context(ca_data=authority), hook)


_NAMESPACE = (
    Request(method="POST", path="/api/v1/namespaces", body={"metadata": {"name": "{ns}"}}),
    # Made by a controller otherwise, a moment later; and its token in each pod is no news.
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

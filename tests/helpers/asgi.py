"""A caller of ASGI applications within the test, as a server without a network."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import unquote

import msgspec

Scope: TypeAlias = dict[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Application: TypeAlias = Callable[
    [Any, Callable[[], Awaitable[Message]], Callable[[Any], Awaitable[None]]], Awaitable[None]
]
DISCONNECT = "http.disconnect"


@dataclass(frozen=True, kw_only=True)
class Response:
    """A response."""

    status: int
    headers: tuple[tuple[str, str], ...]  # names in lower case
    body: bytes


def scope_of(method: str, path: str, headers: Mapping[str, str]) -> Scope:
    """Return the scope of a request; ``_`` in names of headers becomes ``-``."""
    place, _, query = path.partition("?")
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(place),
        "raw_path": place.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in named.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "extensions": {},
    }


def pieces(*bodies: bytes) -> list[Message]:
    """Return the messages of a body."""
    last = len(bodies) - 1
    return [
        {"type": "http.request", "body": body, "more_body": number < last}
        for number, body in enumerate(bodies)
    ]


async def call(app: Application, scope: Scope, messages: Iterable[Message]) -> Response:
    """Send a request, and return when the response is complete."""
    waiting = list(messages)
    sent: list[Mapping[str, Any]] = []
    answered = asyncio.Event()

    async def receive() -> Message:
        if waiting:
            return waiting.pop(0)
        await answered.wait()
        return {"type": DISCONNECT}

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            answered.set()

    await app(scope, receive, send)
    start, *rest = sent
    return Response(
        status=start["status"],
        headers=tuple((name.decode().lower(), value.decode()) for name, value in start["headers"]),
        body=b"".join(message.get("body", b"") for message in rest),
    )


@dataclass(eq=False)
class Watching:
    """A client of a stream that stays connected until it leaves."""

    app: Application
    scope: Scope
    events: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    ended: bool = False
    _left: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Send the request, and receive until the server ends the response."""
        await self.app(self.scope, self._receive, self._send)
        self.ended = True

    def leave(self) -> None:
        """Close the connection."""
        self._left.set()

    async def _receive(self) -> Message:
        await self._left.wait()
        return {"type": DISCONNECT}

    async def _send(self, message: Mapping[str, Any]) -> None:
        for line in message.get("body", b"").splitlines():
            self.events.put_nowait(msgspec.json.decode(line))

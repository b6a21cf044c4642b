"""Calls an ops application without a network."""

import asyncio
from dataclasses import dataclass
from typing import Any

import fastapi


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    media: str
    body: bytes


async def post(
    app: fastapi.FastAPI, path: str, body: bytes, *, query: str = "", accept: str = "*/*"
) -> Answer:
    """Post a body in two pieces, as a connection may bring it."""
    middle = len(body) // 2
    pieces = [body[:middle], body[middle:]]
    return await _ask(app, "POST", path, pieces, query=query, accept=accept)


async def get(app: fastapi.FastAPI, path: str, *, query: str = "", accept: str = "*/*") -> Answer:
    """Ask, and stay until all of the answer has come."""
    return await _ask(app, "GET", path, [b""], query=query, accept=accept)


async def _ask(
    app: fastapi.FastAPI, method: str, path: str, pieces: list[bytes], *, query: str, accept: str
) -> Answer:
    sent: list[Any] = []
    answered = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if pieces:
            piece = pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(pieces)}
        await answered.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            answered.set()

    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"accept", accept.encode())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    await app(scope, receive, send)
    start, *rest = sent
    headers = dict(start["headers"])
    return Answer(
        status=start["status"],
        media=headers[b"content-type"].decode(),
        body=b"".join(message.get("body", b"") for message in rest),
    )

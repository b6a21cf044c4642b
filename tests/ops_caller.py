"""Calls an ops application without a network."""

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
    pieces: list[dict[str, Any]] = [
        {"type": "http.request", "body": body[:middle], "more_body": True},
        {"type": "http.request", "body": body[middle:], "more_body": False},
    ]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return pieces.pop(0) if pieces else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
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

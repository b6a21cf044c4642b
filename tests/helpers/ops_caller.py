"""A caller of ops applications without a network."""

from dataclasses import dataclass

import fastapi

import asgi


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    media: str
    body: bytes


async def post(
    app: fastapi.FastAPI, path: str, body: bytes, *, query: str = "", accept: str = "*/*"
) -> Answer:
    """Post a body in two parts, as a connection may deliver it."""
    middle = len(body) // 2
    pieces = [body[:middle], body[middle:]]
    return await _ask(app, "POST", path, pieces, query=query, accept=accept)


async def get(app: fastapi.FastAPI, path: str, *, query: str = "", accept: str = "*/*") -> Answer:
    """Send a GET request, and return when the response is complete."""
    return await _ask(app, "GET", path, [b""], query=query, accept=accept)


async def _ask(
    app: fastapi.FastAPI, method: str, path: str, pieces: list[bytes], *, query: str, accept: str
) -> Answer:
    scope = asgi.scope_of(method, f"{path}?{query}", {"accept": accept})
    response = await asgi.call(app, scope, asgi.pieces(*pieces))
    media = dict(response.headers)["content-type"]
    return Answer(status=response.status, media=media, body=response.body)

"""A request of HTTP, and what of the API it asks for."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

import msgspec

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

JSON_PATCH = b"application/json-patch+json"

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_REASONS = {
    400: "BadRequest",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
}


class RefusedError(Exception):
    """The answer is a Status of failure."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def body(self) -> bytes:
        return msgspec.json.encode(
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": str(self),
                "reason": _REASONS[self.code],
                "code": self.code,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request for an object, a collection or a subresource."""

    verb: str
    group: str
    version: str
    namespace: str
    resource: str
    name: str
    subresource: str
    query: Mapping[str, str]
    headers: Mapping[bytes, bytes]

    @property
    def audited(self) -> str:
        """The resource as the audit names it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    @property
    def metadata_only(self) -> bool:
        return b"as=PartialObjectMetadata" in self.headers.get(b"accept", b"")

    @property
    def takes_gzip(self) -> bool:
        return b"gzip" in self.headers.get(b"accept-encoding", b"")

    def number(self, name: str) -> int:
        """An integer of the query; 0 if it isn't there.

        Raises:
            RefusedError: it is none.
        """
        text = self.query.get(name) or "0"
        if not text.isdecimal():
            raise RefusedError(400, f"{name}: not a number: {text!r}")
        return int(text)


def asked_of(scope: Mapping[str, Any]) -> Asked | None:
    """What a request asks for; None if its path is none of a resource."""
    parts: list[str] = scope["path"].split("/")
    if len(parts) > 3 and parts[1] == "api":
        group, version, rest = "", parts[2], parts[3:]
    elif len(parts) > 4 and parts[1] == "apis":
        group, version, rest = parts[2], parts[3], parts[4:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    rest += [""] * (3 - len(rest))
    text = scope["query_string"].decode()
    query = dict(parse_qsl(text)) if text else {}
    method = scope["method"]
    if method == "GET":
        verb = "get" if rest[1] else "watch" if query.get("watch") in ("true", "1") else "list"
    else:
        verb = _VERBS.get(method, method)
    return Asked(
        verb=verb,
        group=group,
        version=version,
        namespace=namespace,
        resource=rest[0],
        name=rest[1],
        subresource=rest[2],
        query=query,
        headers=dict(scope["headers"]),
    )


async def body_of(receive: Receive) -> bytes:
    """The whole body of a request."""
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
    return body

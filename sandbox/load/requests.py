"""HTTP requests of the load mode."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sandbox.apiserver.requests import parse_place, parse_query
from sandbox.errors import ApiError, bad_request

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

JSON_PATCH = b"application/json-patch+json"


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

    @property
    def missing(self) -> ApiError:
        """The error for a missing object."""
        return not_found(f'{self.resource} "{self.name}" not found')

    def number(self, name: str) -> int:
        """Return an integer of the query; 0 if it is missing.

        Raises:
            ApiError: 400, it isn't an integer.
        """
        text = self.query.get(name) or "0"
        if not text.isdecimal():
            raise bad_request(f"{name}: not a number: {text!r}")
        return int(text)


def not_found(text: str) -> ApiError:
    """Return the error for a missing object or path."""
    return ApiError(404, "NotFound", text)


def asked_of(scope: Mapping[str, Any]) -> Asked | None:
    """Parse a request; None if its path isn't that of a resource."""
    place = parse_place(scope["path"])
    if place is None or not place.plural:
        return None
    query = parse_query(scope["query_string"])
    return Asked(
        verb=place.verb(scope["method"], watch=query.get("watch") in ("true", "1")),
        group=place.group,
        version=place.version,
        namespace=place.namespace,
        resource=place.plural,
        name=place.name,
        subresource=place.subresource,
        query=query,
        headers=dict(scope["headers"]),
    )


async def body_of(receive: Receive) -> bytes:
    """Return the whole body of a request."""
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
    return body

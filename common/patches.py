"""JSON patch (RFC 6902) operations that we send."""

from typing import Any

import msgspec

from common.api.base import Wire


class Operation(Wire, frozen=True, kw_only=True):
    """One operation; ``value`` is left out of a removal. The order of fields is the wire's."""

    op: str
    path: str
    value: Any = msgspec.UNSET


def add(path: str, value: Any) -> Operation:
    """Set the value at ``path``, whether or not it exists; its parent must exist."""
    return Operation(op="add", path=path, value=value)


def remove(path: str) -> Operation:
    """Remove the value at ``path``; the API server refuses if it doesn't exist."""
    return Operation(op="remove", path=path)


def parse_pointer(path: str) -> list[str]:
    """Return the tokens of a JSON pointer; the inverse of ``pointer``."""
    return [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]


def pointer(*tokens: str | int) -> str:
    """Return a JSON pointer (RFC 6901) to the member or index that the tokens name in order."""
    return "".join(f"/{str(token).replace('~', '~0').replace('/', '~1')}" for token in tokens)

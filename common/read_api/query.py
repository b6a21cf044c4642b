"""The query of a list, its continue tokens, and the ETags of answers."""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from common.errors import VpaError

T = TypeVar("T")

DEFAULT_LIMIT = 250
MOST = 1000
"""Rows of a page."""

_LONGEST_TOKEN = 4096  # characters; a name has 253


class BadQueryError(VpaError):
    """A parameter of a query can't be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """The rows that a request asks for; an empty text stands for all.

    ``after`` is the continue token, which names the last row of the page before.
    """

    namespace: str = ""
    name: str = ""
    limit: int = DEFAULT_LIMIT
    after: str = ""

    @classmethod
    def of(cls, parameters: Mapping[str, str], *, name: str) -> "ListQuery":
        """Return the query of a request; ``name`` is the parameter that filters by name.

        Raises:
            BadQueryError: the limit is no number from 1 to 1000.
        """
        limit = parameters.get("limit", "") or str(DEFAULT_LIMIT)
        if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:5]) <= MOST):
            raise BadQueryError(f"limit has to be a number from 1 to {MOST}")
        return cls(
            namespace=parameters.get("namespace", ""),
            name=parameters.get(name, ""),
            limit=int(limit),
            after=parameters.get("continue", ""),
        )


def encode_token(place: object) -> str:
    """Return the continue token for a place in a list."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def decode_token(token: str, kind: type[T]) -> T:
    """Return the place that a continue token names.

    Raises:
        BadQueryError: no page had this token.
    """
    try:
        padded = token[:_LONGEST_TOKEN].encode("ascii") + b"=" * (-len(token) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=kind)
    except (binascii.Error, msgspec.DecodeError, ValueError) as error:
        raise BadQueryError("continue has to be the token of a page of this list") from error


def etag(*parts: object) -> str:
    """Return the ETag of an answer that depends on nothing but ``parts``."""
    digest = hashlib.blake2b(msgspec.json.encode(parts), digest_size=12).hexdigest()
    return f'W/"{digest}"'


def matches(if_none_match: str, tag: str) -> bool:
    """Return whether an ``If-None-Match`` header contains the tag.

    Source: RFC 9110 13.1.2, which prescribes the weak comparison.
    """
    present = {each.strip().removeprefix("W/") for each in if_none_match.split(",")}
    return "*" in present or tag.removeprefix("W/") in present

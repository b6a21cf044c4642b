"""The base of what commands print, and the list that each of them prints."""

from collections.abc import Mapping

import msgspec

API_VERSION = "cli.vpa/v1"
"""The version of the schema."""


class Result(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of every object that is printed."""


class ResultList(Result, frozen=True, kw_only=True):
    """The answer of a command: its results, and what it could not see."""

    api_version: str = API_VERSION
    kind: str
    items: tuple[Mapping[str, object] | Result, ...]
    notes: tuple[str, ...] = ()

"""Decoding of an API server's objects, which may nest deeply.

An API server stores up to 10,000 levels wherever a schema preserves unknown fields. The schema of a
checkpoint's weights does. msgspec raises RecursionError at the limit of the interpreter, even for a
part that it only skips, so one object would make a whole page of a list unreadable. That limit is
about 1,000 levels in Python 3.11 and about 10,000 in 3.13.
"""

import re
from typing import TypeVar

import msgspec

T = TypeVar("T")

_DEEPEST = 100  # levels that are kept; what we read has fewer than thirty
_TEXT_OR_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{\]}]')


def decode(decoder: msgspec.json.Decoder[T], body: bytes | str | msgspec.Raw) -> T:
    """Decode JSON; cut values at 100 levels if they nest deeper than the interpreter allows.

    Values below the hundredth level are replaced by null.

    Raises:
        msgspec.DecodeError: it isn't JSON in UTF-8, or has another shape.
    """
    try:
        return _decode(decoder, body)
    except RecursionError:
        whole = body.encode() if isinstance(body, str) else bytes(body)
        return _decode(decoder, _without_depths(whole))


def _decode(decoder: msgspec.json.Decoder[T], body: bytes | str | msgspec.Raw) -> T:
    try:
        return decoder.decode(body)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(str(error)) from error


def _without_depths(body: bytes) -> bytes:
    """Replace each value that is nested too deeply by null."""
    kept = []
    depth = copied = 0
    for found in _TEXT_OR_BRACKET.finditer(body):
        mark = found[0]
        if mark in (b"[", b"{"):
            if depth == _DEEPEST:
                kept += [body[copied : found.start()], b"null"]
            depth += 1
        elif mark in (b"]", b"}"):
            depth -= 1
            if depth == _DEEPEST:
                copied = found.end()
    if depth <= _DEEPEST:
        kept.append(body[copied:])
    return b"".join(kept)

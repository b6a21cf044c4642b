"""Responses of the API server."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sandbox.errors import ApiError

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A complete response. Watches are streamed instead."""

    status: int = 200
    body: bytes
    content_type: str = JSON
    headers: Sequence[tuple[str, str]] = field(default=())


def json_answer(value: Any, *, status: int = 200, warnings: Sequence[str] = ()) -> Answer:
    """Return ``value`` as JSON, with a header for each warning."""
    headers = warning_headers(warnings)
    return Answer(status=status, body=msgspec.json.encode(value), headers=headers)


def text_answer(text: str, *, status: int = 200) -> Answer:
    """Return plain text."""
    return Answer(status=status, body=text.encode(), content_type=TEXT)


def refusal(error: ApiError) -> Answer:
    """Return the ``Status`` of a refused request."""
    headers = warning_headers(error.warnings)
    if error.retry_after is not None:
        headers.append(("Retry-After", str(error.retry_after)))
    return Answer(
        status=error.code, body=msgspec.json.encode(error.status_object()), headers=headers
    )


def unknown_path() -> Answer:
    """Return the response for a path outside the API."""
    return text_answer("404 page not found\n", status=404)


def warning_headers(warnings: Sequence[str]) -> list[tuple[str, str]]:
    """Return one ``Warning`` header for each text without a control character.

    Source: ``NewWarningHeader``, k8s.io/apimachinery pkg/util/net/http.go.
    """
    texts = (
        text.replace("\\", "\\\\").replace('"', '\\"')
        for text in warnings
        if not _CONTROL.search(text)
    )
    return [("Warning", f'299 - "{text}"') for text in texts]


def raw_headers(answer: Answer) -> list[tuple[bytes, bytes]]:
    """Return the headers in the form of ASGI."""
    pairs: list[tuple[bytes, bytes]] = [
        (b"content-type", answer.content_type.encode()),
        (b"content-length", b"%d" % len(answer.body)),
    ]
    pairs += [(name.encode(), _latin(value)) for name, value in answer.headers]
    return pairs


def _latin(value: str) -> bytes:
    return value.encode("latin-1", errors="replace")


def lowered(raw: Sequence[tuple[bytes, bytes]]) -> Mapping[str, str]:
    """Return request headers by lower-case name. The last one of a name counts."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in raw}

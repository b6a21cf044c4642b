"""What goes back to a client."""

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
    """A complete answer; watches are streamed instead."""

    status: int = 200
    body: bytes
    content_type: str = JSON
    headers: Sequence[tuple[str, str]] = field(default=())


def json_answer(value: Any, *, status: int = 200, warnings: Sequence[str] = ()) -> Answer:
    """``value`` as JSON, and what the client is warned of."""
    headers = warning_headers(warnings)
    return Answer(status=status, body=msgspec.json.encode(value), headers=headers)


def text_answer(text: str, *, status: int = 200) -> Answer:
    """Plain text."""
    return Answer(status=status, body=text.encode(), content_type=TEXT)


def refusal(error: ApiError) -> Answer:
    """The ``Status`` of a refused request."""
    headers = warning_headers(error.warnings)
    if error.retry_after is not None:
        headers.append(("Retry-After", str(error.retry_after)))
    return Answer(
        status=error.code, body=msgspec.json.encode(error.status_object()), headers=headers
    )


def unknown_path() -> Answer:
    """What a path outside the API gets."""
    return text_answer("404 page not found\n", status=404)


def warning_headers(warnings: Sequence[str]) -> list[tuple[str, str]]:
    """Return one ``Warning`` header for each text; one with a control character is left out.

    Source: ``NewWarningHeader``, k8s.io/apimachinery pkg/util/net/http.go.
    """
    texts = (
        text.replace("\\", "\\\\").replace('"', '\\"')
        for text in warnings
        if not _CONTROL.search(text)
    )
    return [("Warning", f'299 - "{text}"') for text in texts]


def raw_headers(answer: Answer) -> list[tuple[bytes, bytes]]:
    """The headers as ASGI wants them."""
    pairs: list[tuple[bytes, bytes]] = [
        (b"content-type", answer.content_type.encode()),
        (b"content-length", b"%d" % len(answer.body)),
    ]
    pairs += [(name.encode(), _latin(value)) for name, value in answer.headers]
    return pairs


def _latin(value: str) -> bytes:
    return value.encode("latin-1", errors="replace")


def lowered(raw: Sequence[tuple[bytes, bytes]]) -> Mapping[str, str]:
    """Request headers by lower-case name; the values of a repeated one, joined by commas."""
    found = {name.decode("latin-1"): value.decode("latin-1") for name, value in raw}
    if len(found) < len(raw):
        for name in found:
            values = [value for other, value in raw if other.decode("latin-1") == name]
            found[name] = ",".join(value.decode("latin-1") for value in values)
    return found

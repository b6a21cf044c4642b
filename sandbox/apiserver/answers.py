"""What goes back to a client."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import yaml

from sandbox.errors import ApiError

JSON = "application/json"
YAML = "application/yaml"
_TEXT_TAG = "tag:yaml.org,2002:str"
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


class _Dumper(yaml.SafeDumper):
    """Writes texts as Go's library does."""


def _text_node(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Line by line what has several, in double quotes what would be something else."""
    style = "|" if "\n" in text else None
    others = _Dumper.yaml_implicit_resolvers.get(text[:1], ())
    if text.lower() in ("y", "n") or any(pattern.match(text) for _, pattern in others):
        style = '"'
    return dumper.represent_scalar(_TEXT_TAG, text, style=style)


_Dumper.add_representer(str, _text_node)


def in_yaml(answer: Answer) -> Answer:
    """The same as YAML, its names in order, if it is JSON."""
    if answer.content_type != JSON:
        return answer
    text = yaml.dump(msgspec.json.decode(answer.body), Dumper=_Dumper, allow_unicode=True)
    return replace(answer, body=text.encode(), content_type=YAML)


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


def warning_of(answer: Answer, text: str) -> Answer:
    """The answer with one more warning, which comes before its own."""
    return replace(answer, headers=[*warning_headers([text]), *answer.headers])


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

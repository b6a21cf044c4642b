"""Bodies of requests and answers: JSON, with the kinds that our wire types omit."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from common.api.decoding import decode
from common.errors import DecodeError
from common.kube.endpoints import Endpoint
from common.kube.watch import decoder_of

T = TypeVar("T")


def decoded(endpoint: Endpoint[T], body: bytes) -> T:
    """Return the object in an answer.

    Raises:
        DecodeError: the answer has another shape.
    """
    decoder = decoder_of(endpoint.type)
    try:
        return decode(decoder, body)
    except msgspec.DecodeError as error:
        raise DecodeError(f"answer is not a {endpoint.kind}: {error}") from error


def typed(endpoint: Endpoint[Any], body: Any) -> bytes:
    """Return the body with the ``apiVersion`` and ``kind`` that our wire types omit."""
    if isinstance(body, bytes):
        return body
    head = {"apiVersion": endpoint.api_version, "kind": endpoint.kind}
    if isinstance(body, Mapping):
        return msgspec.json.encode({**head, **body})
    encoded = msgspec.json.encode(body)
    start = msgspec.json.encode(head)
    return start if encoded == b"{}" else start[:-1] + b"," + encoded[1:]

"""Fields that hold bytes, which JSON has as base64: what Go's decoder says of other texts.

Source: ``Encoding.decodeQuantum``, encoding/base64 of Go, with its standard alphabet.
"""

import binascii
import string
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sandbox.errors import cannot_be_handled
from sandbox.objects.resources import Resource

Json = Mapping[str, Any]

_ALPHABET: Final = frozenset(string.ascii_letters + string.digits + "+/")
_GROUP: Final = 4  # letters
_LEAST: Final = 2  # letters of the last group


def check(resource: Resource, obj: Json) -> None:
    """Check the bytes of a built-in kind.

    Raises:
        ApiError: 400, a text is no base64.
    """
    for text in _TEXTS.get(resource.kind, _none)(obj):
        try:
            binascii.a2b_base64(text, strict_mode=True)
        except (binascii.Error, ValueError) as error:
            place = broken_at(text)
            if place is not None:
                problem = f"illegal base64 data at input byte {place}"
                raise cannot_be_handled(resource, problem) from error


def broken_at(text: str) -> int | None:
    """The byte at which a text stops to be base64, None when it is; line breaks don't count."""
    filled = 0  # letters of the group of four
    letters = [(place, letter) for place, letter in enumerate(text) if letter not in "\r\n"]
    for index, (place, letter) in enumerate(letters):
        if letter in _ALPHABET:
            filled = (filled + 1) % _GROUP
            continue
        if letter != "=" or filled < _LEAST:
            return place
        rest = letters[index + 1 :]
        if filled == _LEAST:  # two are needed
            if not rest:
                return len(text)
            if rest[0][1] != "=":
                return rest[0][0] - 1
            rest = rest[1:]
        return rest[0][0] if rest else None
    return len(text) - filled if filled else None


def _none(_obj: Json) -> Iterator[str]:
    return iter(())


def _config_map(obj: Json) -> Iterator[str]:
    yield from (obj.get("binaryData") or {}).values()


def _secret(obj: Json) -> Iterator[str]:
    yield from (obj.get("data") or {}).values()


def _webhooks(obj: Json) -> Iterator[str]:
    for hook in obj.get("webhooks") or ():
        yield (hook.get("clientConfig") or {}).get("caBundle") or ""


def _api_service(obj: Json) -> Iterator[str]:
    yield (obj.get("spec") or {}).get("caBundle") or ""


_TEXTS: Final = {
    "APIService": _api_service,
    "ConfigMap": _config_map,
    "MutatingWebhookConfiguration": _webhooks,
    "Secret": _secret,
    "ValidatingWebhookConfiguration": _webhooks,
}

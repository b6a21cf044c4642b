"""Decoding of JSON that is nested deeper than msgspec's limit, or nearly so."""

from collections.abc import Callable

import msgspec
import pytest

from common.api.decoding import decode

LEVELS = 9900  # an API server refuses more than 10,000
MARKS = {"lists": ("[", "]"), "objects": ('{"x":', "}")}
DEEP = {name: f"{opened * LEVELS}1{closed * LEVELS}" for name, (opened, closed) in MARKS.items()}


class Named(msgspec.Struct):
    name: str
    value: object = None


def levels(value: object) -> int:
    """Return the nesting depth of a value."""
    found = 0
    while isinstance(value, list | dict):
        found += 1
        value = value["x"] if isinstance(value, dict) else value[0]
    return found


def reads(text: str) -> bool:
    """Return True if msgspec decodes this depth; it does on Python 3.13."""
    try:
        msgspec.json.decode(f"[{text}]")
    except RecursionError:
        return False
    return True


NAMED = msgspec.json.Decoder(Named)
ANYTHING = msgspec.json.Decoder()


@pytest.mark.parametrize("deep", DEEP.values(), ids=DEEP.keys())
@pytest.mark.parametrize("form", [str, str.encode, lambda text: msgspec.Raw(text.encode())])
def test_values_that_are_too_deep_become_null_and_the_rest_is_decoded(
    form: Callable[[str], str | bytes | msgspec.Raw], deep: str
) -> None:
    text = f'{{"skipped": [0, {deep}, 1], "name": "web", "value": {deep}}}'
    found = decode(NAMED, form(text))
    assert found.name == "web"
    assert levels(found.value) == (LEVELS if reads(deep) else 99)


def test_siblings_of_values_that_are_too_deep_are_kept() -> None:
    deep = DEEP["lists"]
    text = f'[{{"a": {deep}, "b": "x]}}"}}, "[", {deep}, "\\"]", {{"c": [2, 3]}}]'
    first, *others = decode(ANYTHING, text.encode())
    assert first["b"] == "x]}"
    assert others[0] == "["
    assert others[2:] == ['"]', {"c": [2, 3]}]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"[" * LEVELS, id="without an end"),
        pytest.param(b"[" * LEVELS + b"]" * (LEVELS - 1), id="that ends too early"),
        pytest.param(DEEP["lists"].encode() + b"]", id="that ends too late"),
        pytest.param(b'{"name": "web\xed\xa0\x80"}', id="with a truncated UTF-8 character"),
        pytest.param(b'{"name": "web\\ud800"}', id="with an escaped lone surrogate"),
        pytest.param(b'{"name": 1}', id="of another shape"),
    ],
)
def test_invalid_json_raises_an_error(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(NAMED, text)

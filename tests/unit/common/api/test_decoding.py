"""Decoding of JSON that nests deeper than msgspec reads, or nearly so."""

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
    """Return how deep a value nests."""
    found = 0
    while isinstance(value, list | dict):
        found += 1
        value = value["x"] if isinstance(value, dict) else value[0]
    return found


def reads(text: str) -> bool:
    """Return whether the interpreter lets msgspec nest so deep; Python 3.13 does."""
    try:
        msgspec.json.decode(f"[{text}]")
    except RecursionError:
        return False
    return True


NAMED = msgspec.json.Decoder(Named)
ANYTHING = msgspec.json.Decoder()


@pytest.mark.parametrize("deep", DEEP.values(), ids=DEEP.keys())
@pytest.mark.parametrize("form", [str, str.encode, lambda text: msgspec.Raw(text.encode())])
def test_what_is_too_deep_is_null_and_the_rest_is_read(form: object, deep: str) -> None:
    text = f'{{"skipped": [0, {deep}, 1], "name": "web", "value": {deep}}}'
    found = decode(NAMED, form(text))  # type: ignore[operator]
    assert found.name == "web"
    assert levels(found.value) == (LEVELS if reads(deep) else 99)


def test_siblings_of_what_is_too_deep_are_kept() -> None:
    deep = DEEP["lists"]
    text = f'[{{"a": {deep}, "b": "x]}}"}}, "[", {deep}, "\\"]", {{"c": [2, 3]}}]'
    first, *others = decode(ANYTHING, text.encode())
    assert first["b"] == "x]}"
    assert others[0] == "["
    assert others[2:] == ['"]', {"c": [2, 3]}]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"[" * LEVELS, id="that never ends"),
        pytest.param(b"[" * LEVELS + b"]" * (LEVELS - 1), id="that ends too early"),
        pytest.param(DEEP["lists"].encode() + b"]", id="that ends too late"),
        pytest.param(b'{"name": "web\xed\xa0\x80"}', id="with half a character in UTF-8"),
        pytest.param(b'{"name": "web\\ud800"}', id="with half a character, escaped"),
        pytest.param(b'{"name": 1}', id="of another shape"),
    ],
)
def test_what_is_no_json_is_an_error(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(NAMED, text)

"""JSON patches as they go over the wire."""

import msgspec
import pytest

from common.patches import add, pointer, remove


@pytest.mark.parametrize(
    ("tokens", "want"),
    [
        ((), ""),
        (("spec", "containers", 0, "resources"), "/spec/containers/0/resources"),
        (
            ("metadata", "annotations", "vpaCpuStartupBoost/app"),
            "/metadata/annotations/vpaCpuStartupBoost~1app",
        ),
        (("a~b/c",), "/a~0b~1c"),
        (("~1",), "/~01"),
        (("",), "/"),
    ],
)
def test_pointer(tokens: tuple[str | int, ...], want: str) -> None:
    assert pointer(*tokens) == want


def test_an_addition_carries_its_value_even_if_empty() -> None:
    operations = [add("/a", {}), add("/b", None), add("/c", "1")]
    assert msgspec.json.decode(msgspec.json.encode(operations)) == [
        {"op": "add", "path": "/a", "value": {}},
        {"op": "add", "path": "/b", "value": None},
        {"op": "add", "path": "/c", "value": "1"},
    ]


def test_a_removal_has_no_value() -> None:
    assert msgspec.json.encode(remove("/a")) == b'{"op":"remove","path":"/a"}'

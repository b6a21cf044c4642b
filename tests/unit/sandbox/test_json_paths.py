"""JSONPath of printer columns."""

from typing import Any

import pytest

from sandbox.objects.json_paths import JsonPathError, find

OBJ = {
    "spec": {"replicas": 3, "list": ["a", "b"]},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "Old", "status": "False"},
        ]
    },
}


@pytest.mark.parametrize(
    ("path", "want"),
    [
        pytest.param(".spec.replicas", 3, id="fields"),
        pytest.param(".spec.list[1]", "b", id="index"),
        pytest.param(".spec.list[2]", None, id="index out of range"),
        pytest.param(".spec.nothing.below", None, id="missing"),
        pytest.param(".spec.replicas.below", None, id="a field of a number"),
        pytest.param(".status.conditions[?(@.type=='Ready')].status", "True", id="filter"),
        pytest.param('.status.conditions[?(@.type=="Old")].status', "False", id="double quotes"),
        pytest.param(".status.conditions[?(@.type=='No')].status", None, id="no match"),
    ],
)
def test_find(path: str, want: Any) -> None:
    assert find(OBJ, path) == want


@pytest.mark.parametrize("path", ["..x", ".a[?(@.b>1)]", ".a[", ".a[1:2]"])
def test_unsupported_expressions_raise_an_error(path: str) -> None:
    with pytest.raises(JsonPathError, match="not a supported JSONPath"):
        find({}, path)

"""Custom resources under their schema: pruning, defaults, every kind of rule."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from sandbox.objects.structural_schema import check, fill_defaults, prune

FACTOR_RULE = "self.type == 'Factor' ? has(self.factor) : !has(self.factor)"
BOOST = {
    "type": "object",
    "x-kubernetes-validations": [{"rule": FACTOR_RULE, "message": "factor goes with Factor"}],
    "properties": {"type": {"type": "string"}, "factor": {"type": "integer"}},
}


def under(name: str, schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {name: schema}}


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    schema: dict[str, Any]
    good: list[Any] = field(default_factory=list)
    bad: dict[str, Any] = field(default_factory=dict)  # cause's message: value


TEXT = {"type": "string"}
CASES = [
    Case(
        id="types",
        schema={"type": "integer"},
        good=[1, 2.0],
        bad={
            'Invalid value: "string": v in body must be of type integer: "string"': "1",
            'Invalid value: "number": v in body must be of type integer: "number"': 1.5,
            'Invalid value: "boolean": v in body must be of type integer: "boolean"': True,
            'Invalid value: "null": v in body must be of type integer: "null"': None,
        },
    ),
    Case(id="numbers may be whole", schema={"type": "number"}, good=[1, 1.5, 1e30]),
    Case(id="nullable", schema={"type": "string", "nullable": True}, good=[None, "x"]),
    Case(
        id="int or string",
        schema={"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, TEXT]},
        good=[1, "1"],
        bad={'Invalid value: "array": v in body must be of type integer or string: "array"': []},
    ),
    Case(
        id="enum",
        schema={"type": "string", "enum": ["A", "B"]},
        good=["A"],
        bad={'Unsupported value: "C": supported values: "A", "B"': "C"},
    ),
    Case(
        id="minimum",
        schema={"type": "integer", "minimum": 1},
        good=[1],
        bad={"Invalid value: 0: v in body should be greater than or equal to 1": 0},
    ),
    Case(
        id="exclusive maximum",
        schema={"type": "integer", "maximum": 5, "exclusiveMaximum": True},
        good=[4],
        bad={"Invalid value: 5: v in body should be less than 5": 5},
    ),
    Case(
        id="int32",
        schema={"type": "integer", "format": "int32"},
        good=[2**31 - 1],
        bad={f"Invalid value: {2**31}: v in body must be of type int32: {2**31}": 2**31},
    ),
    Case(
        id="pattern",
        schema={"type": "string", "pattern": "^a+$"},
        good=["aa"],
        bad={"Invalid value: \"b\": v in body should match '^a+$'": "b"},
    ),
    Case(
        id="length",
        schema={"type": "string", "minLength": 2, "maxLength": 3},
        good=["ab", "abc"],
        bad={
            'Invalid value: "a": v in body should be at least 2 chars long': "a",
            "Too long: may not be more than 3 bytes": "abcd",
        },
    ),
    Case(
        id="items",
        schema={"type": "array", "minItems": 1, "maxItems": 2, "items": TEXT},
        good=[["a"], ["a", "b"]],
        bad={
            "Invalid value: 0: v in body should have at least 1 items": [],
            "Too many: 3: must have at most 2 items": ["a", "b", "c"],
            'Invalid value: "integer": v[0] in body must be of type string: "integer"': [1],
        },
    ),
    Case(
        id="list as a map",
        schema={
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": TEXT}},
        },
        good=[[{"k": "a"}, {"k": "b"}]],
        bad={'Duplicate value: {"k":"a"}': [{"k": "a"}, {"k": "a"}]},
    ),
    Case(
        id="required",
        schema={"type": "object", "required": ["a"], "properties": {"a": TEXT}},
        good=[{"a": ""}],
        bad={"Required value": {}},
    ),
    Case(
        id="additional properties",
        schema={"type": "object", "additionalProperties": {"type": "integer"}},
        good=[{"x": 1}],
        bad={'Invalid value: "string": v.x in body must be of type integer: "string"': {"x": "1"}},
    ),
    Case(
        id="one of",
        schema={"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        good=[{"a": 1}],
        bad={
            'Invalid value: {"a":1,"b":1}: v in body must validate one and only one schema '
            "(oneOf)": {"a": 1, "b": 1}
        },
    ),
    Case(
        id="not",
        schema={"not": {"enum": ["x"]}},
        good=["y"],
        bad={'Invalid value: "x": v in body must not validate the schema (not)': "x"},
    ),
    Case(
        id="date-time",
        schema={"type": "string", "format": "date-time"},
        good=["2026-01-01T00:00:00Z"],
        bad={'Invalid value: "now": v in body must be of type date-time: "now"': "now"},
    ),
    Case(
        id="a field that goes with a value",
        schema=BOOST,
        good=[{"type": "Factor", "factor": 2}, {"type": "Quantity"}],
        bad={'Invalid value: "object": factor goes with Factor': {"type": "Quantity", "factor": 2}},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_rules(case: Case) -> None:
    schema = under("v", case.schema)
    for value in case.good:
        assert check({"v": value}, schema, nil="null") == []
    for message, value in case.bad.items():
        assert [cause.message for cause in check({"v": value}, schema, nil="null")] == [message]


def test_rules_in_cel_wait_for_the_right_shape() -> None:
    schema = {**under("boost", BOOST), "required": ["name"]}
    causes = check({"boost": {"type": "Quantity", "factor": 2}}, schema, nil='"null"')
    assert [cause.field for cause in causes] == ["name", "<nil>"]
    assert causes[1].message.startswith('Invalid value: "null": some validation rules were not')


def test_other_rules_are_taken_as_kept() -> None:
    schema = {"type": "object", "x-kubernetes-validations": [{"rule": "self.a > self.b"}]}
    assert check({"a": 1, "b": 2}, schema, nil="null") == []


def test_unknown_fields_are_pruned() -> None:
    schema = under(
        "spec",
        {
            "type": "object",
            "properties": {
                "known": {"type": "array", "items": under("a", TEXT)},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
    )
    obj = {
        "apiVersion": "v1",
        "metadata": {"name": "x"},
        "spec": {"known": [{"a": "1", "b": "2"}], "free": {"x": {"y": 1}}, "bogus": 1},
        "other": 1,
    }
    assert prune(obj, schema) == ["spec.known[0].b", "spec.bogus", "other"]
    assert obj == {
        "apiVersion": "v1",
        "metadata": {"name": "x"},
        "spec": {"known": [{"a": "1"}], "free": {"x": {"y": 1}}},
    }


def test_defaults_are_filled_in_and_not_shared() -> None:
    schema = under("list", {"type": "array", "default": [{}], "items": under("a", {"default": 1})})
    first: dict[str, Any] = {}
    second: dict[str, Any] = {"list": None}
    for obj in (first, second):
        fill_defaults(obj, schema)
        assert obj == {"list": [{"a": 1}]}
    first["list"][0]["a"] = 2
    assert second == {"list": [{"a": 1}]}

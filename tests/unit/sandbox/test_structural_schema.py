"""Custom resources and their schema: pruning, defaults, all kinds of rules."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from sandbox.objects.schema_validation import check
from sandbox.objects.structural_schema import drop_nulls, fill_defaults, prune

FACTOR_RULE = "self.type == 'Factor' ? has(self.factor) : !has(self.factor)"
BOOST = {
    "type": "object",
    "x-kubernetes-validations": [{"rule": FACTOR_RULE, "message": "factor goes with Factor"}],
    "properties": {"type": {"type": "string"}, "factor": {"type": "integer"}},
}


def schema_of(name: str, schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {name: schema}}


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    schema: dict[str, Any]
    good: list[Any] = field(default_factory=list)
    bad: dict[str, Any] = field(default_factory=dict)  # value by message of the cause


TEXT = {"type": "string"}
CASES = [
    Case(
        id="types",
        schema={"type": "integer"},
        good=[1, 2.0],
        bad={
            'Invalid value: "string": v in body must be of type integer: "string"': "1",
            'Invalid value: "boolean": v in body must be of type integer: "boolean"': True,
            'Invalid value: "null": v in body must be of type integer: "null"': None,
        },
    ),
    Case(id="whole numbers are numbers", schema={"type": "number"}, good=[1, 1.5, 1e30]),
    Case(id="nullable", schema={"type": "string", "nullable": True}, good=[None, "x"]),
    Case(
        id="int or string",
        schema={"x-kubernetes-int-or-string": True},
        good=[1, "1"],
        bad={'Invalid value: "array": v in body must be of type integer,string: "array"': []},
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
        id="a CEL rule: a field that requires a value of another",
        schema=BOOST,
        good=[{"type": "Factor", "factor": 2}, {"type": "Quantity"}],
        bad={'Invalid value: "object": factor goes with Factor': {"type": "Quantity", "factor": 2}},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_rules(case: Case) -> None:
    schema = schema_of("v", case.schema)
    for value in case.good:
        assert check({"v": value}, schema, nil="null") == []
    for message, value in case.bad.items():
        assert [cause.message for cause in check({"v": value}, schema, nil="null")] == [message]


@dataclass(frozen=True, kw_only=True)
class SeveralViolations:
    """A value that violates more than one rule."""

    id: str
    schema: dict[str, Any]
    value: Any
    causes: list[tuple[str, str]]  # field and message of each cause


SEVERAL = [
    SeveralViolations(
        id="a wrong type doesn't hide the other rules",
        schema={"type": "string", "enum": ["x"]},
        value=1,
        causes=[
            ("v", 'Invalid value: "integer": v in body must be of type string: "integer"'),
            ("v", 'Unsupported value: 1: supported values: "x"'),
        ],
    ),
]


@pytest.mark.parametrize("case", SEVERAL, ids=lambda case: case.id)
def test_every_violation_is_reported(case: SeveralViolations) -> None:
    causes = check({"v": case.value}, schema_of("v", case.schema), nil="null")
    assert [(cause.field, cause.message) for cause in causes] == case.causes


def test_an_update_is_not_refused_for_unchanged_values() -> None:
    schema = schema_of("spec", {"type": "object", "properties": {"a": TEXT, "b": TEXT}})
    old = {"spec": {"a": 1, "b": "x"}}
    assert check({"spec": {"a": 1, "b": "y"}}, schema, nil="null", old=old) == []
    changed = check({"spec": {"a": 2, "b": "x"}}, schema, nil="null", old=old)
    assert [cause.field for cause in changed] == ["spec.a"]
    assert check({"spec": {"a": True, "b": "x"}}, schema, nil="null", old=old) != []


def test_an_entry_of_a_list_map_is_compared_with_the_entry_of_the_same_key() -> None:
    entry = {"type": "object", "properties": {"k": TEXT, "v": {"type": "integer"}}}
    schema = schema_of(
        "list",
        {
            "type": "array",
            "items": entry,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
        },
    )
    old = {"list": [{"k": "a", "v": "text"}]}
    moved = {"list": [{"k": "b", "v": 1}, {"k": "a", "v": "text"}]}
    assert check(moved, schema, nil="null", old=old) == []
    assert check(moved, schema, nil="null") != []


def test_causes_of_a_status_have_its_path() -> None:
    schema = schema_of("status", {"type": "object", "properties": {"a": TEXT}})
    wrong = check({"spec": 1, "status": {"a": 1}}, schema, nil="null", old={}, part="status")
    assert [(one.field, one.message) for one in wrong] == [
        ("status.a", 'Invalid value: "integer": a in body must be of type string: "integer"')
    ]


def test_nulls_of_fields_that_are_not_nullable_are_dropped() -> None:
    fields = {"gone": TEXT, "kept": {**TEXT, "nullable": True}, "filled": {**TEXT, "default": "d"}}
    obj: dict[str, Any] = {"spec": {"gone": None, "kept": None, "filled": None, "free": None}}
    drop_nulls(obj, schema_of("spec", {"type": "object", "properties": fields}))
    assert obj == {"spec": {"kept": None, "filled": None, "free": None}}


def test_cel_rules_are_not_checked_if_the_schema_is_violated() -> None:
    schema = {**schema_of("boost", BOOST), "required": ["name"]}
    causes = check({"boost": {"type": "Quantity", "factor": 2}}, schema, nil='"null"')
    assert [cause.field for cause in causes] == ["name", "<nil>"]
    assert causes[1].message.startswith('Invalid value: "null": some validation rules were not')


def test_unknown_cel_rules_are_not_checked() -> None:
    schema = {"type": "object", "x-kubernetes-validations": [{"rule": "self.a > self.b"}]}
    assert check({"a": 1, "b": 2}, schema, nil="null") == []


def test_unknown_fields_are_pruned() -> None:
    schema = schema_of(
        "spec",
        {
            "type": "object",
            "properties": {
                "known": {"type": "array", "items": schema_of("a", TEXT)},
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
    prune(obj, schema)
    assert obj == {
        "apiVersion": "v1",
        "metadata": {"name": "x"},
        "spec": {"known": [{"a": "1"}], "free": {"x": {"y": 1}}},
    }


def test_defaults_are_filled_in_and_not_shared() -> None:
    schema = schema_of(
        "list", {"type": "array", "default": [{}], "items": schema_of("a", {"default": 1})}
    )
    first: dict[str, Any] = {}
    second: dict[str, Any] = {"list": None}
    for obj in (first, second):
        fill_defaults(obj, schema)
        assert obj == {"list": [{"a": 1}]}
    first["list"][0]["a"] = 2
    assert second == {"list": [{"a": 1}]}

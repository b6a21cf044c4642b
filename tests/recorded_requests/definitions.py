"""CustomResourceDefinitions: rules of their schemas, one by one, and refused ones."""

from typing import Any

from recorded_requests.case import (
    Case,
    Object,
    case,
    get,
    named,
    post,
)
from recorded_requests.custom import CRDS

THINGS = "/apis/{ns}.example.com/v1/namespaces/{ns}/things"


def definition(
    schema: Object, *, plural: str = "things", scope: str = "Namespaced", **version: Any
) -> Object:
    """A definition in a group that only its case has."""
    return named(
        f"{plural}.{{ns}}.example.com",
        spec={
            "group": "{ns}.example.com",
            "scope": scope,
            "names": {
                "plural": plural,
                "singular": "thing",
                "kind": "Thing",
                "listKind": "ThingList",
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", **schema}},
                    **version,
                }
            ],
        },
    )


THINGS = "/apis/{ns}.example.com/v1/namespaces/{ns}/things"


def thing(**fields: Any) -> Object:
    return {
        "apiVersion": "{ns}.example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "t"},
        **fields,
    }


def schemas() -> list[Case]:
    """Other people's definitions: rules of the schema, one by one."""

    def ruled(name: str, rule: Object, *values: Any) -> Case:
        body = definition({"properties": {"a": rule}})
        served = get(
            f"{CRDS}/things.{{ns}}.example.com", until=("status.conditions.1.status", "True")
        )
        listed = get(THINGS, until=("kind", "ThingList"))
        return case(
            f"schema-{name}",
            *(post(f"{THINGS}?dryRun=All", thing(a=value)) for value in values),
            before=[post(CRDS, body), served, listed],
        )

    integer = {"type": "integer"}
    text = {"type": "string"}
    return [
        ruled("integer", integer, 1, "1", 1.5, True, None),
        ruled("number", {"type": "number"}, 1, 1.5, "1"),
        ruled("string", text, "a", 1, None),
        ruled("boolean", {"type": "boolean"}, True, "true"),
        ruled("minimum", {**integer, "minimum": 1, "maximum": 3}, 0, 1, 3, 4),
        ruled("exclusive", {**integer, "minimum": 1, "exclusiveMinimum": True}, 1, 2),
        ruled("multiple", {**integer, "multipleOf": 5}, 10, 11),
        ruled("length", {**text, "minLength": 2, "maxLength": 3}, "a", "abc", "abcd"),
        ruled("pattern", {**text, "pattern": "^a+$"}, "aa", "b"),
        ruled("enum", {**text, "enum": ["x", "y"]}, "x", "z", 1),
        ruled("date-time", {**text, "format": "date-time"}, "2026-11-21T08:25:00Z", "today"),
        ruled(
            "items",
            {"type": "array", "items": integer, "minItems": 1, "maxItems": 2},
            [],
            [1],
            [1, 2, 3],
            ["x"],
            {},
        ),
        ruled(
            "set",
            {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
            ["a", "b"],
            ["a", "a"],
        ),
        ruled(
            "map-list",
            {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {"k": text}},
            },
            [{"k": "a"}],
            [{"k": "a"}, {"k": "a"}],
            [{}],
        ),
        ruled(
            "required",
            {"type": "object", "required": ["b"], "properties": {"b": text}},
            {"b": "x"},
            {},
            "text",
        ),
        ruled(
            "default",
            {"type": "object", "properties": {"b": {**text, "default": "d"}}},
            {},
            {"b": "x"},
            {"b": None},
        ),
        ruled("nullable", {**text, "nullable": True}, None, "x"),
        ruled(
            "additional", {"type": "object", "additionalProperties": integer}, {"x": 1}, {"x": "1"}
        ),
        ruled("int-or-string", {"x-kubernetes-int-or-string": True}, 1, "1", 1.5, True),
        ruled(
            "preserve",
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            {"x": {"y": 1}},
        ),
        ruled("pruned", {"type": "object", "properties": {"b": text}}, {"b": "x", "c": 1}),
        ruled(
            "any-of",
            {
                "type": "object",
                "properties": {"b": integer, "c": text},
                "anyOf": [{"required": ["b"]}, {"required": ["c"]}],
            },
            {"b": 1},
            {},
        ),
        ruled(
            "one-of",
            {
                "type": "object",
                "properties": {"b": integer, "c": text},
                "oneOf": [{"required": ["b"]}, {"required": ["c"]}],
            },
            {"b": 1},
            {"b": 1, "c": "x"},
        ),
        ruled(
            "not",
            {"type": "object", "properties": {"b": integer}, "not": {"required": ["b"]}},
            {},
            {"b": 1},
        ),
        ruled(
            "two-wrong",
            {"type": "object", "required": ["c"], "properties": {"b": integer, "c": text}},
            {"b": "x"},
        ),
    ]


def definitions() -> list[Case]:
    """Refused definitions."""
    good = definition({})
    spec = good["spec"]
    version = spec["versions"][0]
    bodies: dict[str, Object] = {
        "bad-name": {**good, "metadata": {"name": "other.{ns}.example.com"}},
        "no-versions": {**good, "spec": {**spec, "versions": []}},
        "no-schema": {
            **good,
            "spec": {**spec, "versions": [{"name": "v1", "served": True, "storage": True}]},
        },
        "no-storage": {**good, "spec": {**spec, "versions": [{**version, "storage": False}]}},
        "bad-scope": {**good, "spec": {**spec, "scope": "Everywhere"}},
        "no-names": {**good, "spec": {**spec, "names": {}}},
        "no-type": definition({"properties": {"a": {}}}),
        "unknown-type": definition({"properties": {"a": {"type": "thing"}}}),
        "array-without-items": definition({"properties": {"a": {"type": "array"}}}),
        "bad-default": definition({"properties": {"a": {"type": "integer", "default": "x"}}}),
        "properties-and-additional": definition(
            {
                "properties": {
                    "a": {
                        "type": "object",
                        "properties": {"b": {"type": "string"}},
                        "additionalProperties": {"type": "string"},
                    }
                }
            }
        ),
        "bad-pattern": definition({"properties": {"a": {"type": "string", "pattern": "("}}}),
        "no-spec": named("things.{ns}.example.com"),
    }
    return [case(f"crd-{name}", post(CRDS, body)) for name, body in bodies.items()]


CASES = [*schemas(), *definitions()]

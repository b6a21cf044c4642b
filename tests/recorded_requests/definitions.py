"""CustomResourceDefinitions: rules of their schemas, one by one, and refused ones."""

from typing import Any

from recorded_requests.case import (
    MERGE,
    Case,
    Object,
    case,
    get,
    named,
    patch,
    post,
)
from recorded_requests.custom import CRDS

THINGS = "/apis/{ns}.example.com/v1/namespaces/{ns}/things"
TEXT = {"type": "string"}


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


def ruled(name: str, rule: Object, *values: Any) -> Case:
    body = definition({"properties": {"a": rule}})
    served = get(f"{CRDS}/things.{{ns}}.example.com", until=("status.conditions.1.status", "True"))
    listed = get(THINGS, until=("kind", "ThingList"))
    return case(
        f"schema-{name}",
        *(post(f"{THINGS}?dryRun=All", thing(a=value)) for value in values),
        before=[post(CRDS, body), served, listed],
    )


def schemas() -> list[Case]:
    """Other people's definitions: rules of the schema, one by one."""
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


def parts() -> list[Case]:
    """Names, versions, columns and subresources that a definition may not have."""
    good = definition({"properties": {"a": TEXT, "o": {"type": "object"}}})
    spec = good["spec"]
    version = spec["versions"][0]
    other = {**version, "name": "v2", "storage": False}
    named_so = {"shortNames": ["X_"], "categories": ["a b"], "singular": "THING"}
    columns = [
        {"name": "", "type": "odd", "jsonPath": "a", "format": "odd"},
        {"name": "x", "type": "", "jsonPath": ""},
    ]
    scale = {"specReplicasPath": ".a", "statusReplicasPath": "", "labelSelectorPath": "x"}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"b": {}}}}
    versions: dict[str, list[Object]] = {
        "two-stored": [version, {**other, "storage": True}],
        "same-name": [version, {**other, "name": "v1"}],
        "two-schemas": [version, {**other, "schema": schema}],
        "version-name": [{**version, "name": "V1"}],
        "warning": [{**version, "deprecationWarning": "x"}],
        "columns": [{**version, "additionalPrinterColumns": columns}],
        "selectable": [
            {
                **version,
                "selectableFields": [
                    {"jsonPath": path} for path in (".a", ".b", ".metadata.name", ".a", "", ".o")
                ],
            }
        ],
        "scale": [{**version, "subresources": {"scale": scale}}],
        "empty-schema": [{**version, "schema": {"openAPIV3Schema": {}}}],
        "list-at-root": [{**version, "schema": {"openAPIV3Schema": {"type": "array"}}}],
    }
    specs: dict[str, Object] = {
        "names": {"names": {**spec["names"], "listKind": "Thing", **named_so}},
        "no-conversion": {"conversion": {"strategy": "Odd"}},
        "preserves": {"preserveUnknownFields": True},
    }
    groups = {"short-group": "example", "odd-group": "Example.com", "protected": "{ns}.k8s.io"}
    return [
        *(
            case(f"crd-{name}", post(CRDS, {**good, "spec": {**spec, "versions": given}}))
            for name, given in versions.items()
        ),
        *(
            case(f"crd-{name}", post(CRDS, {**good, "spec": {**spec, **given}}))
            for name, given in specs.items()
        ),
        *(
            case(
                f"crd-{name}",
                post(CRDS, {**named(f"things.{group}"), "spec": {**spec, "group": group}}),
            )
            for name, group in groups.items()
        ),
        case(
            "crd-immutable",
            patch(f"{CRDS}/things.{{ns}}.example.com", {"spec": {"scope": "Cluster"}}, MERGE),
            patch(f"{CRDS}/things.{{ns}}.example.com", {"spec": {"names": {"kind": "X"}}}, MERGE),
            before=[
                post(CRDS, good),
                get(
                    f"{CRDS}/things.{{ns}}.example.com",
                    until=("status.conditions.1.status", "True"),
                ),
            ],
        ),
    ]


def refused_schemas() -> list[Case]:
    """Schemas that aren't structural, or say what none may."""
    entry = {"type": "object", "properties": {"k": TEXT}}
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    fields: dict[str, Object] = {
        "typed-any-of": {**TEXT, "anyOf": [{"type": "string"}]},
        "described-all-of": {**TEXT, "allOf": [{"description": "x", "nullable": True}]},
        "incomplete": {"type": "object", "anyOf": [{"properties": {"z": {"minLength": 1}}}]},
        "not-incomplete": {"type": "array", "items": TEXT, "not": {"items": {"items": {}}}},
        "item-without-type": {"type": "array", "items": {}},
        "null-type": {"type": "null"},
        "preserve-false": {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
        "list-type-of-text": {**TEXT, "x-kubernetes-list-type": "set"},
        "odd-list-type": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "odd"},
        "odd-map-type": {"type": "object", "x-kubernetes-map-type": "odd"},
        "map-of-texts": {"type": "array", "items": TEXT, **keyed},
        "optional-key": {"type": "array", "items": entry, **keyed},
        "keys-without-map": {"type": "array", "items": entry, "x-kubernetes-list-map-keys": ["k"]},
        "no-keys": {"type": "array", "items": entry, "x-kubernetes-list-type": "map"},
        "set-of-objects": {"type": "array", "items": entry, "x-kubernetes-list-type": "set"},
        "unpruned-default": {**entry, "default": {"z": 1}},
        "empty-rule": {**TEXT, "x-kubernetes-validations": [{"rule": ""}]},
        "odd-reason": {**TEXT, "x-kubernetes-validations": [{"rule": "true", "reason": "Odd"}]},
        "unique": {"type": "array", "items": TEXT, "uniqueItems": True},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": True},
    }
    patterns = {
        "close": "a)b",
        "set": "x[a-",
        "star": "*a",
        "twice": "a**",
        "backslash": "a\\",
        "escape": "\\y",
        "range": "[b-a]",
        "ahead": "(?=a)",
        "behind": "(?<=a)",
        "reference": "(a)\\1",
        "count": "a{2,1}",
        "class": "[[:odd:]]",
    }
    kind = {"properties": {"kind": {"type": "integer"}}}
    spelled = {"type": "object", "properties": {"labels": {"type": "object"}}}
    return [
        *(
            case(f"crd-{name}", post(CRDS, definition({"properties": {"a": field}})))
            for name, field in fields.items()
        ),
        *(
            case(
                f"crd-pattern-{name}",
                post(CRDS, definition({"properties": {"a": {**TEXT, "pattern": pattern}}})),
            )
            for name, pattern in patterns.items()
        ),
        case("crd-kind-number", post(CRDS, definition(kind))),
        case("crd-metadata", post(CRDS, definition({"properties": {"metadata": spelled}}))),
        case("crd-root-additional", post(CRDS, definition({"additionalProperties": TEXT}))),
        case("crd-root-nullable", post(CRDS, definition({"nullable": True}))),
    ]


def more_schemas() -> list[Case]:
    """Rules in other places than a field of their own."""
    text, integer = TEXT, {"type": "integer"}
    return [
        ruled("int32", {**integer, "format": "int32"}, 2**31, 1.5, "x", True),
        ruled("date", {**text, "format": "date"}, "2026-11-21", "2026-13-01"),
        ruled("uuid", {**text, "format": "uuid"}, "0000", "00000000-0000-0000-0000-000000000000"),
        ruled("ipv4", {**text, "format": "ipv4"}, "127.0.0.1", "::1"),
        ruled("odd-format", {**text, "format": "odd"}, "x"),
        ruled(
            "properties",
            {
                "type": "object",
                "minProperties": 1,
                "maxProperties": 1,
                "additionalProperties": text,
            },
            {},
            {"x": "a", "y": "b"},
        ),
        ruled("number-multiple", {"type": "number", "multipleOf": 0.5}, 1.5, 1.6),
        ruled("number-maximum", {"type": "number", "maximum": 1.5}, 2),
        ruled("number-enum", {**integer, "enum": [1, 2]}, 3),
        ruled("all-of", {**text, "allOf": [{"minLength": 2}, {"maxLength": 1}]}, "a", "ab"),
        ruled(
            "nested-any-of",
            {
                "type": "object",
                "properties": {"b": integer, "c": text, "d": text},
                "anyOf": [
                    {"required": ["b"]},
                    {"required": ["c"], "properties": {"d": {"minLength": 2}}},
                ],
            },
            {"d": "x"},
            {"d": "xx"},
        ),
        ruled("null-items", {"type": "array", "items": text}, [None]),
        ruled("null-in-map", {"type": "object", "additionalProperties": text}, {"x": None}),
        ruled(
            "defaulted-null",
            {"type": "object", "properties": {"b": {**text, "default": "d"}, "c": text}},
            {"b": None, "c": None},
        ),
    ]


CASES = [*schemas(), *more_schemas(), *definitions(), *parts(), *refused_schemas()]

"""Pruning and defaults of custom resources by their structural schemas.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema, pkg/registry/customresource.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

Schema = Mapping[str, Any]

INT_OR_STRING: Final = "x-kubernetes-int-or-string"
LIST_KEYS: Final = "x-kubernetes-list-map-keys"
LIST_TYPE: Final = "x-kubernetes-list-type"
PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
RULES: Final = "x-kubernetes-validations"

OF_EVERY_OBJECT: Final = ("apiVersion", "kind", "metadata")


def prune(value: Any, schema: Schema, *, root: bool = True) -> None:
    """Remove, in place, fields that the schema doesn't have."""
    if isinstance(value, dict):
        properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
        for name in tuple(value):
            if root and name in OF_EVERY_OBJECT:
                continue
            below = properties.get(name, additional)
            if isinstance(below, Mapping):
                prune(value[name], below, root=False)
            elif not (additional is True or schema.get(PRESERVE)):
                del value[name]
    elif isinstance(value, list) and "items" in schema:
        for item in value:
            prune(item, schema["items"], root=False)


def fill_defaults(value: Any, schema: Schema) -> None:
    """Fill in missing values, in place, also within new defaults."""
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for name, below in properties.items():
            absent = name not in value or (value[name] is None and not below.get("nullable"))
            if absent and "default" in below:
                value[name] = msgspec.json.decode(msgspec.json.encode(below["default"]))
            if name in value:
                fill_defaults(value[name], below)
        additional = schema.get("additionalProperties")
        if isinstance(additional, Mapping):
            for name in value.keys() - properties.keys():
                fill_defaults(value[name], additional)
    elif isinstance(value, list) and "items" in schema:
        for item in value:
            fill_defaults(item, schema["items"])


def drop_nulls(value: Any, schema: Schema | None) -> None:
    """Remove, in place, the nulls of fields that are not nullable and have no default.

    Fields without a schema may be null.
    """
    if isinstance(value, dict):
        for name in tuple(value):
            below = _below(schema, name)
            item = value[name]
            if item is None:
                if below is not None and not below.get("nullable") and "default" not in below:
                    del value[name]
            elif isinstance(item, dict | list):
                drop_nulls(item, below)
    elif isinstance(value, list):
        below = None if schema is None else schema.get("items")
        for item in value:
            if isinstance(item, dict | list):
                drop_nulls(item, below)


def _below(schema: Schema | None, name: str) -> Schema | None:
    """Return the schema of a field."""
    if schema is None:
        return None
    found = schema.get("properties", {}).get(name)
    if found is None:
        found = schema.get("additionalProperties")
    return found if isinstance(found, Mapping) else None

"""Structural schemas of custom resources: what is dropped and filled in.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema, pkg/registry/customresource.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from sandbox.objects.schema_keywords import OF_EVERY_OBJECT, PRESERVE, Schema


def prune(value: Any, schema: Schema, *, root: bool = True) -> None:
    """Remove, in place, what the schema doesn't know."""
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
    """Set, in place, the defaults of what is missing, also within what was just set."""
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
    """Remove, in place, the nulls of fields that may not be null and have no default.

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
    """The schema of a field."""
    if schema is None:
        return None
    found = schema.get("properties", {}).get(name)
    if found is None:
        found = schema.get("additionalProperties")
    return found if isinstance(found, Mapping) else None

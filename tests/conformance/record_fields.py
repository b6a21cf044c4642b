"""Record which fields the built-in kinds have: ``python -P tests/conformance/record_fields.py``.

Asks the API server that kubectl points to (``KUBECONFIG``), a real one, for its OpenAPI v3
documents and writes ``sandbox/objects/fields.json``: the type of every field of the kinds that
the sandbox serves, and of what they consist of.
"""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandbox.objects.access_resources import ACCESS
from sandbox.objects.fields import DATA, kind_key
from sandbox.objects.resources import BUILTIN

Json = dict[str, Any]

_REFERENCE = "#/components/schemas/"
_FORMATS = {"int32": "int32", "int64": "int64", "date-time": "time", "byte": "bytes"}
_ASKED = ("Eviction", "Binding", "Scale", "TokenRequest")  # bodies that aren't stored


def main() -> None:
    """Ask, and write the file."""
    schemas: Json = {}
    for path in _raw("/openapi/v3")["paths"]:
        if path.startswith(("api/", "apis/")):
            schemas |= _raw(f"/openapi/v3/{path}").get("components", {}).get("schemas", {})
    version = _raw("/version")["gitVersion"]
    Path(DATA).write_text(as_text(recorded(schemas, version)))


def recorded(schemas: Mapping[str, Any], version: str) -> Json:
    """The kinds with their types, by names as short as they are unambiguous."""
    served = {kind_key(one.api_version, one.kind) for one in (*BUILTIN, *ACCESS)}
    kinds = {}
    for name, schema in schemas.items():
        for key in _keys(schema):
            if key in served or key.rpartition("/")[2] in _ASKED:
                kinds[key] = name
    found: dict[str, Json] = {}
    pending = list(kinds.values())
    while pending:
        name = pending.pop()
        if name not in found:
            found[name] = schemas[name]["properties"]
            pending += filter(None, (_structure(one, schemas) for one in found[name].values()))
    short = _short_names(found)
    return {
        "version": version,
        "kinds": {key: short[name] for key, name in sorted(kinds.items())},
        "types": {
            short[name]: {
                field: _type(one, schemas, short) for field, one in sorted(properties.items())
            }
            for name, properties in sorted(found.items(), key=lambda item: short[item[0]])
        },
    }


def as_text(fields: Json) -> str:
    """One type on a line, so that two versions of the file can be compared."""
    types = ",\n".join(
        f"{json.dumps(name)}:{json.dumps(one, separators=(',', ':'))}"
        for name, one in fields["types"].items()
    )
    head = json.dumps({"version": fields["version"], "kinds": fields["kinds"]}, indent=0)
    return f'{head.removesuffix("}").rstrip()},\n"types": {{\n{types}\n}}\n}}\n'


def _keys(schema: Json) -> list[str]:
    return [
        kind_key("/".join(filter(None, (one["group"], one["version"]))), one["kind"])
        for one in schema.get("x-kubernetes-group-version-kind", ())
    ]


def _short_names(names: Mapping[str, Any]) -> dict[str, str]:
    last = [name.rpartition(".")[2] for name in names]
    return {
        name: short if last.count(short) == 1 else ".".join(name.split(".")[-3:])
        for name, short in zip(names, last, strict=True)
    }


def _target(schema: Json) -> str:
    """The schema that this one refers to."""
    for one in (schema, *schema.get("allOf", ())):
        if "$ref" in one:
            return str(one["$ref"]).removeprefix(_REFERENCE)
    return ""


def _structure(schema: Json, schemas: Mapping[str, Any]) -> str:
    """The type with fields that a field holds, directly, in a list or in a map."""
    for one in (schema, schema.get("items"), schema.get("additionalProperties")):
        if isinstance(one, dict) and "properties" in schemas.get(_target(one), {}):
            return _target(one)
    return ""


def _type(schema: Json, schemas: Mapping[str, Any], short: Mapping[str, str]) -> str:
    target = _target(schema)
    if target in short:
        return short[target]
    if target:
        return _type(schemas[target], schemas, short) if target in schemas else "any"
    for mark, name in (("[", "items"), ("{", "additionalProperties")):
        if isinstance(schema.get(name), dict):
            return mark + _type(schema[name], schemas, short)
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    kind = schema.get("type", "any")
    return "any" if kind in ("object", "array") else str(kind)


def _raw(path: str) -> Json:
    command = ["kubectl", "get", "--raw", path]
    answer: Json = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return answer


if __name__ == "__main__":
    main()

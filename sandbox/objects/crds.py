"""CustomResourceDefinitions: from the object to the resources that it adds."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from common.errors import Cause
from sandbox.errors import field_forbidden, field_invalid, field_required
from sandbox.objects.json_paths import JsonPathError, check_path
from sandbox.objects.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from sandbox.objects.schema_validation import Schema
from sandbox.times import rfc3339

_STORED_VERSIONS = "storedVersions"
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_NAMES = ("plural", "singular", "shortNames", "kind", "listKind", "categories")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrinterColumn:
    """One entry of ``additionalPrinterColumns``."""

    name: str
    type: str
    path: str  # JSONPath without the braces
    format: str = ""
    description: str = ""
    priority: int = 0


AGE = PrinterColumn(name="Age", type="date", path=".metadata.creationTimestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePaths:
    """Where a custom resource keeps what ``/scale`` shows; dotted paths with a leading dot."""

    spec_replicas: str
    status_replicas: str
    selector: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomVersion:
    """A served version of a custom resource."""

    resource: Resource
    schema: Schema = field(default_factory=dict)
    columns: tuple[PrinterColumn, ...] = (AGE,)
    scale: ScalePaths | None = None


def served_versions(crd: Mapping[str, Any]) -> list[CustomVersion]:
    """The versions that a definition serves."""
    spec = crd["spec"]
    return [_custom_version(spec, version) for version in spec["versions"] if version["served"]]


def _custom_version(spec: Mapping[str, Any], version: Mapping[str, Any]) -> CustomVersion:
    names, subresources = spec["names"], version.get("subresources") or {}
    scale = subresources.get("scale")
    resource = Resource(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(name for name in ("scale", "status") if name in subresources),
        fields=tuple(
            entry["jsonPath"].removeprefix(".") for entry in version.get("selectableFields") or ()
        ),
        counts_generations=True,
        verbs=_VERBS,
        needs_version=True,
        custom=True,
    )
    columns = tuple(
        PrinterColumn(
            name=column["name"],
            type=column["type"],
            path=column["jsonPath"],
            format=column.get("format", ""),
            description=column.get("description")
            or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}",
            priority=column.get("priority", 0),
        )
        for column in version.get("additionalPrinterColumns") or ()
    )
    return CustomVersion(
        resource=resource,
        schema=(version.get("schema") or {}).get("openAPIV3Schema") or {},
        columns=columns or (AGE,),
        scale=ScalePaths(
            spec_replicas=scale["specReplicasPath"],
            status_replicas=scale["statusReplicasPath"],
            selector=scale.get("labelSelectorPath", ""),
        )
        if scale
        else None,
    )


def fill_defaults(crd: dict[str, Any]) -> None:
    """The defaults that the API server writes into a definition."""
    spec = crd.setdefault("spec", {})
    names = spec.get("names") or {}
    if names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})


def violations(crd: Mapping[str, Any]) -> Iterator[Cause]:
    """What makes a definition unusable; the rules that a hand-written one trips over."""
    spec = crd.get("spec") or {}
    names = spec.get("names") or {}
    required = {
        "group": spec.get("group"),
        "scope": spec.get("scope"),
        "names.plural": names.get("plural"),
        "names.kind": names.get("kind"),
        "versions": spec.get("versions"),
    }
    if not all(required.values()):
        yield from (field_required(f"spec.{name}") for name, value in required.items() if not value)
        return
    name = crd["metadata"].get("name", "")
    if name != f"{names['plural']}.{spec['group']}":
        text = 'must be spec.names.plural+"."+spec.group'
        yield field_invalid("metadata.name", name, text)
    versions = spec["versions"]
    if sum(1 for version in versions if version.get("storage")) != 1:
        text = "must have exactly one version marked as storage version"
        yield field_invalid("spec.versions", [one.get("name") for one in versions], text)
    if (spec.get("conversion") or {}).get("strategy", "None") != "None":
        text = "the sandbox does not convert between versions"
        yield field_forbidden("spec.conversion.strategy", text)
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}].schema.openAPIV3Schema"
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if not schema:
            yield field_required(path, "schemas are required")
        elif schema.get("type") != "object":
            yield field_invalid(
                f"{path}.type", schema.get("type", ""), "must be object at the root"
            )
        else:
            yield from _pattern_violations(schema, path)
        for number, column in enumerate(version.get("additionalPrinterColumns") or ()):
            try:
                check_path(column.get("jsonPath", ""))
            except JsonPathError as error:
                place = f"spec.versions[{index}].additionalPrinterColumns[{number}].jsonPath"
                yield field_invalid(place, column.get("jsonPath"), str(error))


def _pattern_violations(schema: Any, path: str) -> Iterator[Cause]:
    """Patterns that this server couldn't apply are refused now, not met as crashes later."""
    if not isinstance(schema, dict):
        return
    for name, value in schema.items():
        if name == "pattern" and isinstance(value, str):
            try:
                re.compile(value)
            except re.error as error:
                yield field_invalid(f"{path}.pattern", value, f"must be a pattern: {error}")
        else:
            yield from _pattern_violations(value, f"{path}.{name}")


def established_status(crd: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The status that says the definition is accepted and served."""
    spec = crd["spec"]
    previous = crd.get("status") or {}
    conditions = previous.get("conditions") or [
        _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
        _condition(
            "Established", "InitialNamesAccepted", "the initial names have been accepted", now
        ),
    ]
    stored = list(previous.get(_STORED_VERSIONS) or ())
    stored += [v["name"] for v in spec["versions"] if v["storage"] and v["name"] not in stored]
    accepted = {key: spec["names"][key] for key in _NAMES if key in spec["names"]}
    return {"conditions": conditions, "acceptedNames": accepted, _STORED_VERSIONS: stored}


def _condition(type_: str, reason: str, message: str, now: datetime) -> dict[str, str]:
    return {
        "type": type_,
        "status": "True",
        "lastTransitionTime": rfc3339(now),
        "reason": reason,
        "message": message,
    }


def is_definition(resource: Resource) -> bool:
    """Whether the objects of ``resource`` are definitions themselves."""
    return resource is CUSTOM_RESOURCE_DEFINITIONS

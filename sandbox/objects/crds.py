"""Resources that CustomResourceDefinitions define."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sandbox.objects.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from sandbox.objects.structural_schema import Schema
from sandbox.times import rfc3339

_STORED_VERSIONS = "storedVersions"
_VERBS = ("delete", "get", "list", "patch", "create", "update", "watch")
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
    """The fields of a custom resource that ``/scale`` shows; paths with a leading dot."""

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
    """Return the versions that a definition serves."""
    spec = crd["spec"]
    return [_custom_version(spec, version) for version in spec["versions"] if version["served"]]


def _custom_version(spec: Mapping[str, Any], version: Mapping[str, Any]) -> CustomVersion:
    names, subresources = spec["names"], version.get("subresources") or {}
    resource = Resource(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        singular=names.get("singular", ""),
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        subresources=tuple(name for name in ("scale", "status") if name in subresources),
        fields=tuple(
            entry["jsonPath"].removeprefix(".") for entry in version.get("selectableFields") or ()
        ),
        counts_generations=True,
        verbs=_VERBS,
        custom=True,
    )
    columns = tuple(_column(one) for one in version.get("additionalPrinterColumns") or ())
    return CustomVersion(
        resource=resource,
        schema=(version.get("schema") or {}).get("openAPIV3Schema") or {},
        columns=columns or (AGE,),
        scale=_scale(subresources.get("scale")),
    )


def _column(column: Mapping[str, Any]) -> PrinterColumn:
    path = column["jsonPath"]
    default = f"Custom resource definition column (in JSONPath format): {path}"
    return PrinterColumn(
        name=column["name"],
        type=column["type"],
        path=path,
        format=column.get("format", ""),
        description=column.get("description") or default,
        priority=column.get("priority", 0),
    )


def _scale(scale: Mapping[str, Any] | None) -> ScalePaths | None:
    if not scale:
        return None
    return ScalePaths(
        spec_replicas=scale["specReplicasPath"],
        status_replicas=scale["statusReplicasPath"],
        selector=scale.get("labelSelectorPath", ""),
    )


def fill_defaults(crd: dict[str, Any]) -> None:
    """Fill in the defaults of a definition."""
    spec = crd.setdefault("spec", {})
    names = spec.get("names") or {}
    if names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})


def first_status(crd: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status of a new definition."""
    stored = [one["name"] for one in crd["spec"]["versions"] if one["storage"]]
    names = {"plural": "", "kind": ""}
    return {"conditions": None, "acceptedNames": names, _STORED_VERSIONS: stored}


def established_status(crd: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return the status of an accepted and served definition."""
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
    """Return True if the objects of ``resource`` are definitions."""
    return resource is CUSTOM_RESOURCE_DEFINITIONS

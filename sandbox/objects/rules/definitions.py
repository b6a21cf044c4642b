"""What a CustomResourceDefinition must say of its group, names, versions and columns.

What all versions have alike, which is everything of a single one, is told of as of the whole
(``spec.validation``). Source: k8s.io/apiextensions-apiserver
pkg/apis/apiextensions/validation/validation.go and v1/conversion.go.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from common.errors import Cause
from sandbox.errors import (
    field_duplicate,
    field_forbidden,
    field_immutable,
    field_invalid,
    field_not_supported,
    field_required,
)
from sandbox.objects.json_paths import JsonPathError, check_path
from sandbox.objects.rules import definition_schemas
from sandbox.objects.rules.dns_names import old_label_problems, subdomain_problems

Json = Mapping[str, Any]

_APPROVED = "api-approved.kubernetes.io"
_PROTECTED = ("k8s.io", "kubernetes.io")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_LONGEST_WARNING = 256
_MOST_SELECTABLE = 8
# What all versions may have alike: its name in a version, and where it is told of then.
_SHARED = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}


def new_causes(crd: Json) -> Iterator[Cause]:
    """What makes a new definition unusable."""
    yield from _causes(crd, None)


def changed_causes(old: Json, new: Json) -> Iterator[Cause]:
    """What makes a changed definition unusable, and what may not change."""
    yield from _causes(new, old)


def _causes(crd: Json, old: Json | None) -> Iterator[Cause]:
    spec = crd.get("spec") or {}
    names = spec.get("names") or {}
    name = crd["metadata"].get("name", "")
    if old is None and name != f"{names.get('plural') or ''}.{spec.get('group') or ''}":
        text = 'must be spec.names.plural+"."+spec.group'
        yield field_invalid("metadata.name", name, text)
    yield from _spec(spec, names)
    if old is not None:
        yield from _immutable(old.get("spec") or {}, spec)
    stored = [one.get("name") for one in spec.get("versions") or () if one.get("storage")]
    if not stored:
        yield field_invalid("status.storedVersions", None, "must have at least one stored version")
    for label in stored[1:]:
        text = f"must have the storage version {label}"
        yield field_invalid("status.storedVersions", stored[:1], text)
    if old is not None:
        yield from _forgotten(old, spec)
    yield from _approval(crd, old)
    if spec.get("preserveUnknownFields"):
        text = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        yield field_invalid("spec.preserveUnknownFields", True, text)


def _spec(spec: Json, names: Json) -> Iterator[Cause]:
    yield from _group(spec.get("group") or "")
    scope = spec.get("scope") or ""
    if not scope:
        yield field_required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield field_not_supported("spec.scope", scope, ("Cluster", "Namespaced"))
    versions = spec.get("versions") or []
    shared = [part for part in _SHARED if _is_shared(part, versions)]
    for index, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            yield field_required(f"spec.versions[{index}].schema.openAPIV3Schema")
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        label = version.get("name") or ""
        problems = ",".join(old_label_problems(label))
        if problems:
            yield field_invalid(f"{path}.name", label, problems)
        yield from _deprecation(version, path)
        for part in _SHARED:
            if part not in shared:
                yield from _part(part, version, f"{path}.{part}")
    yield from _together(spec, versions, shared)
    for part in ("plural", "singular", "kind", "listKind"):
        if not names.get(part):
            yield field_required(f"spec.names.{part}")
    yield from _names(names)
    for part in shared:
        yield from _part(part, versions[0], f"spec.{_SHARED[part]}")
    yield from _conversion(spec.get("conversion") or {})


def _group(group: str) -> Iterator[Cause]:
    if not group:
        yield field_required("spec.group")
        return
    problems = ",".join(subdomain_problems(group))
    if problems:
        yield field_invalid("spec.group", group, problems)
    elif "." not in group:
        yield field_invalid("spec.group", group, "should be a domain with at least one dot")


def _is_shared(part: str, versions: Sequence[Json]) -> bool:
    return bool(versions) and all(
        one.get(part) and one[part] == versions[0].get(part) for one in versions
    )


def _together(spec: Json, versions: Sequence[Json], shared: Sequence[str]) -> Iterator[Cause]:
    """The rules that concern all versions at once."""
    labels = [one.get("name") or "" for one in versions]
    given = None if spec.get("versions") is None else [_in_go(one, shared) for one in versions]
    if len(set(labels)) != len(labels):
        yield field_invalid("spec.versions", given, "must contain unique version names")
    if sum(1 for one in versions if one.get("storage")) != 1:
        text = "must have exactly one version marked as storage version"
        yield field_invalid("spec.versions", given, text)
    problems = ",".join(old_label_problems(labels[0])) if labels and labels[0] else ""
    if problems:
        yield field_invalid("spec.version", labels[0], problems)


def _in_go(version: Json, shared: Sequence[str]) -> dict[str, Any]:
    """A version as a refusal shows it: a struct of Go, without what is told of as of the whole."""
    schema = version.get("schema") or None
    parts = {
        "schema": schema and {"OpenAPIV3Schema": schema.get("openAPIV3Schema")},
        "subresources": version.get("subresources"),
        "additionalPrinterColumns": version.get("additionalPrinterColumns"),
        "selectableFields": version.get("selectableFields"),
    }
    return {
        "Name": version.get("name") or "",
        "Served": bool(version.get("served")),
        "Storage": bool(version.get("storage")),
        "Deprecated": bool(version.get("deprecated")),
        "DeprecationWarning": version.get("deprecationWarning"),
        **{
            part[0].upper() + part[1:]: None if part in shared else value
            for part, value in parts.items()
        },
    }


def _deprecation(version: Json, path: str) -> Iterator[Cause]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    place = f"{path}.deprecationWarning"
    if not version.get("deprecated"):
        yield field_invalid(place, warning, "can only be set for deprecated versions")
        return
    if len(warning) > _LONGEST_WARNING:
        yield field_invalid(place, warning, f"must be <= {_LONGEST_WARNING} characters long")
    if not warning:
        yield field_invalid(place, warning, "must not be an empty string")


def _names(names: Json) -> Iterator[Cause]:
    for part in ("plural", "singular", "kind", "listKind"):
        name, mixed = names.get(part) or "", part in ("kind", "listKind")
        problems = ",".join(old_label_problems(name.lower() if mixed else name)) if name else ""
        if problems:
            text = f"may have mixed case, but should otherwise match: {problems}"
            yield field_invalid(f"spec.names.{part}", name, text if mixed else problems)
    yield from _labels("shortNames", names)
    if names.get("kind") and names["kind"] == names.get("listKind"):
        text = "kind and listKind may not be the same"
        yield field_invalid("spec.names.listKind", names["listKind"], text)
    yield from _labels("categories", names)


def _labels(part: str, names: Json) -> Iterator[Cause]:
    for index, name in enumerate(names.get(part) or ()):
        problems = ",".join(old_label_problems(name))
        if problems:
            yield field_invalid(f"spec.names.{part}[{index}]", name, problems)


def _part(part: str, version: Json, path: str) -> Iterator[Cause]:
    """One of the parts that a version may have for itself."""
    subresources = version.get("subresources") or {}
    if part == "schema":
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is not None:
            has_status = subresources.get("status") is not None
            place = f"{path}.openAPIV3Schema"
            yield from definition_schemas.causes(schema, place, has_status=has_status)
    elif part == "subresources":
        if subresources.get("scale") is not None:
            yield from _scale(subresources["scale"], f"{path}.scale")
    elif part == "additionalPrinterColumns":
        for index, column in enumerate(version.get(part) or ()):
            yield from _column(column, f"{path}[{index}]")
    else:
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        yield from _selectable(version.get(part) or (), schema, path)


def _scale(scale: Json, path: str) -> Iterator[Cause]:
    for part, roots in (
        ("specReplicasPath", ("spec",)),
        ("statusReplicasPath", ("status",)),
        ("labelSelectorPath", ("spec", "status")),
    ):
        value, place = scale.get(part) or "", f"{path}.{part}"
        if not value:
            if part != "labelSelectorPath":
                yield field_required(place)
        elif not value.startswith("."):
            yield field_invalid(place, value, "must be a simple json path starting with .")
        elif not value.startswith(tuple(f".{root}." for root in roots)):
            below = "either .spec or .status" if len(roots) > 1 else f".{roots[0]}"
            yield field_invalid(place, value, f"should be a json path under {below}")


def _column(column: Json, path: str) -> Iterator[Cause]:
    if not column.get("name"):
        yield field_required(f"{path}.name")
    type_, text = column.get("type") or "", f"must be one of {','.join(_COLUMN_TYPES)}"
    if not type_:
        yield field_required(f"{path}.type", text)
    elif type_ not in _COLUMN_TYPES:
        yield field_invalid(f"{path}.type", type_, text)
    form = column.get("format")
    if form and form not in _FORMATS:
        yield field_invalid(f"{path}.format", form, f"must be one of {','.join(_FORMATS)}")
    found, place = column.get("jsonPath") or "", f"{path}.JSONPath"
    if not found:
        yield field_required(place)
    elif not found.startswith("."):
        yield field_invalid(place, found, "must be a simple json path starting with .")
    else:
        try:
            check_path(found)
        except JsonPathError as error:
            yield field_invalid(place, found, str(error))


def _selectable(fields: Sequence[Json], schema: Json, path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, one in enumerate(fields):
        found, place = one.get("jsonPath") or "", f"{path}[{index}].jsonPath"
        if not found:
            yield field_required(place)
            continue
        below: Json | None = schema
        for name in found.removeprefix(".").split("."):
            below = ((below or {}).get("properties") or {}).get(name)
        if below is None or not found.startswith("."):
            text = "is an invalid path: does not refer to a valid field"
            yield field_invalid(place, found, text)
            continue
        if found.startswith(".metadata."):
            yield field_invalid(place, found, "must not point to fields in metadata")
        if below.get("type") not in ("string", "boolean", "integer"):
            text = (
                "must point to a field of type string, boolean or integer. Enum string fields and "
                "strings with formats are allowed."
            )
            yield field_invalid(place, found, text)
        if found in seen:
            yield field_duplicate(place, found)
        seen.add(found)
    if len(seen) > _MOST_SELECTABLE:
        message = f"Too many: {len(seen)}: must have at most {_MOST_SELECTABLE} items"
        yield Cause(reason="FieldValueTooMany", message=message, field=path)


def _conversion(conversion: Json) -> Iterator[Cause]:
    strategy = conversion.get("strategy") or "None"
    if strategy == "Webhook":
        text = "the sandbox does not convert between versions"
        yield field_forbidden("spec.conversion.strategy", text)
    elif strategy != "None":
        yield field_not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    elif conversion.get("webhook") is not None:
        text = "should not be set when strategy is not set to Webhook"
        yield field_forbidden("spec.conversion.webhookClientConfig", text)


def _immutable(old: Json, new: Json) -> Iterator[Cause]:
    was, now = old.get("names") or {}, new.get("names") or {}
    for path, before, after in (
        ("spec.scope", old.get("scope"), new.get("scope")),
        ("spec.names.kind", was.get("kind"), now.get("kind")),
        ("spec.group", old.get("group"), new.get("group")),
        ("spec.names.plural", was.get("plural"), now.get("plural")),
    ):
        if before != after:
            yield field_immutable(path, after or "")


def _forgotten(old: Json, spec: Json) -> Iterator[Cause]:
    """Versions in which objects were stored must stay."""
    labels = {one.get("name") for one in spec.get("versions") or ()}
    for index, one in enumerate((old.get("status") or {}).get("storedVersions") or ()):
        if one not in labels:
            text = (
                f"missing from spec.versions; {one} was previously a storage version, and must "
                "remain in spec.versions until a storage migration ensures no data remains "
                f"persisted in {one} and removes {one} from status.storedVersions"
            )
            yield field_invalid(f"status.storedVersions[{index}]", one, text)


def _approval(crd: Json, old: Json | None) -> Iterator[Cause]:
    """Groups of the Kubernetes project itself want the address of an approval."""
    group = (crd.get("spec") or {}).get("group") or ""
    if not any(group == one or group.endswith(f".{one}") for one in _PROTECTED):
        return
    approval, place = _approval_of(crd), f"metadata.annotations[{_APPROVED}]"
    state = _approval_state(approval)
    if not state or (old is not None and state == _approval_state(_approval_of(old))):
        return
    see = "see https://github.com/kubernetes/enhancements/pull/1111"
    text = f'protected groups must have approval annotation "{_APPROVED}"'
    if state == "missing":
        yield field_required(place, f"{text}, {see}")
    else:
        text = f'{text} with either a URL or a reason starting with "unapproved"'
        yield field_invalid(place, approval, f"{text}, {see}")


def _approval_of(crd: Json) -> str:
    return str((crd["metadata"].get("annotations") or {}).get(_APPROVED) or "")


def _approval_state(approval: str) -> str:
    """Empty when it is good."""
    if not approval:
        return "missing"
    if approval.startswith("unapproved"):
        return ""
    try:
        parts = urlsplit(approval)
    except ValueError:
        return "invalid"
    return "" if parts.scheme and parts.netloc else "invalid"

"""The rules that labels, annotations, owners and finalizers keep, whatever the kind.

Source: ``ValidateObjectMeta``, k8s.io/apimachinery pkg/api/validation/objectmeta.go, and
pkg/api/validate/content/kube.go there.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from common.errors import Cause
from sandbox.errors import field_forbidden, field_invalid, fields_invalid
from sandbox.objects.rules.dns_names import subdomain_problems
from sandbox.objects.rules.numbers import negative_causes

_CHECKED = ("labels", "annotations", "ownerReferences", "finalizers")
_STANDARD_FINALIZERS = frozenset({"foregroundDeletion", "kubernetes", "orphan"})
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LONGEST = 63
_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_PREFIX_RULE = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',"
    "  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def metadata_causes(meta: Mapping[str, Any], *, custom: bool) -> Iterator[Cause]:
    """Every rule about labels, annotations, owners and finalizers that a new object breaks."""
    yield from negative_causes(meta, "metadata", "generation")
    yield from _shared_causes(meta)
    finalizers = meta.get("finalizers") or ()
    yield from _finalizer_causes(finalizers)
    if not custom:
        yield from _standard_finalizer_causes(finalizers)


def changed_metadata_causes(
    old: Mapping[str, Any], new: Mapping[str, Any], *, custom: bool
) -> Iterator[Cause]:
    """Every such rule that a change breaks."""
    if old == new or all(old.get(name) == new.get(name) for name in _CHECKED):
        return
    finalizers = new.get("finalizers") or ()
    yield from _shared_causes(new)
    yield from _finalizer_causes(finalizers)
    yield from _late_finalizer_causes(old, finalizers)
    if not custom:
        yield from _standard_finalizer_causes(finalizers)


def _late_finalizer_causes(old: Mapping[str, Any], finalizers: Sequence[str]) -> Iterator[Cause]:
    """Nobody may hold an object who comes after its deletion."""
    added = sorted(set(finalizers) - set(old.get("finalizers") or ()))
    if "deletionTimestamp" in old and added:
        found = ", ".join(f'"{one}"' for one in added)
        text = (
            "no new finalizers can be added if the object is being deleted, found new finalizers "
            f"[]string{{{found}}}"
        )
        yield field_forbidden("metadata.finalizers", text)


def _shared_causes(meta: Mapping[str, Any]) -> Iterator[Cause]:
    yield from label_causes(meta.get("labels"), "metadata.labels")
    yield from annotation_causes(meta.get("annotations"), "metadata.annotations")
    if meta.get("ownerReferences"):
        yield from _owner_causes(meta["ownerReferences"])


def _owner_causes(owners: Sequence[Mapping[str, Any]]) -> Iterator[Cause]:
    path, controller = "metadata.ownerReferences", ""
    for one in owners:
        version = one.get("apiVersion") or ""
        if not version.rpartition("/")[2]:
            yield field_invalid(f"{path}.apiVersion", version, "version must not be empty")
        for name in ("kind", "name", "uid"):
            if not one.get(name):
                yield field_invalid(f"{path}.{name}", "", "must not be empty")
        if (version, one.get("kind")) == ("v1", "Event"):
            text = "/v1, Kind=Event is disallowed from being an owner"
            yield field_invalid(path, _in_go_order(one), text)
        if one.get("controller"):
            name = f"{one.get('kind', '')}/{one.get('name', '')}"
            if controller:
                text = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {name}'
                )
                yield field_invalid(path, [_in_go_order(item) for item in owners], text)
            else:
                controller = name


def _in_go_order(owner: Mapping[str, Any]) -> dict[str, Any]:
    """An owner reference as a real server quotes it."""
    shown = {name: owner.get(name, "") for name in ("apiVersion", "kind", "name", "uid")}
    flags = ("controller", "blockOwnerDeletion")
    return shown | {name: owner[name] for name in flags if owner.get(name) is not None}


def _finalizer_causes(finalizers: Sequence[str]) -> Iterator[Cause]:
    for one in finalizers:
        yield from key_causes(one, "metadata.finalizers")
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        yield field_invalid("metadata.finalizers", list(finalizers), text)


def _standard_finalizer_causes(finalizers: Sequence[str]) -> Iterator[Cause]:
    for index, one in enumerate(finalizers):
        yield from _standard_causes(one, f"metadata.finalizers[{index}]")


def _standard_causes(finalizer: str, path: str) -> Iterator[Cause]:
    if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
        text = "name is neither a standard finalizer name nor is it fully qualified"
        yield field_invalid(path, finalizer, text)


def label_causes(labels: Mapping[str, str] | None, path: str) -> Iterator[Cause]:
    """Every label of a map, told at the place of the map."""
    for key, value in (labels or {}).items():
        yield from key_causes(key, path)
        yield from value_causes(value, path)


def annotation_causes(annotations: Mapping[str, str] | None, path: str) -> Iterator[Cause]:
    """The names of annotations are those of labels, in any case."""
    for key in annotations or ():
        yield from fields_invalid(path, key, _key_problems(key.lower()))


def key_causes(key: str, path: str) -> Iterator[Cause]:
    """A label's name: at most 63 characters, behind a DNS subdomain and a slash if it has one."""
    return fields_invalid(path, key, _key_problems(key))


def value_causes(value: str, path: str) -> Iterator[Cause]:
    """A label's value: at most 63 characters, or empty."""
    if len(value) > _LONGEST:
        yield field_invalid(path, value, f"must be no more than {_LONGEST} bytes")
    if value and _NAME.fullmatch(value) is None:
        yield field_invalid(path, value, _VALUE_RULE)


@lru_cache(maxsize=1024)
def _key_problems(key: str) -> tuple[str, ...]:
    """Objects of one owner bring the same keys over and over."""
    return tuple(_found_problems(key))


def _found_problems(key: str) -> Iterator[str]:
    if key.count("/") > 1:
        yield f"a valid label key {_NAME_RULE} {_PREFIX_RULE}"
        return
    prefix, slash, name = key.rpartition("/")
    if slash:
        problems = subdomain_problems(prefix, counted="bytes") if prefix else ("must be non-empty",)
        yield from (f"prefix part {problem}" for problem in problems)
    if not name:
        yield "name part must be non-empty"
    elif len(name) > _LONGEST:
        yield f"name part must be no more than {_LONGEST} bytes"
    if _NAME.fullmatch(name) is None:
        yield f"name part {_NAME_RULE}"

"""The rules that PersistentVolumeClaims keep.

Source: ``ValidatePersistentVolumeClaimSpec``, k8s.io/kubernetes
pkg/apis/core/validation/validation.go. Nobody makes volumes here, so no claim is ever bound.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from common.errors import Cause
from common.quantity import Quantity
from sandbox.errors import (
    field_forbidden,
    field_invalid,
    field_not_supported,
    field_required,
    fields_invalid,
)
from sandbox.objects.rules.dns_names import subdomain_problems
from sandbox.objects.rules.selectors import selector_causes

Json = Mapping[str, Any]

_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_ALONE: Final = "ReadWriteOncePod"
_VOLUME_MODES: Final = ("Block", "Filesystem")


def claim_causes(claim: Json) -> Iterator[Cause]:
    """How it is used, and how much it asks for."""
    spec = claim.get("spec") or {}
    modes = spec.get("accessModes") or ()
    if not modes:
        yield field_required("spec.accessModes", "at least 1 access mode is required")
    yield from selector_causes(spec.get("selector"), "spec.selector")
    for mode in modes:
        if mode not in _MODES:
            yield field_not_supported("spec.accessModes", mode, _MODES)
    if _ALONE in modes and any(mode in _MODES for mode in modes if mode != _ALONE):
        text = "may not use ReadWriteOncePod with other access modes"
        yield field_forbidden("spec.accessModes", text)
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        yield field_required("spec.resources[storage]")
    elif (amount := Quantity.parse(str(size))).sign <= 0:
        yield field_invalid("spec.resources[storage]", str(amount), "must be greater than zero")
    name = spec.get("storageClassName")
    if name:
        yield from fields_invalid("spec.storageClassName", name, subdomain_problems(name))
    mode = spec.get("volumeMode")
    if mode is not None and mode not in _VOLUME_MODES:
        yield field_not_supported("spec.volumeMode", mode, _VOLUME_MODES)


def changed_claim_causes(old: Json, new: Json) -> Iterator[Cause]:
    """A claim keeps its spec; the volume and the class may be named once."""
    yield from claim_causes(new)
    before, after = dict(old.get("spec") or {}), dict(new.get("spec") or {})
    for name in ("volumeName", "storageClassName"):
        if not before.get(name):
            before.pop(name, None)
            after.pop(name, None)
    if before != after:
        text = (
            "spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims"
        )
        yield field_forbidden("spec", text)

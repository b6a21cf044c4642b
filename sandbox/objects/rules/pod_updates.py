"""What an ordinary update of a pod may change of its spec.

Source: ``ValidatePodUpdate``, k8s.io/kubernetes pkg/apis/core/validation/validation.go;
kubernetes-resize.md 1.4.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from common.errors import Cause
from sandbox.errors import field_forbidden, field_invalid, field_required
from sandbox.objects.resizing import same_spec
from sandbox.objects.rules.pod_specs import (
    LONGEST_DEADLINE,
    image_causes,
    pod_causes,
    toleration_causes,
)
from sandbox.objects.taking import take
from sandbox.version import KubernetesVersion

Json = Mapping[str, Any]

_LISTS: Final = ("containers", "initContainers")
_RULE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
    "(allow it to be set to 1 if it was previously negative)"
)


def update_causes(old: Json, new: Json, version: KubernetesVersion) -> Iterator[Cause]:
    """Every rule that an update of a pod breaks, resizes and bindings aside.

    Images and ``activeDeadlineSeconds`` may change, tolerations may be added and scheduling
    gates be removed, and while there are gates also node selectors may be added. The message
    about anything else lacks the diff that a real API server appends.
    """
    before, after = old["spec"], new["spec"]
    yield from pod_causes(new, version)
    for kind in _LISTS:
        containers = after.get(kind) or ()
        if len(before.get(kind) or ()) != len(containers):
            text = "pod updates may not add or remove containers"
            yield field_forbidden(f"spec.{kind}", text)
            return
        for index, container in enumerate(containers):
            place = f"spec.{kind}[{index}].image"
            if not container.get("image"):
                yield field_required(place)
            yield from image_causes(container, place)
    late = list(
        _deadline_causes(before.get("activeDeadlineSeconds"), after.get("activeDeadlineSeconds"))
    )
    yield from late
    if late and after.get("activeDeadlineSeconds") is not None:
        return
    tolerations = after.get("tolerations") or ()
    yield from _toleration_causes(before.get("tolerations") or (), tolerations, version)
    yield from _gate_causes(before.get("schedulingGates") or (), after.get("schedulingGates") or ())
    allowed = _with_allowed_changes(before, after)
    if before.get("schedulingGates"):
        wanted, selected = after.get("nodeSelector") or {}, before.get("nodeSelector") or {}
        if any(wanted.get(key) != value for key, value in selected.items()):
            text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            yield field_invalid("spec.nodeSelector", wanted, text)
        take(allowed, after, "nodeSelector")
    if not same_spec(allowed, after):
        yield field_forbidden("spec", _RULE)


def _deadline_causes(old: int | None, new: int | None) -> Iterator[Cause]:
    """It may be set, and shortened, and never removed."""
    path = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            text = "must not update from a positive integer to nil value"
            yield field_invalid(path, None, text)
    elif not 0 <= new <= LONGEST_DEADLINE:
        yield field_invalid(path, new, f"must be between 0 and {LONGEST_DEADLINE}, inclusive")
    elif old is not None and old < new:
        yield field_invalid(path, new, "must be less than or equal to previous value")


def _toleration_causes(old: Any, new: Any, version: KubernetesVersion) -> Iterator[Cause]:
    kept = [_without_seconds(one) for one in new]
    if any(_without_seconds(one) not in kept for one in old):
        text = "existing toleration can not be modified except its tolerationSeconds"
        yield field_forbidden("spec.tolerations", text)
    else:
        yield from toleration_causes(new, "spec.tolerations", version)


def _without_seconds(toleration: Json) -> dict[str, Any]:
    return {key: value for key, value in toleration.items() if value and key != "tolerationSeconds"}


def _gate_causes(old: Any, new: Any) -> Iterator[Cause]:
    known = {one.get("name") for one in old}
    for index, one in enumerate(new):
        if one.get("name") not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{one.get('name')}'"
            yield field_forbidden(f"spec.schedulingGates[{index}].name", text)


def _with_allowed_changes(old: Json, new: Json) -> dict[str, Any]:
    """The old spec with those new values that an update may bring, or that are told of apart."""
    spec = dict(old)
    for kind in _LISTS:
        if kind in old:
            spec[kind] = [
                {**before, "image": after.get("image", before.get("image"))}
                for before, after in zip(old[kind], new[kind], strict=True)
            ]
    take(spec, new, "activeDeadlineSeconds", "tolerations", "schedulingGates")
    if (old.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    return spec

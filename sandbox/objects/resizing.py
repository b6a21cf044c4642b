"""The API server's handling of a resize of a pod.

Source: ``podResizeStrategy`` (k8s.io/kubernetes pkg/registry/core/pod/strategy.go),
``ValidatePodResize`` (pkg/apis/core/validation/validation.go); kubernetes-resize.md 1.2 and 1.4.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from common.errors import Cause
from sandbox.errors import field_forbidden, field_invalid
from sandbox.objects.metadata import copy_fields
from sandbox.objects.pod_resources import is_sidecar, qos_class, resources_of, same_amounts
from sandbox.objects.rules.amounts import pod_causes
from sandbox.version import KubernetesVersion

MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"

_LISTS: Final = ("containers", "initContainers")
_RESIZABLE: Final = ("cpu", "memory")
_RESET_META: Final = (
    "deletionTimestamp",
    "generation",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "managedFields",
)


def prepare_resize(
    old: Mapping[str, Any], new: dict[str, Any], version: KubernetesVersion
) -> dict[str, Any]:
    """Reset in ``new`` what a resize must not change, after mutating admission.

    Resources and resize policies of containers stay; from 1.36 on pod-level resources too.
    Everything else is reset silently, unless containers were added, removed, renamed or reordered:
    ``resize_causes`` refuses that. ``metadata.generation`` grows by one if the spec has changed.
    ``new`` is consumed; quantities must be canonical.
    """
    if any(_names(new, kind) != _names(old, kind) for kind in _LISTS):
        return new
    old_spec, new_spec = old["spec"], new["spec"]
    spec = dict(old_spec)
    for kind in _LISTS:
        if kind in spec:
            pairs = zip(old_spec[kind], new_spec[kind], strict=True)
            spec[kind] = [_resized(before, after) for before, after in pairs]
    if version.minor >= 36:
        copy_fields(spec, new_spec, "resources")
    meta = dict(new["metadata"])
    copy_fields(meta, old["metadata"], *_RESET_META)
    if not same_spec(spec, old_spec):
        meta["generation"] = old["metadata"].get("generation", 0) + 1
    prepared = {**new, "metadata": meta, "spec": spec}
    copy_fields(prepared, old, "status")
    return prepared


def resize_causes(
    old: Mapping[str, Any], new: Mapping[str, Any], version: KubernetesVersion
) -> list[Cause]:
    """Return every rule of a resize that ``new`` breaks, in the order of a real API server."""
    alone = _unsupported(old, version)
    if alone:
        return [field_forbidden("[]", alone)]
    causes = list(pod_causes(new, version))
    old_class = (old.get("status") or {}).get("qosClass") or qos_class(old)
    if old_class != qos_class(new):
        causes.append(
            field_invalid("spec", old_class, "Pod QOS Class may not change as a result of resizing")
        )
    if not _runs_where_resize_works(old):
        causes.append(field_forbidden("spec", "Pod running on node without support for resize"))
    causes += _pod_level_causes(old, new)
    moved = [cause for kind in _LISTS for cause in _moved_causes(old, new, kind)]
    if moved:
        return causes + moved
    for kind in _LISTS:
        for index, before in enumerate(old["spec"].get(kind) or ()):
            after = new["spec"][kind][index]
            causes += _container_causes(before, after, f"spec.{kind}[{index}].resources", version)
    causes += _immutable_causes(old, new, version)
    return causes


def _resized(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    container = dict(before)
    copy_fields(container, after, "resources", "resizePolicy")
    return container


def _names(pod: Mapping[str, Any], kind: str) -> list[str]:
    return [container.get("name", "") for container in pod["spec"].get(kind) or ()]


def _unsupported(old: Mapping[str, Any], version: KubernetesVersion) -> str:
    """Return why this pod can't be resized; empty if it can."""
    if MIRROR_ANNOTATION in (old["metadata"].get("annotations") or {}):
        return "static pods cannot be resized"
    if (old["spec"].get("os") or {}).get("name") == "windows":
        return "windows pods cannot be resized"
    if old["spec"].get("resources"):
        if version.minor <= 34:
            return "pods with pod-level resources cannot be resized"
        if version.minor == 35:
            return (
                "resize of pods with pod-level resources is forbidden when "
                "InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled"
            )
    return ""


def _runs_where_resize_works(pod: Mapping[str, Any]) -> bool:
    """Return True if the node supports resizes.

    Its kubelet then reports actual resources. The first running container decides.
    """
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if (status.get("state") or {}).get("running") is not None:
            return status.get("resources") is not None
    return True


def _pod_level_causes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Cause]:
    before, after = old["spec"].get("resources"), new["spec"].get("resources")
    if not before:
        return
    if not after:
        yield field_forbidden("spec.resources", "pod-level resources cannot be removed")
        return
    for part in ("requests", "limits"):
        if set(before.get(part) or ()) - set(after.get(part) or ()):
            yield field_forbidden(
                f"spec.resources.{part}", f"pod-level resource {part} cannot be removed"
            )
    if not _same_resources({"resources": _with_old_compute(old["spec"], new["spec"])}, old["spec"]):
        yield field_forbidden("spec", "only cpu and memory resources are mutable at pod-level")


def _moved_causes(old: Mapping[str, Any], new: Mapping[str, Any], kind: str) -> Iterator[Cause]:
    before, after = _names(old, kind), _names(new, kind)
    if len(before) != len(after):
        yield field_forbidden(f"spec.{kind}", f"{kind} may not be added or removed on resize")
        return
    for index, (was, now) in enumerate(zip(before, after, strict=True)):
        if was != now:
            yield field_forbidden(
                f"spec.{kind}[{index}].name",
                "containers may not be renamed or reordered on resize",
            )


def _container_causes(
    before: Mapping[str, Any], after: Mapping[str, Any], path: str, version: KubernetesVersion
) -> Iterator[Cause]:
    for part in ("requests", "limits"):
        if set(resources_of(before, part)) - set(resources_of(after, part)):
            yield field_forbidden(f"{path}.{part}", f"resource {part} cannot be removed")
    if version.minor > 33 or _restarts(after, ("memory",)):
        return
    was, now = resources_of(before, "limits"), resources_of(after, "limits")
    if "memory" in now and ("memory" not in was or now["memory"] < was["memory"]):
        what = "decreased" if "memory" in was else "added"
        yield field_forbidden(
            f"{path}.limits[memory]",
            f"memory limits cannot be {what} unless resizePolicy is RestartContainer",
        )


def _immutable_causes(
    old: Mapping[str, Any], new: Mapping[str, Any], version: KubernetesVersion
) -> Iterator[Cause]:
    """Check that only CPU and memory change. The sentence depends on the container."""
    old_spec, new_spec = old["spec"], new["spec"]
    for index, before in enumerate(old_spec.get("initContainers") or ()):
        after = new_spec["initContainers"][index]
        if _same_container(before, after):
            continue
        if version.minor >= 36:
            if not is_sidecar(before) and _restarts(before):
                yield field_forbidden(
                    f"spec.initContainers[{index}]",
                    "non-sidecar init containers with a resize policy of RestartContainer "
                    "cannot be resized",
                )
            elif not _only_compute_differs(before, after):
                yield field_forbidden(
                    f"spec.initContainers[{index}]",
                    "only cpu and memory resources for init or sidecar containers are mutable",
                )
        elif not is_sidecar(before):
            yield field_forbidden("spec", "resources for non-sidecar init containers are immutable")
        elif not _only_compute_differs(before, after):
            yield field_forbidden(
                "spec", "only cpu and memory resources for sidecar containers are mutable"
            )
    pairs = zip(old_spec["containers"], new_spec["containers"], strict=True)
    if not all(_only_compute_differs(before, after) for before, after in pairs):
        yield field_forbidden("spec", "only cpu and memory resources are mutable")


def _restarts(container: Mapping[str, Any], resources: Collection[str] = _RESIZABLE) -> bool:
    """Return True if a resize of one of these resources restarts the container."""
    return any(
        policy.get("resourceName") in resources
        and policy.get("restartPolicy") == "RestartContainer"
        for policy in container.get("resizePolicy") or ()
    )


def _only_compute_differs(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return True if only the amounts of CPU and memory differ. New claims are ignored."""
    mixed = _with_old_compute(before, after)
    mixed.pop("claims", None)
    return _same_container(before, {**after, "resources": mixed})


def _with_old_compute(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the new resources with the old amounts of CPU and memory."""
    old, new = before.get("resources") or {}, after.get("resources") or {}
    mixed = dict(new)
    for part in ("requests", "limits"):
        others = {k: v for k, v in (new.get(part) or {}).items() if k not in _RESIZABLE}
        compute = {k: v for k, v in (old.get(part) or {}).items() if k in _RESIZABLE}
        mixed[part] = {**others, **compute}
    return mixed


def _same_container(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    if before == after:
        return True
    return _same_resources(before, after) and (
        _others(before, "resources") == _others(after, "resources")
    )


def same_spec(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Compare two specs: quantities by value, absent lists like empty ones."""
    if left == right:
        return True
    for kind in _LISTS:
        one: Sequence[Any] = left.get(kind) or ()
        other: Sequence[Any] = right.get(kind) or ()
        if len(one) != len(other) or not all(map(_same_container, one, other)):
            return False
    return _same_resources(left, right) and (
        _others(left, "resources", *_LISTS) == _others(right, "resources", *_LISTS)
    )


def _same_resources(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    one, other = left.get("resources") or {}, right.get("resources") or {}
    amounts = ("requests", "limits")
    return all(same_amounts(one.get(part), other.get(part)) for part in amounts) and (
        _others(one, *amounts) == _others(other, *amounts)
    )


def _others(holder: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {
        key: value
        for key, value in holder.items()
        if key not in names and value not in (None, [], {}, "")
    }

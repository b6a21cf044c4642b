"""Rules for the resources of a pod when it is created, and on every resize.

Source: ``ValidateContainerResourceRequirements`` and ``validateResizePolicy``, k8s.io/kubernetes
pkg/apis/core/validation/validation.go; kubernetes-resize.md 1.4, 3.5.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from common.errors import Cause
from common.quantity import Quantity
from common.resources import in_order
from sandbox.errors import (
    field_duplicate,
    field_invalid,
    field_not_supported,
    field_required,
)
from sandbox.objects.pod_resources import is_sidecar, pod_requests, resources_of
from sandbox.objects.rules.metadata import key_causes
from sandbox.version import KubernetesVersion

Json = Mapping[str, Any]

_STANDARD: Final = ("cpu", "memory", "ephemeral-storage")
_RESIZABLE: Final = ("cpu", "memory")
_POD_LEVEL: Final = ("cpu", "hugepages-", "memory")
_RESIZE_POLICIES: Final = ("NotRequired", "RestartContainer")


def pod_causes(pod: Json, version: KubernetesVersion) -> Iterator[Cause]:
    """Yield every rule about amounts and resize policies that a pod breaks."""
    spec = pod.get("spec") or {}
    if not spec.get("containers"):
        yield field_required("spec.containers")
    never = spec.get("restartPolicy") == "Never"
    for kind in ("containers", "initContainers"):
        for index, one in enumerate(spec.get(kind) or ()):
            path, policies = f"spec.{kind}[{index}]", one.get("resizePolicy") or ()
            yield from amounts_causes(one, f"{path}.resources")
            yield from _policy_causes(policies, f"{path}.resizePolicy", version, never=never)
            if kind == "initContainers" and not is_sidecar(one) and version.minor >= 36:
                yield from _init_policy_causes(policies, path)
    yield from pod_level_causes(spec, "spec")


def amounts_causes(holder: Json, path: str) -> Iterator[Cause]:
    """Yield the broken rules of the requests and limits of a container, or of a pod."""
    if not holder.get("resources"):
        return
    limits = resources_of(holder, "limits")
    requests = resources_of(holder, "requests")
    for name in in_order(limits):
        yield from _amount_causes(name, limits[name], f"{path}.limits[{name}]")
    for name in in_order(requests):
        requested = requests[name]
        yield from _amount_causes(name, requested, f"{path}.requests[{name}]")
        limit = limits.get(name)
        if limit is None:
            if not _overcommits(name):
                yield field_required(
                    f"{path}.limits", "Limit must be set for non overcommitable resources"
                )
        elif requested != limit and not _overcommits(name):
            yield field_invalid(
                f"{path}.requests", str(requested), f"must be equal to {name} limit of {limit}"
            )
        elif requested > limit:
            yield field_invalid(
                f"{path}.requests",
                str(requested),
                f"must be less than or equal to {name} limit of {limit}",
            )


def _amount_causes(name: str, amount: Quantity, path: str) -> Iterator[Cause]:
    if "/" not in name and name not in _STANDARD:
        text = "must be a standard resource type or fully qualified"
        yield field_invalid(path, name, text)
        yield field_invalid(path, name, "must be a standard resource for containers")
    elif "/" in name:
        problems = list(key_causes(name, path))
        yield from problems
        if "kubernetes.io/" not in name and (problems or not _is_extended(name)):
            yield field_invalid(path, name, "doesn't follow extended resource name standard")
    if amount.sign < 0:
        yield field_invalid(path, str(amount), "must be greater than or equal to 0")
    if _is_extended(name) and amount.milli % 1000:
        yield field_invalid(path, str(amount), "must be an integer")


def _is_extended(name: str) -> bool:
    """Return True for a resource of another domain, which is counted in whole numbers."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def _overcommits(name: str) -> bool:
    """Return True if a request may be lower than the limit. Extended resources don't allow it."""
    return "/" not in name


def _policy_causes(
    policies: Any,
    path: str,
    version: KubernetesVersion,
    *,
    never: bool,
) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        name, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in seen:
            yield field_duplicate(f"{path}[{index}]", name)
        seen.add(name)
        if not name:
            yield field_required(path)
        elif name not in _RESIZABLE:
            yield field_not_supported(path, name, _RESIZABLE)
        if not restart:
            yield field_required(path)
        elif restart not in _RESIZE_POLICIES:
            yield field_not_supported(path, restart, _RESIZE_POLICIES)
        if never and restart != "NotRequired":
            pod = "pod " if version.minor >= 36 else ""
            yield field_invalid(
                path, restart, f"must be 'NotRequired' when {pod}`restartPolicy` is 'Never'"
            )


def _init_policy_causes(policies: Any, path: str) -> Iterator[Cause]:
    """Check the policies of an init container that ends; ``path`` is the container's."""
    for index, policy in enumerate(policies):
        if policy.get("restartPolicy") == "RestartContainer":
            yield field_invalid(
                f"{path}.resizePolicy[{index}].restartPolicy",
                "RestartContainer",
                "must not be set to 'RestartContainer' for non-sidecar initContainers",
            )


def pod_level_causes(spec: Json, path: str) -> Iterator[Cause]:
    """Yield the broken rules of pod-level amounts."""
    if not spec.get("resources"):
        return
    for part in ("limits", "requests"):
        for name in in_order(resources_of(spec, part)):
            if name not in _RESIZABLE:
                where = f"{path}.resources.{part}[{name}]"
                yield field_not_supported(where, name, _POD_LEVEL)
    yield from amounts_causes(spec, f"{path}.resources")
    requests = resources_of(spec, "requests")
    inside = pod_requests({"spec": {**spec, "resources": None}})
    for name in in_order(requests):
        if name in inside and inside[name] > requests[name]:
            yield field_invalid(
                f"{path}.resources.requests[{name}]",
                str(requests[name]),
                f"must be greater than or equal to aggregate container requests of {inside[name]}",
            )
    most = resources_of(spec, "limits")
    for index, container in enumerate(spec.get("containers") or ()):
        limits = resources_of(container, "limits")
        for name in in_order(limits):
            if name in most and limits[name] > most[name]:
                yield field_invalid(
                    f"{path}.resources.containers[{index}][{name}].limits",
                    str(limits[name]),
                    f"must be less than or equal to pod limits of {most[name]}",
                )

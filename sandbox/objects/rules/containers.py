"""The rules that each container of a pod keeps.

Security contexts are looked at for the numbers of users only.

Source: ``validateContainers``, ``validateInitContainers`` and what they call, k8s.io/kubernetes
pkg/apis/core/validation/validation.go.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from common.errors import Cause
from sandbox.errors import (
    field_duplicate,
    field_forbidden,
    field_invalid,
    field_not_found,
    field_not_supported,
    field_required,
    fields_invalid,
)
from sandbox.objects.pod_resources import is_sidecar
from sandbox.objects.rules.amounts import container_resource_causes, init_policy_causes
from sandbox.objects.rules.dns_names import label_problems
from sandbox.objects.rules.environment import environment_causes, environment_from_causes
from sandbox.objects.rules.ports import PROTOCOLS, port_name_problems, port_number_causes
from sandbox.objects.rules.probes import lifecycle_causes, probe_causes
from sandbox.objects.rules.volumes import relative_path_causes
from sandbox.version import KubernetesVersion

Json = Mapping[str, Any]

_RULES_OF_RESTARTS: Final = 35  # the minor since which every container may have a restart policy
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_LARGEST_ID: Final = 2**31 - 1
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a container's rules have to know of its pod."""

    version: KubernetesVersion
    never_restarts: bool = False
    grace: int | None = None  # seconds
    claims: frozenset[str] = frozenset()
    volumes: Mapping[str, Json] = field(default_factory=dict)


def containers_causes(spec: Json, path: str, around: Surroundings) -> Iterator[Cause]:
    """Every rule that a container or an init container breaks."""
    containers = spec.get("containers") or ()
    if not containers:
        yield field_required(f"{path}.containers")
    names: set[str] = set()
    taken: set[str] = set()
    for index, one in enumerate(containers):
        place = f"{path}.containers[{index}]"
        yield from _common_causes(one, place, around)
        name = one.get("name") or ""
        if name in names:
            yield field_duplicate(f"{place}.name", name)
        names.add(name)
        yield from _living_causes(one, place, around)
        yield from _restart_causes(one, place, around)
    for index, one in enumerate(containers):
        yield from _host_port_causes(one, f"{path}.containers[{index}]", taken)
    for index, one in enumerate(spec.get("initContainers") or ()):
        place = f"{path}.initContainers[{index}]"
        yield from _common_causes(one, place, around)
        yield from _init_restart_causes(one, place, around)
        name = one.get("name") or ""
        if name in names:
            yield field_duplicate(f"{place}.name", name)
        elif name:
            names.add(name)
        yield from _host_port_causes(one, f"{path}.initContainers[0]", set())
        if is_sidecar(one):
            yield from _living_causes(one, place, around)
        else:
            yield from _lifeless_causes(one, place)
            if around.version.minor >= 36:
                yield from init_policy_causes(one.get("resizePolicy") or (), place)


def _common_causes(one: Json, path: str, around: Surroundings) -> Iterator[Cause]:
    name = one.get("name") or ""
    if name:
        yield from fields_invalid(f"{path}.name", name, label_problems(name))
    else:
        yield field_required(f"{path}.name")
    if not one.get("image"):
        yield field_required(f"{path}.image")
    policy = one.get("terminationMessagePolicy") or "File"
    if policy not in _MESSAGE_POLICIES:
        yield field_not_supported(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    if one.get("ports"):
        yield from _port_causes(one["ports"], f"{path}.ports")
    if one.get("env"):
        yield from environment_causes(one["env"], f"{path}.env", around.version)
    if one.get("envFrom"):
        yield from environment_from_causes(one["envFrom"], f"{path}.envFrom")
    if one.get("volumeMounts"):
        yield from mount_causes(one, f"{path}.volumeMounts", around.volumes)
    if one.get("volumeDevices"):
        yield from _device_causes(one, f"{path}.volumeDevices", around.volumes)
    pull = one.get("imagePullPolicy") or "IfNotPresent"
    if pull not in _PULL_POLICIES:
        yield field_not_supported(f"{path}.imagePullPolicy", pull, _PULL_POLICIES)
    yield from container_resource_causes(
        one, path, around.version, never=around.never_restarts, claims=around.claims
    )
    if one.get("securityContext"):
        yield from user_causes(one["securityContext"], f"{path}.securityContext")


def user_causes(context: Json, path: str, *names: str) -> Iterator[Cause]:
    """The numbers of users and groups, those in ``names`` before the usual two."""
    for name in (*names, "runAsUser", "runAsGroup"):
        number = context.get(name)
        if isinstance(number, int) and not 0 <= number <= _LARGEST_ID:
            text = f"must be between 0 and {_LARGEST_ID}, inclusive"
            yield field_invalid(f"{path}.{name}", number, text)


def _living_causes(one: Json, path: str, around: Surroundings) -> Iterator[Cause]:
    """What only a container has that stays."""
    if one.get("lifecycle") is not None:
        yield from lifecycle_causes(one["lifecycle"], f"{path}.lifecycle", around.grace)
    for name in _PROBES:
        probe = one.get(name)
        if probe is not None:
            yield from probe_causes(probe, name, f"{path}.{name}")


def _lifeless_causes(one: Json, path: str) -> Iterator[Cause]:
    for name in ("lifecycle", *_PROBES):
        if one.get(name) is not None:
            text = "may not be set for init containers without restartPolicy=Always"
            yield field_forbidden(f"{path}.{name}", text)


def _restart_causes(one: Json, path: str, around: Surroundings) -> Iterator[Cause]:
    policy = one.get("restartPolicy")
    if around.version.minor < _RULES_OF_RESTARTS:
        if policy is not None:
            text = "may not be set for non-init containers"
            yield field_forbidden(f"{path}.restartPolicy", text)
    elif policy is None:
        if one.get("restartPolicyRules"):
            text = "must specify restartPolicy when restart rules are used"
            yield field_required(f"{path}.restartPolicy", text)
    elif policy not in _RESTART_POLICIES:
        yield field_not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES)


def _init_restart_causes(one: Json, path: str, around: Surroundings) -> Iterator[Cause]:
    policy = one.get("restartPolicy")
    if around.version.minor >= _RULES_OF_RESTARTS:
        yield from _restart_causes(one, path, around)
    elif policy is not None and policy != "Always":
        yield field_not_supported(f"{path}.restartPolicy", policy, ("Always",))


def _port_causes(ports: Any, path: str) -> Iterator[Cause]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        place, name = f"{path}[{index}]", port.get("name") or ""
        if name:
            problems = list(port_name_problems(name))
            for problem in problems:
                yield field_invalid(f"{place}.name", name, problem)
            if not problems and name in names:
                yield field_duplicate(f"{place}.name", name)
            if not problems:
                names.add(name)
        if not port.get("containerPort"):
            yield field_required(f"{place}.containerPort")
        else:
            yield from port_number_causes(port["containerPort"], f"{place}.containerPort")
        if port.get("hostPort"):
            yield from port_number_causes(port["hostPort"], f"{place}.hostPort")
        protocol = port.get("protocol") or "TCP"
        if protocol not in PROTOCOLS:
            yield field_not_supported(f"{place}.protocol", protocol, PROTOCOLS)


def _host_port_causes(one: Json, path: str, taken: set[str]) -> Iterator[Cause]:
    for index, port in enumerate(one.get("ports") or ()):
        if not port.get("hostPort"):
            continue
        text = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{port['hostPort']}"
        if text in taken:
            yield field_duplicate(f"{path}.ports[{index}].hostPort", text)
        taken.add(text)


def mount_causes(one: Json, path: str, volumes: Mapping[str, Json]) -> Iterator[Cause]:
    """What is wrong with the mounts of a container that has some."""
    places: set[str] = set()
    devices = {device.get("name"): device for device in one.get("volumeDevices") or ()}
    for index, mount in enumerate(one["volumeMounts"]):
        place = f"{path}[{index}]"
        name, where = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield field_required(f"{place}.name")
        if name not in volumes:
            yield field_not_found(f"{place}.name", name)
        if not where:
            yield field_required(f"{place}.mountPath")
        if where in places:
            yield field_invalid(f"{place}.mountPath", where, "must be unique")
        places.add(where)
        if name in devices:
            yield field_invalid(f"{place}.name", name, "must not already exist in volumeDevices")
        if any(device.get("devicePath") == where for device in devices.values()):
            text = "must not already exist as a path in volumeDevices"
            yield field_invalid(f"{place}.mountPath", where, text)
        below, expression = mount.get("subPath") or "", mount.get("subPathExpr") or ""
        yield from relative_path_causes(below, f"{path}.subPath")
        if expression:
            if below:
                text = "subPathExpr and subPath are mutually exclusive"
                yield field_invalid(f"{place}.subPathExpr", expression, text)
            yield from relative_path_causes(expression, f"{path}.subPathExpr")
        yield from _propagation_causes(one, mount.get("mountPropagation"), path)


def _propagation_causes(one: Json, propagation: str | None, path: str) -> Iterator[Cause]:
    if propagation is None:
        return
    place = f"{path}.mountPropagation"
    if propagation not in _PROPAGATIONS:
        yield field_not_supported(place, propagation, _PROPAGATIONS)
    privileged = (one.get("securityContext") or {}).get("privileged")
    if propagation == "Bidirectional" and not privileged:
        text = "Bidirectional mount propagation is available only to privileged containers"
        yield field_forbidden(place, text)


def _device_causes(one: Json, path: str, volumes: Mapping[str, Json]) -> Iterator[Cause]:
    names: set[str] = set()
    places: set[str] = set()
    mounts = {one.get("name"): one.get("mountPath") for one in one.get("volumeMounts") or ()}
    for index, device in enumerate(one["volumeDevices"]):
        place = f"{path}[{index}]"
        name, where = device.get("name") or "", device.get("devicePath") or ""
        volume = volumes.get(name)
        if not name:
            yield field_required(f"{place}.name")
        if name in names:
            yield field_invalid(f"{place}.name", name, "must be unique")
        if volume is None:
            yield field_not_found(f"{place}.name", name)
        elif not volume.get("persistentVolumeClaim") and not volume.get("ephemeral"):
            text = (
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block "
                "mode"
            )
            yield field_invalid(f"{place}.name", name, text)
        if not where:
            yield field_required(f"{place}.devicePath")
        if where in places:
            yield field_invalid(f"{place}.devicePath", where, "must be unique")
        if ".." in where.split("/"):
            text = "can not contain backsteps ('..')"
            yield field_invalid(f"{place}.devicePath", where, text)
        names.add(name)
        places.add(where)
        if name in mounts:
            yield field_invalid(f"{place}.name", name, "must not already exist in volumeMounts")
        if where in mounts.values():
            text = "must not already exist as a path in volumeMounts"
            yield field_invalid(f"{place}.devicePath", where, text)

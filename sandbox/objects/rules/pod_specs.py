"""The rules that the spec of a pod keeps, in a pod and in a template.

Affinities, DNS settings, host aliases, sysctls, profiles of AppArmor and seccomp, and what only
Windows knows are taken as they are.

Source: ``ValidatePodSpec`` and ``ValidatePodCreate``, k8s.io/kubernetes
pkg/apis/core/validation/validation.go.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from common.errors import Cause
from sandbox.errors import (
    field_duplicate,
    field_forbidden,
    field_invalid,
    field_not_supported,
    field_required,
    fields_invalid,
)
from sandbox.objects.rules.amounts import amounts_causes, pod_level_causes
from sandbox.objects.rules.containers import (
    Surroundings,
    containers_causes,
    mount_causes,
    user_causes,
)
from sandbox.objects.rules.dns_names import label_problems, subdomain_problems
from sandbox.objects.rules.metadata import key_causes, label_causes, value_causes
from sandbox.objects.rules.selectors import selector_causes
from sandbox.objects.rules.volumes import volume_causes
from sandbox.version import KubernetesVersion

Json = Mapping[str, Any]

LONGEST_DEADLINE: Final = 2**31 - 1  # seconds

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_OPERATORS: Final = ("Equal", "Exists")
_COMPARISONS: Final = ("Lt", "Gt")
_OF_THE_HOST: Final = (
    ("hostNetwork", "hostNetwork"),
    ("hostPID", "HostPID"),
    ("hostIPC", "HostIPC"),
)
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")


def pod_causes(pod: Json, version: KubernetesVersion) -> Iterator[Cause]:
    """Every rule that the spec of a pod breaks, created or changed."""
    spec = pod.get("spec") or {}
    yield from spec_causes(spec, "spec", version)
    for part in ("containers", "initContainers"):
        for index, one in enumerate(spec.get(part) or ()):
            yield from image_causes(one, f"spec.{part}[{index}].image")


def image_causes(container: Json, path: str) -> Iterator[Cause]:
    """The name of an image has no space around it."""
    image = container.get("image") or ""
    if image != image.strip():
        yield field_invalid(path, image, "must not have leading or trailing whitespace")


def creation_causes(pod: Json) -> Iterator[Cause]:
    """What a pod may not have yet when it is created."""
    spec = pod.get("spec") or {}
    if spec.get("ephemeralContainers"):
        yield field_forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        yield field_forbidden("spec.nodeName", text)


def spec_causes(spec: Json, path: str, version: KubernetesVersion) -> Iterator[Cause]:
    """Every rule that the spec of a pod or of a template breaks; its defaults are filled in."""
    if not _is_sound(spec, version):
        yield from _all_causes(spec, path, version)


def _is_sound(spec: Json, version: KubernetesVersion) -> bool:
    """Whether no rule is broken.

    Pods of one controller are alike, but for the name of the volume with their token: volumes
    and mounts are looked at each time, the rest once for all that are alike.
    """
    volumes: dict[str, Json] = {}
    if any(volume_causes(spec.get("volumes"), "", volumes)):
        return False
    alike = {**spec, "volumes": None}
    for kind in ("containers", "initContainers"):
        containers = spec.get(kind)
        if not containers:
            continue
        for one in containers:
            if one.get("volumeDevices"):
                return False
            if one.get("volumeMounts") and any(mount_causes(one, "", volumes)):
                return False
        alike[kind] = [
            {name: value for name, value in one.items() if name != "volumeMounts"}
            for one in containers
        ]
    return _alike_are_sound(msgspec.json.encode(alike), version)


@lru_cache(maxsize=256)
def _alike_are_sound(encoded: bytes, version: KubernetesVersion) -> bool:
    return next(_all_causes(msgspec.json.decode(encoded), "", version), None) is None


def _all_causes(spec: Json, path: str, version: KubernetesVersion) -> Iterator[Cause]:
    volumes: dict[str, Json] = {}
    if spec.get("volumes"):
        yield from volume_causes(spec["volumes"], f"{path}.volumes", volumes)
    claims = frozenset(one.get("name", "") for one in spec.get("resourceClaims") or ())
    around = Surroundings(
        version=version,
        never_restarts=spec.get("restartPolicy") == "Never",
        grace=spec.get("terminationGracePeriodSeconds"),
        claims=claims,
        volumes=volumes,
    )
    yield from containers_causes(spec, path, around)
    if spec.get("resources"):
        yield from pod_level_causes(spec, path, claims)
    if spec.get("hostNetwork"):
        yield from _host_port_causes(spec, path)
    yield from _policy_causes(spec, path)
    yield from label_causes(spec.get("nodeSelector"), f"{path}.nodeSelector")
    if spec.get("securityContext"):
        yield from user_causes(spec["securityContext"], f"{path}.securityContext", "fsGroup")
    yield from _scheduling_causes(spec, path)
    if spec.get("hostUsers") is False:
        yield from _host_causes(spec, path)
    yield from _name_causes(spec, path)
    if spec.get("tolerations"):
        yield from toleration_causes(spec["tolerations"], f"{path}.tolerations", version)
    yield from _priority_causes(spec, path)
    if spec.get("overhead"):
        overhead = {"resources": {"limits": spec["overhead"]}}
        yield from amounts_causes(overhead, f"{path}.overhead")


def toleration_causes(tolerations: Any, path: str, version: KubernetesVersion) -> Iterator[Cause]:
    """Every toleration that says nothing."""
    for index, one in enumerate(tolerations):
        place = f"{path}[{index}]"
        key, operator = one.get("key") or "", one.get("operator") or ""
        effect, value = one.get("effect") or "", one.get("value") or ""
        if key:
            yield from key_causes(key, f"{place}.key")
        elif operator != "Exists":
            text = (
                "operator must be Exists when `key` is empty, which means "
                '"match all values and all keys"'
            )
            yield field_invalid(f"{place}.operator", operator, text)
        if one.get("tolerationSeconds") is not None and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield field_invalid(f"{place}.effect", effect, text)
        if operator in ("", "Equal"):
            yield from value_causes(value, f"{place}.operator")
        elif operator == "Exists":
            if value:
                text = "value must be empty when `operator` is 'Exists'"
                yield field_invalid(f"{place}.operator", value, text)
        else:
            # The gate of comparisons is off, but their names are known since 1.35.
            compares = operator in _COMPARISONS and version.minor >= 35
            known = (*_OPERATORS, *_COMPARISONS) if compares else _OPERATORS
            yield field_not_supported(f"{place}.operator", operator, known)
        if effect and effect not in _EFFECTS:
            yield field_not_supported(f"{place}.effect", effect, _EFFECTS)


def _policy_causes(spec: Json, path: str) -> Iterator[Cause]:
    policy = spec.get("restartPolicy") or "Always"
    if policy not in _RESTART_POLICIES:
        yield field_not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES)
    dns = spec.get("dnsPolicy") or "ClusterFirst"
    if dns not in _DNS_POLICIES:
        yield field_not_supported(f"{path}.dnsPolicy", dns, _DNS_POLICIES)


def _scheduling_causes(spec: Json, path: str) -> Iterator[Cause]:
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        place = f"{path}.readinessGates[{index}].conditionType"
        yield from key_causes(gate.get("conditionType") or "", place)
    if spec.get("schedulingGates"):
        yield from _gate_causes(spec["schedulingGates"], f"{path}.schedulingGates")
    if spec.get("topologySpreadConstraints"):
        constraints = spec["topologySpreadConstraints"]
        yield from _spread_causes(constraints, f"{path}.topologySpreadConstraints")


def _host_causes(spec: Json, path: str) -> Iterator[Cause]:
    """What a pod with users of its own may not have of its host."""
    for name, told in _OF_THE_HOST:
        if spec.get(name):
            yield field_forbidden(f"{path}.{told}", "when `hostUsers` is false")


def _host_port_causes(spec: Json, path: str) -> Iterator[Cause]:
    for index, one in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(one.get("ports") or ()):
            host = port.get("hostPort", 0)
            # A template may leave it to the pods to fill it in.
            if host and host != port.get("containerPort"):
                place = f"{path}.containers[{index}].ports[{number}].hostPort"
                text = "must match `containerPort` when `hostNetwork` is true"
                yield field_invalid(place, host, text)


def _gate_causes(gates: Any, path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name") or ""
        yield from key_causes(name, f"{path}[{index}]")
        if name in seen:
            yield field_duplicate(f"{path}[{index}]", name)
        seen.add(name)


def _spread_causes(constraints: Any, path: str) -> Iterator[Cause]:
    kinds = [(one.get("topologyKey", ""), one.get("whenUnsatisfiable", "")) for one in constraints]
    for index, one in enumerate(constraints):
        place, kind = f"{path}[{index}]", kinds[index]
        skew = one.get("maxSkew", 0)
        if skew <= 0:
            yield field_invalid(f"{place}.maxSkew", skew, "must be greater than zero")
        if not kind[0]:
            yield field_required(f"{place}.topologyKey", "can not be empty")
        if kind[1] not in _ACTIONS:
            yield field_not_supported(f"{place}.whenUnsatisfiable", kind[1], _ACTIONS)
        if kind in kinds[index + 1 :]:
            where = f"{place}.{{topologyKey, whenUnsatisfiable}}"
            yield field_duplicate(where, f"{{{kind[0]}, {kind[1]}}}")
        domains = one.get("minDomains")
        if domains is not None:
            yield from _domain_causes(domains, kind[1], f"{place}.minDomains")
        yield from selector_causes(one.get("labelSelector"), f"{place}.labelSelector")


def _domain_causes(domains: int, action: str, path: str) -> Iterator[Cause]:
    if domains <= 0:
        yield field_invalid(path, domains, "must be greater than zero")
    if action != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        yield field_invalid(path, domains, text)


def _name_causes(spec: Json, path: str) -> Iterator[Cause]:
    for name in ("serviceAccountName", "nodeName"):
        if spec.get(name):
            yield from fields_invalid(f"{path}.{name}", spec[name], subdomain_problems(spec[name]))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= LONGEST_DEADLINE:
        text = f"must be between 1 and {LONGEST_DEADLINE}, inclusive"
        yield field_invalid(f"{path}.activeDeadlineSeconds", deadline, text)
    for name in ("hostname", "subdomain"):
        if spec.get(name):
            yield from fields_invalid(f"{path}.{name}", spec[name], label_problems(spec[name]))


def _priority_causes(spec: Json, path: str) -> Iterator[Cause]:
    name = spec.get("priorityClassName") or ""
    if name:
        yield from fields_invalid(f"{path}.priorityClassName", name, subdomain_problems(name))
    policy = spec.get("preemptionPolicy")
    if policy is not None and policy not in _PREEMPTION_POLICIES:
        yield field_not_supported(f"{path}.preemptionPolicy", policy, _PREEMPTION_POLICIES)

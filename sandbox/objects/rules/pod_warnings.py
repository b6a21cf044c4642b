"""What a real API server warns of when a pod, or what makes pods, is created.

Deprecated labels and annotations, and volumes of single vendors, are not told of.

Source: ``GetWarningsForPod`` and ``GetWarningsForPodTemplate``, k8s.io/kubernetes
pkg/api/pod/warnings.go; the ``WarningsOnCreate`` of pkg/registry/*/strategy.go there.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from common.quantity import Quantity
from sandbox.objects.resources import PODS, SECRETS, Resource
from sandbox.objects.rules.dns_names import label_problems
from sandbox.objects.rules.key_pairs import key_pair_warnings
from sandbox.objects.templates import TEMPLATES, template_of

Json = Mapping[str, Any]

# Kinds whose names become the beginnings of those of pods.
_NAMING: Final = ("CronJob", "Deployment", "Job", "ReplicaSet", "ReplicationController")
_LISTS: Final = ("initContainers", "containers")
_WHOLE: Final = ("memory", "ephemeral-storage")
_THOUSANDTHS: Final = 1000


def object_warnings(resource: Resource, obj: Json) -> Iterator[str]:
    """What is odd about a new object of any kind: mostly about the pods that it is, or makes."""
    if resource is SECRETS:
        yield from key_pair_warnings(obj)
    elif resource is PODS:
        yield from pod_warnings(obj)
    elif not resource.custom and resource.kind in TEMPLATES:
        if resource.kind in _NAMING:
            yield from _name_warnings(obj, "this is used in Pod names and hostnames")
        spec = template_of(resource.kind, obj).get("spec") or {}
        yield from spec_warnings(spec, f"{TEMPLATES[resource.kind]}.spec")
        limit = (obj.get("spec") or {}).get("revisionHistoryLimit")
        if resource.kind == "StatefulSet" and limit is not None and limit < 0:
            yield (
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; a "
                "value >= 0 is recommended"
            )


def _name_warnings(obj: Json, used: str) -> Iterator[str]:
    problems = " ".join(label_problems(obj["metadata"]["name"]))
    if problems:
        surprise = "which can result in surprising behavior; a DNS label is recommended"
        yield f"metadata.name: {used}, {surprise}: [{problems}]"


def pod_warnings(pod: Json) -> Iterator[str]:
    """What is odd about a new pod."""
    yield from _name_warnings(pod, "this is used in the Pod's hostname")
    yield from spec_warnings(pod.get("spec") or {}, "spec")


def spec_warnings(spec: Json, path: str) -> Iterator[str]:
    """What is odd about the spec of a pod or of a template."""
    for index, one in enumerate(spec.get("topologySpreadConstraints") or ()):
        if one.get("labelSelector") is None:
            place = f"{path}.topologySpreadConstraints[{index}].labelSelector"
            yield f"{place}: a null labelSelector results in matching no pod"
    yield from _secret_warnings(spec.get("imagePullSecrets") or (), f"{path}.imagePullSecrets")
    for place, container in _containers(spec, path):
        yield from _amount_warnings(container.get("resources") or {}, f"{place}.resources")
        variables = container.get("env") or ()
        if len(variables) > 1:
            yield from _variable_warnings(variables, f"{place}.env")
    yield from _port_warnings(spec, path)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        yield (
            f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid "
            "and will be treated as 1"
        )


def _containers(spec: Json, path: str) -> Iterator[tuple[str, Json]]:
    for kind in _LISTS:
        for index, container in enumerate(spec.get(kind) or ()):
            yield f"{path}.{kind}[{index}]", container


def _secret_warnings(secrets: Any, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, one in enumerate(secrets):
        name = one.get("name") or ""
        if name in seen:
            yield f'{path}[{index}].name: duplicate name "{name}"'
        seen.add(name)
    for index, one in enumerate(secrets):
        if not one.get("name"):
            yield f'{path}[{index}].name: invalid empty name ""'


def _amount_warnings(resources: Json, path: str) -> Iterator[str]:
    for name in _WHOLE:
        for part in ("limits", "requests"):
            text = (resources.get(part) or {}).get(name)
            # Whole numbers of bytes are written without the suffix of thousandths.
            if isinstance(text, str) and text.endswith("m"):
                amount = Quantity.parse(text)
                if amount.milli % _THOUSANDTHS:
                    told = f'fractional byte value "{amount}" is invalid, must be an integer'
                    yield f"{path}.{part}[{name}]: {told}"


def _variable_warnings(variables: Any, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, one in enumerate(variables):
        name, value = one.get("name") or "", one.get("value") or ""
        reference = f"$({name})"
        if name in seen and (
            one.get("valueFrom") is not None or value == reference or reference not in value
        ):
            yield (
                f'{path}[{index}]: hides previous definition of "{name}", which may be dropped '
                "when using apply"
            )
        seen.add(name)


def _port_warnings(spec: Json, path: str) -> Iterator[str]:
    ports: dict[tuple[int, str], list[tuple[str, Json]]] = {}
    names: dict[str, str] = {}
    repeated = []
    for place, container in _containers(spec, path):
        for index, port in enumerate(container.get("ports") or ()):
            where = f"{place}.ports[{index}]"
            key = port.get("containerPort", 0), port.get("protocol", "TCP")
            for other, known in ports.get(key, ()):
                yield from _overlap(where, port, other, known)
            ports.setdefault(key, []).append((where, port))
            name = port.get("name") or ""
            if name and name in names:
                repeated.append(
                    f'{where}: duplicate port name "{name}" with {names[name]}, services and '
                    f"probes that select ports by name will use {names[name]}"
                )
            elif name:
                names[name] = where
    yield from repeated


def _overlap(where: str, port: Json, other: str, known: Json) -> Iterator[str]:
    """How two ports of one number and protocol meet."""
    mine, theirs = port.get("hostPort", 0), known.get("hostPort", 0)
    address, taken = port.get("hostIP") or "", known.get("hostIP") or ""
    if mine == theirs and address == taken:
        yield f"{where}: duplicate port definition with {other}"
    elif not mine or not theirs:
        yield f"{where}: overlapping port definition with {other}"
    elif mine == theirs and bool(address) != bool(taken):
        yield f"{where}: dangerously ambiguous port definition with {other}"

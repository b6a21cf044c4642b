"""Changes of a pod's resources by an update, as text for Events and logs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from common.api.base import QuantityJson
from common.api.core import NO_RESOURCES, Container, Pod, ResourceRequirements
from common.patches import Operation, parse_pointer
from common.quantity import Quantity, QuantityError
from common.resources import ResourceQuantities, in_order

_MAX_LENGTH = 400  # characters; an Event's message may have 1024
_NONE = "none"
_POD = "pod"  # stands for the container in changes of pod-level resources
_REQUESTS = "requests"
_NOTHING: ResourceQuantities = {}


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """One resource of one container before and after an update."""

    container: str
    resource: str  # followed by the word limit if it isn't a request
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.resource} {self.old} -> {self.new}"


def request_changes(
    requests: Mapping[str, ResourceQuantities], targets: Mapping[str, ResourceQuantities]
) -> tuple[ResourceChange, ...]:
    """Return the differences between present and wanted requests, both by container."""
    return tuple(
        ResourceChange(name, resource, _NONE if old is None else str(old), str(target[resource]))
        for name, target in targets.items()
        for resource in in_order(target)
        if (old := requests.get(name, _NOTHING).get(resource)) != target[resource]
    )


def patch_changes(pod: Pod, operations: Iterable[Operation]) -> tuple[ResourceChange, ...]:
    """Return what a JSON patch changes in the resources of a pod's spec; ignore the rest of it."""
    return tuple(_patch_changes(pod, operations))


def _patch_changes(pod: Pod, operations: Iterable[Operation]) -> Iterator[ResourceChange]:
    for operation in operations:
        new = operation.value
        if not isinstance(new, str):
            continue
        match parse_pointer(operation.path):
            case ["spec", "containers", index, "resources", kind, resource]:
                container = pod.spec.containers[int(index)]
            case ["spec", "initContainers", index, "resources", kind, resource]:
                container = (pod.spec.init_containers or ())[int(index)]
            case ["spec", "resources", kind, resource]:
                container = Container(name=_POD, resources=pod.spec.resources)
            case _:
                continue
        old = _amount(container.resources, kind, resource)
        if not _is_same(old, new):
            named = resource if kind == _REQUESTS else f"{resource} limit"
            yield ResourceChange(container.name, named, _NONE if old is None else str(old), new)


def _amount(resources: ResourceRequirements | None, kind: str, resource: str) -> QuantityJson:
    present = resources or NO_RESOURCES
    amounts = present.requests if kind == _REQUESTS else present.limits
    return (amounts or {}).get(resource)


def _is_same(old: QuantityJson, new: str) -> bool:
    if old is None or old == new:
        return old is not None
    try:
        return Quantity.from_json(old) == Quantity.parse(new)
    except QuantityError:
        return False


def summary(changes: Sequence[ResourceChange]) -> str:
    """Return ``app cpu 100m -> 250m, memory 64Mi -> 1Gi; side cpu none -> 10m``.

    After about 400 characters, abbreviate the rest as ``and N more``.
    """
    shown, length = 0, 0
    for change in changes:
        length += len(change.container) + len(str(change)) + 2
        if shown and length > _MAX_LENGTH:
            break
        shown += 1
    containers = (
        f"{name} {', '.join(map(str, those))}"
        for name, those in groupby(changes[:shown], key=lambda change: change.container)
    )
    text = "; ".join(containers)
    left = len(changes) - shown
    return f"{text} and {left} more" if left else text

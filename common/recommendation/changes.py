"""What an update changes about a pod, for Events, logs and people."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from common.api.base import QuantityJson
from common.api.core import Container, Pod, ResourceRequirements
from common.patches import Operation
from common.quantity import Quantity, QuantityError
from common.resources import ResourceQuantities, in_order

_LONGEST = 400  # characters; an Event's message may have 1024
_NONE = "none"
_POD = "pod"  # what stands in the place of the container for resources of the pod as a whole
_REQUESTS = "requests"
_NOTHING: ResourceQuantities = {}


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """One resource of one container, before and after."""

    container: str
    resource: str  # with the word limit behind it where it isn't a request
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.resource} {self.old} -> {self.new}"


def request_changes(
    requests: Mapping[str, ResourceQuantities], targets: Mapping[str, ResourceQuantities]
) -> tuple[ResourceChange, ...]:
    """Compare present requests with wanted ones, both by container."""
    return tuple(
        ResourceChange(name, resource, _NONE if old is None else str(old), str(target[resource]))
        for name, target in targets.items()
        for resource in in_order(target)
        if (old := requests.get(name, _NOTHING).get(resource)) != target[resource]
    )


def patch_changes(pod: Pod, operations: Iterable[Operation]) -> tuple[ResourceChange, ...]:
    """Compare a pod's spec with a JSON patch of its resources; other operations don't count."""
    return tuple(_patch_changes(pod, operations))


def _patch_changes(pod: Pod, operations: Iterable[Operation]) -> Iterator[ResourceChange]:
    for operation in operations:
        new = operation.value
        if not isinstance(new, str):
            continue
        match operation.path.split("/"):
            case ["", "spec", "containers", index, "resources", kind, token]:
                container = pod.spec.containers[int(index)]
            case ["", "spec", "initContainers", index, "resources", kind, token]:
                container = (pod.spec.init_containers or ())[int(index)]
            case ["", "spec", "resources", kind, token]:
                container = Container(name=_POD, resources=pod.spec.resources)
            case _:
                continue
        resource = token.replace("~1", "/").replace("~0", "~")
        old = _amount(container.resources, kind, resource)
        if not _is_same(old, new):
            named = resource if kind == _REQUESTS else f"{resource} limit"
            yield ResourceChange(container.name, named, _NONE if old is None else str(old), new)


def _amount(resources: ResourceRequirements | None, kind: str, resource: str) -> QuantityJson:
    if resources is None:
        return None
    amounts = resources.requests if kind == _REQUESTS else resources.limits
    return None if amounts is None else amounts.get(resource)


def _is_same(old: QuantityJson, new: str) -> bool:
    if old is None or old == new:
        return old is not None
    try:
        return Quantity.from_json(old) == Quantity.parse(new)
    except QuantityError:
        return False


def summary(changes: Sequence[ResourceChange]) -> str:
    """Return ``app cpu 100m -> 250m, memory 64Mi -> 1Gi; side cpu none -> 10m``.

    At most about 400 characters; the rest as ``and N more``.
    """
    shown, length = 0, 0
    for change in changes:
        length += len(change.container) + len(str(change)) + 2
        if shown and length > _LONGEST:
            break
        shown += 1
    containers = (
        f"{name} {', '.join(map(str, those))}"
        for name, those in groupby(changes[:shown], key=lambda change: change.container)
    )
    text = "; ".join(containers)
    left = len(changes) - shown
    return f"{text} and {left} more" if left else text

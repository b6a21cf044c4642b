"""What containers, and a pod as a whole, ask for, as the API server adds it up.

Source: spec/pod-level-resources.md; ``podRequests`` and ``podLimits`` of
k8s.io/kubernetes plugin/pkg/admission/limitranger/admission.go; ``defaultPodRequests``,
pkg/apis/core/v1/defaults.go.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from common.api.core import (
    Container,
    ContainerStatus,
    PodSpec,
    ResourceRequirements,
    is_sidecar,
)
from common.quantity import Quantity
from common.resources import RESOURCES, ResourceQuantities, parse_quantities

_NONE = ResourceRequirements()


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Requests and limits of a container, or of a pod; a request is the limit where it has none."""

    name: str = "the pod"
    requests: dict[str, Quantity] = field(default_factory=dict)
    limits: dict[str, Quantity] = field(default_factory=dict)
    is_sidecar: bool = False  # an init container that keeps running

    def add(self, other: "Amounts") -> None:
        _add(self.requests, other.requests)
        _add(self.limits, other.limits)

    def raise_to(self, other: "Amounts") -> None:
        _raise_to(self.requests, other.requests)
        _raise_to(self.limits, other.limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAmounts:
    """What the parts of a pod ask for."""

    containers: tuple[Amounts, ...]
    init_containers: tuple[Amounts, ...]
    stanza: Amounts | None  # ``spec.resources`` with defaults; None: the pod has none

    @property
    def all_containers(self) -> tuple[Amounts, ...]:
        return (*self.containers, *self.init_containers)

    @property
    def inside(self) -> Amounts:
        """What all containers together ask for.

        Regular containers and sidecars together, or more where the start needs more.
        """
        return _aggregate(self.containers, self.init_containers)

    @property
    def whole(self) -> Amounts:
        """What the pod asks for: pod-level cpu and memory where they are set, else the sums.

        Overhead is not part of it.
        """
        total = self.inside
        if self.stanza is not None:
            total.requests.update(_compute(self.stanza.requests))
            total.limits.update(_compute(self.stanza.limits))
        return total


def pod_amounts(spec: PodSpec, statuses: Iterable[ContainerStatus] = ()) -> PodAmounts:
    """Read a pod's spec with the API server's own defaults filled in.

    With ``statuses`` each container counts with the largest of spec, actual and allocated
    resources, as quotas count it.

    Raises:
        QuantityError: an amount is no quantity.
    """
    reported = {status.name: status for status in statuses}
    containers = tuple(_of(each, reported.get(each.name)) for each in spec.containers)
    init = tuple(
        _of(each, reported.get(each.name), init=True) for each in spec.init_containers or ()
    )
    stanza = spec.resources
    if stanza is None or not (stanza.requests or stanza.limits):
        return PodAmounts(containers=containers, init_containers=init, stanza=None)
    inside = _aggregate(containers, init)
    return PodAmounts(containers=containers, init_containers=init, stanza=_stanza(stanza, inside))


def _of(container: Container, status: ContainerStatus | None, *, init: bool = False) -> Amounts:
    resources = container.resources or _NONE
    limits = parse_quantities(resources.limits)
    found = Amounts(
        name=f"{'init container' if init else 'container'} {container.name}",
        requests=limits | parse_quantities(resources.requests),
        limits=limits,
        is_sidecar=init and is_sidecar(container),
    )
    if status is not None:
        actual = status.resources or _NONE
        _raise_to(found.requests, parse_quantities(actual.requests))
        _raise_to(found.requests, parse_quantities(status.allocated_resources))
        _raise_to(found.limits, parse_quantities(actual.limits))
    return found


def _stanza(stated: ResourceRequirements, inside: Amounts) -> Amounts:
    """Beside pod-level limits, a missing request is that of all containers, else the limit."""
    requests, limits = parse_quantities(stated.requests), parse_quantities(stated.limits)
    if limits:
        for name in RESOURCES:
            default = inside.requests.get(name, limits.get(name))
            if default is not None:
                requests.setdefault(name, default)
    return Amounts(requests=requests, limits=limits)


def _aggregate(containers: Iterable[Amounts], init_containers: Iterable[Amounts]) -> Amounts:
    total, starting, sidecars = Amounts(), Amounts(), Amounts()
    for container in containers:
        total.add(container)
    for container in init_containers:
        step = Amounts()
        step.add(sidecars)
        step.add(container)
        if container.is_sidecar:
            total.add(container)
            sidecars.add(container)
        starting.raise_to(step)
    total.raise_to(starting)
    return total


def _compute(amounts: ResourceQuantities) -> Iterator[tuple[str, Quantity]]:
    return ((name, amounts[name]) for name in RESOURCES if name in amounts)


def _add(total: dict[str, Quantity], more: Mapping[str, Quantity]) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise_to(total: dict[str, Quantity], least: Mapping[str, Quantity]) -> None:
    for name, amount in least.items():
        total[name] = max(total[name], amount) if name in total else amount

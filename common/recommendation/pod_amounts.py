"""What containers, and a pod as a whole, ask for, as the API server adds it up.

Source: spec/pod-level-resources.md; ``podRequests`` and ``podLimits`` of
k8s.io/kubernetes plugin/pkg/admission/limitranger/admission.go; ``defaultPodRequests``,
pkg/apis/core/v1/defaults.go.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from common.api.core import (
    Container,
    ContainerStatus,
    PodSpec,
    ResourceRequirements,
    is_sidecar,
)
from common.quantity import ZERO, Quantity
from common.recommendation.scaled_containers import scaled_specs
from common.resources import RESOURCES, ResourceQuantities, parse_quantities

_NONE = ResourceRequirements()
_STORED = -3  # the power of ten to which the API server rounds up every quantity
_MOST_STARTING = 8  # phases before that of the pod that runs


class Resources(Protocol):
    """Requests and limits that something gets."""

    @property
    def requests(self) -> ResourceQuantities: ...

    @property
    def limits(self) -> ResourceQuantities: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Requests and limits of a container, or of a pod; a request is the limit where it has none."""

    name: str = ""  # of the container; empty: several, or the pod
    requests: dict[str, Quantity] = field(default_factory=dict)
    limits: dict[str, Quantity] = field(default_factory=dict)
    is_init: bool = False
    is_sidecar: bool = False  # an init container that keeps running

    @property
    def title(self) -> str:
        """Return what a message calls it."""
        if not self.name:
            return "the pod"
        return f"{'init container' if self.is_init else 'container'} {self.name}"

    def add(self, other: "Amounts") -> None:
        _add(self.requests, other.requests)
        _add(self.limits, other.limits)

    def raise_to(self, other: "Amounts") -> None:
        _raise_to(self.requests, other.requests)
        _raise_to(self.limits, other.limits)


@dataclass(frozen=True, slots=True)
class Phase:
    """Containers that run at the same time, so that the API server adds them up."""

    scaled: Mapping[str, Amounts]  # what those that a VPA scales ask for now, by name
    fixed: Amounts  # what the others ask for together

    def requested(self, resource: str, requests: Mapping[str, Quantity]) -> Quantity:
        """Return what all of them request, with these requests instead of the present ones."""
        total = self.fixed.requests.get(resource, ZERO)
        for name, present in self.scaled.items():
            total += as_stored(requests.get(name, present.requests.get(resource, ZERO)))
        return total


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
    def running(self) -> Amounts:
        """Return what regular containers and sidecars together ask for."""
        return self.phases()[-1].fixed

    @property
    def inside(self) -> Amounts:
        """Return what all containers together ask for: the most of any phase."""
        most = Amounts()
        for phase in self.phases():
            most.raise_to(phase.fixed)
        return most

    @property
    def whole(self) -> Amounts:
        """Return what the pod asks for: pod-level cpu and memory where they are set, else the sums.

        Overhead is not part of it.
        """
        total = self.inside
        if self.stanza is not None:
            total.requests.update(_compute(self.stanza.requests))
            total.limits.update(_compute(self.stanza.limits))
        return total

    def phases(self, scaled: Collection[str] = ()) -> tuple[Phase, ...]:
        """Return the phases of the pod's life; ``scaled`` are the containers that a VPA scales.

        A plain init container runs beside the sidecars that were started before it. The last phase
        is that of the regular containers and all sidecars. Plain init containers beside the same
        scaled sidecars are one phase. So are those of a pod with very many phases, as if they
        ran beside the sidecars of the last one, so that the work for a pod stays bounded.
        """
        found: list[Phase] = []
        started: dict[str, Amounts] = {}
        sidecars = Amounts()
        for each in self.init_containers:
            if each.name in scaled:
                started[each.name] = each
            elif each.is_sidecar:
                sidecars.add(each)
            else:
                fixed = _together((sidecars, each))
                is_same = found and len(found[-1].scaled) == len(started)
                if is_same or len(found) == _MOST_STARTING:
                    fixed.raise_to(found.pop().fixed)
                found.append(Phase(dict(started), fixed))
        regular = {each.name: each for each in self.containers if each.name in scaled}
        others = (each for each in self.containers if each.name not in scaled)
        return (*found, Phase({**regular, **started}, _together((sidecars, *others))))


def pod_amounts(
    spec: PodSpec,
    statuses: Iterable[ContainerStatus] = (),
    *,
    changed: Mapping[str, Resources] | None = None,
) -> PodAmounts:
    """Read a pod's spec with the API server's own defaults filled in.

    With ``statuses`` each container counts with the largest of spec, actual and allocated
    resources, as quotas count it. ``changed`` are other amounts of some containers, by name.

    Raises:
        QuantityError: an amount is no quantity.
    """
    reported = {status.name: status for status in statuses}
    new = changed or {}
    containers = tuple(
        _of(each, reported.get(each.name), new.get(each.name)) for each in spec.containers
    )
    init = tuple(
        _of(each, reported.get(each.name), new.get(each.name), is_init=True)
        for each in spec.init_containers or ()
    )
    found = PodAmounts(containers=containers, init_containers=init, stanza=None)
    stanza = spec.resources
    if stanza is None or not (stanza.requests or stanza.limits):
        return found
    return replace(found, stanza=_stanza(stanza, found.inside))


def phases_of(spec: PodSpec) -> tuple[Phase, ...]:
    """Return the phases of a pod; the last one is that of the pod that runs.

    Raises:
        QuantityError: an amount is no quantity.
    """
    return pod_amounts(spec).phases({each.name for each in scaled_specs(spec)})


def as_stored(quantity: Quantity) -> Quantity:
    """Return a quantity as the API server stores it: nothing is finer than a thousandth."""
    return quantity.round_up(_STORED)


def _of(
    container: Container,
    status: ContainerStatus | None,
    changed: Resources | None,
    *,
    is_init: bool = False,
) -> Amounts:
    resources = container.resources or _NONE
    limits = parse_quantities(resources.limits)
    found = Amounts(
        name=container.name,
        requests=limits | parse_quantities(resources.requests),
        limits=limits,
        is_init=is_init,
        is_sidecar=is_init and is_sidecar(container),
    )
    if changed is not None:
        found.requests.update(_stored(changed.requests))
        found.limits.update(_stored(changed.limits))
    if status is not None:
        actual = status.resources or _NONE
        _raise_to(found.requests, parse_quantities(actual.requests))
        _raise_to(found.requests, parse_quantities(status.allocated_resources))
        _raise_to(found.limits, parse_quantities(actual.limits))
    return found


def _stored(amounts: ResourceQuantities) -> dict[str, Quantity]:
    return {name: as_stored(amount) for name, amount in amounts.items()}


def _stanza(stated: ResourceRequirements, inside: Amounts) -> Amounts:
    """Beside pod-level limits, a missing request is that of all containers, else the limit."""
    requests, limits = parse_quantities(stated.requests), parse_quantities(stated.limits)
    if limits:
        for name in RESOURCES:
            default = inside.requests.get(name, limits.get(name))
            if default is not None:
                requests.setdefault(name, default)
    return Amounts(requests=requests, limits=limits)


def _together(amounts: Iterable[Amounts]) -> Amounts:
    total = Amounts()
    for each in amounts:
        total.add(each)
    return total


def _compute(amounts: ResourceQuantities) -> Iterator[tuple[str, Quantity]]:
    return ((name, amounts[name]) for name in RESOURCES if name in amounts)


def _add(total: dict[str, Quantity], more: Mapping[str, Quantity]) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise_to(total: dict[str, Quantity], least: Mapping[str, Quantity]) -> None:
    for name, amount in least.items():
        total[name] = max(total[name], amount) if name in total else amount

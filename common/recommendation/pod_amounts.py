"""Requests and limits of containers and of a whole pod, added up as the API server does it.

Source: spec/pod-level-resources.md; ``podRequests`` and ``podLimits`` of
k8s.io/kubernetes plugin/pkg/admission/limitranger/admission.go; ``defaultPodRequests``,
pkg/apis/core/v1/defaults.go.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from common.api.core import (
    NO_RESOURCES,
    Container,
    ContainerStatus,
    PodSpec,
    ResourceRequirements,
    is_sidecar,
)
from common.quantity import ZERO, Quantity
from common.recommendation.scaled_containers import scaled_specs
from common.resources import RESOURCES, ResourceQuantities, parse_quantities

_STORED = -3  # power of ten to which the API server rounds up every quantity
_MAX_STARTING = 8  # phases before the last one


class Resources(Protocol):
    """Anything with requests and limits."""

    @property
    def requests(self) -> ResourceQuantities: ...

    @property
    def limits(self) -> ResourceQuantities: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Requests and limits of a container or a pod; a missing request is the limit."""

    name: str = ""  # of the container; empty: several, or the pod
    requests: dict[str, Quantity] = field(default_factory=dict)
    limits: dict[str, Quantity] = field(default_factory=dict)
    is_init: bool = False
    is_sidecar: bool = False  # an init container that keeps running

    @property
    def title(self) -> str:
        """Return its name for messages."""
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
    """Containers that run at the same time; the API server adds up their resources."""

    scaled: Mapping[str, Amounts]  # present amounts of the containers that a VPA scales, by name
    fixed: Amounts  # sum of the other containers

    def requested(self, resource: str, requests: Mapping[str, Quantity]) -> Quantity:
        """Return the sum of the requests, with ``requests`` instead of the present ones."""
        total = self.fixed.requests.get(resource, ZERO)
        for name, present in self.scaled.items():
            total += as_stored(requests.get(name, present.requests.get(resource, ZERO)))
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAmounts:
    """Requests and limits of a pod, by container and pod-level."""

    containers: tuple[Amounts, ...]
    init_containers: tuple[Amounts, ...]
    stanza: Amounts | None  # ``spec.resources`` with defaults; None: the pod has none

    @property
    def all_containers(self) -> tuple[Amounts, ...]:
        return (*self.containers, *self.init_containers)

    @property
    def running(self) -> Amounts:
        """Return the sum over regular containers and sidecars."""
        return self.phases()[-1].fixed

    @property
    def inside(self) -> Amounts:
        """Return the amounts of all containers together: the maximum of the phases."""
        most = Amounts()
        for phase in self.phases():
            most.raise_to(phase.fixed)
        return most

    @property
    def whole(self) -> Amounts:
        """Return the amounts of the pod: pod-level cpu and memory if set, else those of ``inside``.

        Overhead is not included.
        """
        total = self.inside
        if self.stanza is not None:
            total.requests.update(_compute(self.stanza.requests))
            total.limits.update(_compute(self.stanza.limits))
        return total

    def phases(self, scaled: Collection[str] = ()) -> tuple[Phase, ...]:
        """Return the phases of the pod; ``scaled`` are the containers that a VPA scales.

        A plain init container runs beside the sidecars that were started before it. The regular
        containers and all sidecars run in the last phase. Plain init containers beside the same
        scaled sidecars are merged into one phase. To bound the work for a pod, phases after the
        eighth are merged into it, as if they all ran beside the sidecars of the last one.
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
                if is_same or len(found) == _MAX_STARTING:
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
    """Return the amounts in a pod's spec, with the defaults of the API server.

    With ``statuses``, use for each container the largest of spec, actual and allocated resources,
    as quotas do. ``changed`` are amounts that replace those of the spec, by container.

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
    """Return the phases of a pod; in the last one the regular containers run.

    Raises:
        QuantityError: an amount is no quantity.
    """
    return pod_amounts(spec).phases({each.name for each in scaled_specs(spec)})


def as_stored(quantity: Quantity) -> Quantity:
    """Return a quantity as the API server stores it: rounded up to a thousandth."""
    return quantity.round_up(_STORED)


def _of(
    container: Container,
    status: ContainerStatus | None,
    changed: Resources | None,
    *,
    is_init: bool = False,
) -> Amounts:
    resources = container.resources or NO_RESOURCES
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
        actual = status.resources or NO_RESOURCES
        _raise_to(found.requests, parse_quantities(actual.requests))
        _raise_to(found.requests, parse_quantities(status.allocated_resources))
        _raise_to(found.limits, parse_quantities(actual.limits))
    return found


def _stored(amounts: ResourceQuantities) -> dict[str, Quantity]:
    return {name: as_stored(amount) for name, amount in amounts.items()}


def _stanza(stated: ResourceRequirements, inside: Amounts) -> Amounts:
    """Return pod-level amounts; beside limits, a missing request is ``inside``, else the limit."""
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

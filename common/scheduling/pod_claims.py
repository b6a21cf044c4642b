"""The room that a pod needs for given targets of its containers, and targets that fit a room."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain

from common.api.core import Container, PodSpec, is_sidecar
from common.api.workloads import ResourcesTemplate, TemplateContainer
from common.quantity import Quantity
from common.recommendation.amounts import ContainerAmounts
from common.recommendation.pod_amounts import Amounts, Phase, pod_amounts
from common.resources import CPU, MEMORY, RESOURCES, ResourceQuantities, parse_quantities
from common.scheduling.eligibility import SchedulingRules, rules_of
from common.scheduling.pod_sum import PhaseSum, PodSum
from common.scheduling.room import Room

Targets = Mapping[str, Mapping[str, int]]
"""Millicores and bytes by container and resource."""

_AS_REQUESTED = Fraction(1)


@dataclass(frozen=True, slots=True)
class PodShape:
    """The parts of a pod, or of a pod template, that decide where it fits."""

    rules: SchedulingRules
    spec: PodSpec  # containers, pod-level resources and overhead


def shape_of_template(template: ResourcesTemplate) -> PodShape:
    """Return the shape of the pods that a controller makes from a template."""
    spec = template.spec
    return PodShape(
        rules_of(spec),
        PodSpec(
            containers=tuple(map(_container, spec.containers or ())),
            init_containers=tuple(map(_container, spec.init_containers or ())) or None,
            resources=spec.resources,
            overhead=spec.overhead,
        ),
    )


@dataclass(frozen=True, slots=True)
class PodClaims:
    """The requests of a pod, which depend on the targets of its containers."""

    sums: Mapping[str, PodSum]  # by resource

    def needed(self, targets: Targets) -> Room:
        """Return the room of the pod with these targets; other requests stay."""
        amounts = by_resource(targets)
        return Room(self.sums[CPU].of(amounts[CPU]), self.sums[MEMORY].of(amounts[MEMORY]), 1)

    def capped(self, targets: Targets, minimums: Targets, room: Room) -> Targets | None:
        """Lower the targets in proportion, so that the pod fits a room; None: it can't.

        No target is lowered below its minimum.
        """
        before, least = by_resource(targets), by_resource(minimums)
        found = {name: dict(each) for name, each in targets.items()}
        for resource, most in ((CPU, room.cpu), (MEMORY, room.memory)):
            capped = self.sums[resource].capped(before[resource], least[resource], most)
            for name, amount in capped.items():
                found[name][resource] = amount
        return found if room.holds(self.needed(found)) else None


def claims_of(spec: PodSpec) -> PodClaims:
    """Return the claims of a pod, or of a pod template.

    The pod needs the maximum of its phases, or its pod-level requests if these are larger, and its
    overhead. Pod-level requests count as a minimum, because they may change with the containers.

    Raises:
        QuantityError: an amount is no quantity.
    """
    amounts = pod_amounts(spec)
    sidecars = (each.name for each in amounts.init_containers if each.is_sidecar)
    scaled = frozenset(chain(sidecars, (each.name for each in amounts.containers)))
    phases, stanza = amounts.phases(scaled), amounts.stanza or Amounts()
    pod_level, overhead = numbers(stanza.requests), numbers(parse_quantities(spec.overhead))
    return PodClaims(
        {
            each: PodSum(
                (
                    PhaseSum(pod_level[each] + overhead[each]),
                    *(_phase_sum(phase, each, overhead[each]) for phase in phases),
                )
            )
            for each in RESOURCES
        }
    )


def by_resource(targets: Targets) -> Targets:
    """Return targets, or minimums, by resource and container instead of container and resource."""
    return {
        resource: {name: each[resource] for name, each in targets.items() if resource in each}
        for resource in RESOURCES
    }


def numbers(amounts: ResourceQuantities) -> Mapping[str, int]:
    """Return millicores and bytes, rounded up; 0 for a missing resource."""
    return {resource: number(resource, amounts.get(resource)) for resource in RESOURCES}


def number(resource: str, amount: Quantity | None) -> int:
    """Return an amount in millicores or bytes, rounded up; 0 for a missing one."""
    if amount is None:
        return 0
    return amount.milli if resource == CPU else amount.value


def _phase_sum(phase: Phase, resource: str, overhead: int) -> PhaseSum:
    return PhaseSum(
        number(resource, phase.fixed.requests.get(resource)) + overhead,
        dict.fromkeys(phase.scaled, _AS_REQUESTED),
        {
            name: number(resource, each.requests.get(resource))
            for name, each in phase.scaled.items()
        },
    )


def _container(given: TemplateContainer) -> Container:
    return Container(
        name=given.name, resources=given.resources, restart_policy=given.restart_policy
    )


def slim_spec(spec: PodSpec) -> PodSpec:
    """Return a spec with the parts that ``claims_of`` reads; equal for all replicas."""
    return PodSpec(
        containers=tuple(map(_slim, spec.containers)),
        init_containers=tuple(map(_slim_init, spec.init_containers or ())) or None,
        resources=spec.resources,
        overhead=spec.overhead or None,
    )


def is_only_regular(spec: PodSpec) -> bool:
    """Return True if a pod's requests are the sum of those of its regular containers."""
    return not (spec.init_containers or spec.resources or spec.overhead)


def _slim(each: Container) -> Container:
    return Container(name=each.name, resources=each.resources)


def _slim_init(each: Container) -> Container:
    restart = each.restart_policy if is_sidecar(each) else None
    return Container(name=each.name, resources=each.resources, restart_policy=restart)


def targets_of(amounts: Iterable[ContainerAmounts]) -> Targets:
    """Return the targets of recommended containers as numbers."""
    return as_numbers((one.name, one.target) for one in amounts)


def as_numbers(targets: Iterable[tuple[str, ResourceQuantities]]) -> Targets:
    """Return targets, or minimums, as numbers by container."""
    return {
        name: {each: number(each, amounts[each]) for each in RESOURCES if each in amounts}
        for name, amounts in targets
    }

"""The room that a pod needs for given targets of its containers, and targets that fit a room."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from common.api.core import Container, PodSpec, is_sidecar
from common.api.workloads import ResourcesTemplate, TemplateContainer
from common.quantity import Quantity
from common.recommendation.pod_amounts import Amounts, Phase, pod_amounts
from common.resources import CPU, MEMORY, RESOURCES, ResourceQuantities, parse_quantities
from common.scheduling.capping import Claims, capped_in_proportion
from common.scheduling.eligibility import SchedulingRules, rules_of
from common.scheduling.room import Room

Targets = Mapping[str, Mapping[str, int]]
"""Millicores and bytes by container and resource."""


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
class _Phase:
    """Containers that run at the same time, with their present requests."""

    fixed: Mapping[str, int]  # sum of the others, by resource
    present: Mapping[str, Mapping[str, int]]  # of regular containers and sidecars

    def others(self, resource: str, targets: Targets) -> int:
        """Return the sum of the requests of all containers without a target."""
        return self.fixed[resource] + sum(
            requests[resource]
            for name, requests in self.present.items()
            if resource not in targets.get(name, ())
        )

    def targets(self, resource: str, targets: Targets) -> Mapping[str, int]:
        """Return the targets of its containers."""
        return {
            name: targets[name][resource]
            for name in self.present
            if resource in targets.get(name, ())
        }


@dataclass(frozen=True, slots=True)
class PodClaims:
    """The requests of a pod, which depend on the targets of its containers.

    The pod needs the maximum of its phases, or its pod-level requests if these are larger, and its
    overhead. Pod-level requests count as a minimum, because they may change with the containers.
    """

    phases: tuple[_Phase, ...]
    pod_level: Mapping[str, int]
    overhead: Mapping[str, int]

    def needed(self, targets: Targets) -> Room:
        """Return the room of the pod with these targets; other requests stay."""
        return Room(self._needed(CPU, targets), self._needed(MEMORY, targets), 1)

    def _needed(self, resource: str, targets: Targets) -> int:
        sums = (
            phase.others(resource, targets) + sum(phase.targets(resource, targets).values())
            for phase in self.phases
        )
        return max(self.pod_level[resource], *sums) + self.overhead[resource]

    def capped(self, targets: Targets, minimums: Targets, room: Room) -> Targets | None:
        """Lower the targets in proportion, so that the pod fits a room; None: it can't.

        No target is lowered below its minimum.
        """
        found = {name: dict(each) for name, each in targets.items()}
        for resource, most in ((CPU, room.cpu), (MEMORY, room.memory)):
            least = {name: each[resource] for name, each in minimums.items() if resource in each}
            for phase in reversed(self.phases):  # the regular containers run in the last one
                claims = Claims(targets=phase.targets(resource, found), minimums=least)
                left = most - self.overhead[resource] - phase.others(resource, found)
                for name, amount in capped_in_proportion(claims, left).items():
                    found[name][resource] = amount
        return found if room.holds(self.needed(found)) else None


def claims_of(spec: PodSpec) -> PodClaims:
    """Return the claims of a pod, or of a pod template.

    Raises:
        QuantityError: an amount is no quantity.
    """
    amounts = pod_amounts(spec)
    sidecars = (each.name for each in amounts.init_containers if each.is_sidecar)
    scaled = frozenset(chain(sidecars, (each.name for each in amounts.containers)))
    stanza = amounts.stanza or Amounts()
    return PodClaims(
        phases=tuple(map(_phase, amounts.phases(scaled))),
        pod_level=numbers(stanza.requests),
        overhead=numbers(parse_quantities(spec.overhead)),
    )


def numbers(amounts: ResourceQuantities) -> Mapping[str, int]:
    """Return millicores and bytes, rounded up; 0 for a missing resource."""
    return {resource: number(resource, amounts.get(resource)) for resource in RESOURCES}


def number(resource: str, amount: Quantity | None) -> int:
    """Return an amount in millicores or bytes, rounded up; 0 for a missing one."""
    if amount is None:
        return 0
    return amount.milli if resource == CPU else amount.value


def _phase(phase: Phase) -> _Phase:
    present = {name: numbers(each.requests) for name, each in phase.scaled.items()}
    return _Phase(numbers(phase.fixed.requests), present)


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


def as_numbers(targets: Iterable[tuple[str, ResourceQuantities]]) -> Targets:
    """Return targets, or minimums, as numbers by container."""
    return {
        name: {each: number(each, amounts[each]) for each in RESOURCES if each in amounts}
        for name, amounts in targets
    }

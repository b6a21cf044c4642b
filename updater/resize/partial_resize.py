"""The largest step of a resize that a node can hold now (X102, X138)."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from common.api.core import Pod
from common.quantity import ZERO, Quantity
from common.recommendation.container_resources import WantedResources
from common.recommendation.pod_amounts import pod_amounts
from common.recommendation.processing import ContainerAmounts
from common.recommendation.scaled_containers import scaled_specs
from common.resources import (
    CPU,
    MEMORY,
    RESOURCES,
    ResourceQuantities,
    cpu_quantity,
    in_order,
    memory_quantity,
    parse_quantities,
)
from updater.resize.infeasible_resize import Targets
from updater.resize.pending_resize import Wanted, as_granted, granted_resources, is_consistent
from updater.resize.resize_plan import ResizePlan, plan_resize
from updater.snapshot.live_node import NodeCapacity

_NO_CHANGE = WantedResources()
_NOTHING: ResourceQuantities = {}
_MIB = 1 << 20
_UNITS = {CPU: 1, MEMORY: _MIB}  # of a step: a millicore, a MiB
_LEAST_PART = 10  # a step is at least a tenth of what is missing

Requests: TypeAlias = dict[str, dict[str, Quantity]]
"""Requests by container, then by resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRules:
    """The smallest step, and the amounts below which a policy allows no request."""

    min_change: float  # relative to the present request: 0.1 is ten percent
    min_allowed: Targets


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialResize:
    """The resize to send, and the remaining requests, which are infeasible now."""

    plan: ResizePlan
    rest: Targets
    requests: Targets  # after the resize

    @property
    def detail(self) -> str:
        """Return step and rest with numbers, as part of a sentence."""
        return describe_rest(self.rest, self.requests)


def describe_rest(rest: Targets, requests: Targets) -> str:
    """Return what containers have, or get now, of the amounts that they need."""
    return "; ".join(
        f"container {name}: {', '.join(texts)}"
        for name, amounts in rest.items()
        if (texts := _missing(amounts, requests.get(name, _NOTHING)))
    )


def _missing(rest: ResourceQuantities, requests: ResourceQuantities) -> list[str]:
    found = []
    for name in in_order(rest):
        has, wants = requests.get(name, ZERO), rest[name]
        if wants > has:
            more = wants - has
            found.append(f"{name} {has} of {wants} now, {more} more when the node has room")
    return found


def plan_part(
    pod: Pod,
    wanted: Wanted,
    chosen: Collection[str],
    *,
    containers: Mapping[str, ContainerAmounts],
    capacity: NodeCapacity | None,
    rules: StepRules,
) -> PartialResize | None:
    """Plan the largest step that fits into the ``capacity`` for the pod; None: there is none.

    All decreases are in it. For each resource the increasing containers share the room equally, in
    whole millicores and MiB. None gets more than its target, nor an amount below the
    ``min_allowed`` of its policy. A step of a resource is left out if it is less than a tenth of
    what is missing, or than ``min_change`` of the present requests, so that a pod isn't resized in
    each pass. Without a known ``capacity`` no increase fits. A limit changes with its request, by
    the same part of the way.

    There is no step if nothing or everything fits, if no resource that has a rest grows and each
    other request changes by less than ``min_change``, if the spec already has it, or if a request
    would exceed its limit. The kubelet judges a pod with pod-level requests by those, so it has no
    step.

    Source: AEP-4016, future work; arithmetic of the API server, kubernetes-resize.md 2.
    """
    if pod.spec.resources is not None and pod.spec.resources.requests:
        return None
    granted = granted_resources(pod)
    requests: Requests = {name: dict(each.requests) for name, each in granted.items()}
    lacking = _lower(pod, requests, wanted, chosen)
    node = _Node(pod, capacity, rules)
    if not all(node.fits(requests, name) for name in RESOURCES):
        return None
    rest: dict[str, dict[str, Quantity]] = {}
    for name, targets in lacking.items():
        for each, amount in node.grow(requests, name, targets).items():
            requests[each][name] = amount
        for each, target in targets.items():
            if name not in requests[each]:
                return None  # a resize can't remove a request
            if requests[each][name] < target:
                rest.setdefault(each, {})[name] = target
    if not rest:
        return None
    sized = tuple(
        _with_rest(
            want,
            rest.get(container.name, _NOTHING),
            as_granted(container, granted[container.name]),
            requests[container.name],
        )
        if container.name in chosen
        else _NO_CHANGE
        for container, want in zip(scaled_specs(pod), wanted, strict=True)
    )
    plan = plan_resize(pod, sized, chosen, containers=containers)
    lacked = {name for amounts in rest.values() for name in amounts}
    helps = any(
        _helps(each.requests.get(name, ZERO), amount, lacked=name in lacked, least=rules.min_change)
        for container_name, each in granted.items()
        for name, amount in requests[container_name].items()
    )
    if not helps or not plan.changes or not is_consistent(pod, sized):
        return None
    return PartialResize(plan=plan, rest=rest, requests=requests)


def _helps(before: Quantity, after: Quantity, *, lacked: bool, least: float) -> bool:
    """Return whether a change is worth a step; growth of a lacking resource was judged before."""
    change = after.milli - before.milli
    return change != 0 and ((lacked and change > 0) or abs(change) >= least * before.milli)


def _lower(
    pod: Pod, requests: Requests, wanted: Wanted, chosen: Collection[str]
) -> dict[str, dict[str, Quantity]]:
    """Lower the requests, and return the targets of those that increase, by resource."""
    lacking: dict[str, dict[str, Quantity]] = {name: {} for name in RESOURCES}
    for container, want in zip(scaled_specs(pod), wanted, strict=True):
        has = requests[container.name]
        for name, amount in want.requests.items() if container.name in chosen else ():
            if name in RESOURCES and amount > has.get(name, ZERO):
                lacking[name][container.name] = amount
            else:
                has[name] = amount
    return lacking


def total_request(pod: Pod, requests: Mapping[str, ResourceQuantities], resource: str) -> Quantity:
    """Return the request of the whole pod, with overhead, for these requests of its containers.

    Source: kubernetes-resize.md 2; ``PodRequests``, k8s.io/component-helpers/resource.
    """
    changed = {name: WantedResources(requests=each) for name, each in requests.items()}
    total = pod_amounts(pod.spec, changed=changed).inside.requests.get(resource, ZERO)
    return total + parse_quantities(pod.spec.overhead).get(resource, ZERO)


def share(lacks: Mapping[str, int], room: int) -> dict[str, int]:
    """Divide the room equally; no one gets more than it lacks.

    What one doesn't need goes to the others, so a container that lacks little gets all of it beside
    one that no node could hold.
    """
    found, left = {}, max(room, 0)
    order = sorted(lacks, key=lacks.__getitem__)
    for number, name in enumerate(order):
        found[name] = min(lacks[name], left // (len(order) - number))
        left -= found[name]
    return found


@dataclass(frozen=True, slots=True)
class _Node:
    """The node of a pod, with the most that the pod can request there."""

    pod: Pod
    capacity: NodeCapacity | None  # None: unknown
    rules: StepRules

    def fits(self, requests: Mapping[str, ResourceQuantities], resource: str) -> bool:
        """Return whether the pod fits; True if the node doesn't report the resource."""
        if self.capacity is None or resource not in self.capacity.allocatable:
            return True
        return total_request(self.pod, requests, resource) <= self.capacity.allocatable[resource]

    def grow(
        self, requests: Requests, resource: str, targets: ResourceQuantities
    ) -> ResourceQuantities:
        """Return the requests of the containers that grow by the largest step of a resource."""
        if not targets or self.capacity is None:
            return {}
        present = {name: requests[name].get(resource, ZERO) for name in targets}
        lacks = {
            name: _units(resource, target) - _units(resource, present[name])
            for name, target in targets.items()
        }

        def after(room: int) -> ResourceQuantities:
            shares = share(lacks, room)
            return {
                name: target
                if shares[name] == lacks[name]
                else _step(resource, present[name], shares[name])
                for name, target in targets.items()
            }

        def fits(room: int) -> bool:
            sizes = {name: {**each} for name, each in requests.items()}
            for name, amount in after(room).items():
                sizes[name][resource] = amount
            return self.fits(sizes, resource)

        lack = sum(lacks.values())
        if fits(lack):
            return targets
        bound = self.capacity.allocatable[resource]
        total = total_request(self.pod, requests, resource)
        free = _units(resource, bound) - _units(resource, total)
        room = _largest(free, lack, _UNITS[resource] * len(targets), fits)
        return self._worthwhile(resource, after(room), present, targets)

    def _worthwhile(
        self,
        resource: str,
        after: ResourceQuantities,
        present: ResourceQuantities,
        targets: ResourceQuantities,
    ) -> ResourceQuantities:
        """Return the step without amounts that the policy forbids; empty if it is too small."""
        allowed = self.rules.min_allowed
        grown = {
            name: amount
            for name, amount in after.items()
            if amount > present[name]
            and (
                amount >= allowed.get(name, _NOTHING).get(resource, ZERO) or amount == targets[name]
            )
        }
        has = sum(_units(resource, amount) for amount in present.values())
        lack = sum(_units(resource, amount) for amount in targets.values()) - has
        more = sum(
            _units(resource, amount) - _units(resource, present[name])
            for name, amount in grown.items()
        )
        too_small = more * _LEAST_PART < lack or more < self.rules.min_change * has
        return {} if too_small else grown


def _largest(free: int, lack: int, slack: int, fits: Callable[[int], bool]) -> int:
    """Return the largest room, but for ``slack``, that fits; ``lack`` doesn't.

    It is ``free`` unless init containers request more than the containers: these may then grow
    beyond it.
    """
    low, high = min(max(free, 0), lack), lack
    if not fits(low):
        return 0
    if not fits(min(low + slack + 1, high)):
        return low
    while high - low > slack:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def _units(resource: str, amount: Quantity) -> int:
    """Return whole millicores or bytes, rounded up."""
    return amount.milli if resource == CPU else amount.value


def _step(resource: str, present: Quantity, more: int) -> Quantity:
    """Return the amount after a step, in whole millicores or MiB; never less than now."""
    if resource == CPU:
        return max(present, cpu_quantity(present.milli + more))
    return max(present, memory_quantity((present.value + more) // _MIB * _MIB))


def _with_rest(
    want: WantedResources,
    rest: ResourceQuantities,
    granted: WantedResources,
    requests: ResourceQuantities,
) -> WantedResources:
    """Return the wanted resources, but for resources of the rest only the step."""
    if not rest:
        return want
    stepped = {name: requests[name] for name in rest}
    limits = {name: each for name, each in want.limits.items() if name not in rest}
    for name in rest:
        limit = _limit_of_step(name, want, granted, requests[name])
        if limit is not None:
            limits[name] = limit
    return WantedResources(requests={**want.requests, **stepped}, limits=limits, notes=want.notes)


def _limit_of_step(
    resource: str, want: WantedResources, granted: WantedResources, amount: Quantity
) -> Quantity | None:
    """Return the limit that goes as much of the way as the request; None: it has none."""
    has, target = granted.requests.get(resource, ZERO), want.requests[resource]
    before, after = granted.limits.get(resource), want.limits.get(resource)
    if amount == has or after is None:
        return before
    start = _units(resource, ZERO if before is None else before)
    step, way = (_units(resource, each) - _units(resource, has) for each in (amount, target))
    found = start + (_units(resource, after) - start) * step // way
    if resource == CPU:
        return max(cpu_quantity(found), amount)
    return max(memory_quantity(found // _MIB * _MIB), amount)

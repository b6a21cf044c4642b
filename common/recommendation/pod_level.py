"""Pod-level resources: what ``spec.resources`` of a pod leaves to its containers.

The API server refuses a pod whose containers request more than the pod as a whole, or one of whose
containers has a higher limit than the pod. So what is recommended is fitted into the pod's own
numbers (``keep``), or those move along with their containers (``follow``).

Source: KEP-2837, KEP-5419; ``validatePodResources``, k8s.io/kubernetes pkg/apis/core/validation;
``setDefaultPodRequests``, pkg/apis/core/v1/defaults.go. The rules A25 to A27 are ours.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from common.api.core import LimitRangeSpec, Pod
from common.quantity import ZERO, Quantity
from common.recommendation.limit_range import EffectiveLimits, LimitType, effective_limits
from common.recommendation.limit_scaling import proportional_limit, scale_proportionally
from common.recommendation.request_sums import ByContainer, RequestSums, as_stored, own_requests
from common.recommendation.scaled_containers import scaled_specs
from common.resources import CPU, MEMORY, RESOURCES, ResourceQuantities, parse_quantities

POD_LEVEL_PATH = "/spec/resources"  # JSON pointer

_UNIT = {CPU: Quantity.from_milli(1), MEMORY: Quantity.from_value(1)}


class Resources(Protocol):
    """Requests and limits that something gets."""

    @property
    def requests(self) -> ResourceQuantities: ...

    @property
    def limits(self) -> ResourceQuantities: ...


class PodLevelMode(enum.StrEnum):
    """What ``--pod-level-resources`` says about ``spec.resources`` of a pod."""

    KEEP = "keep"  # containers are fitted into it
    FOLLOW = "follow"  # it moves along with its containers

    @classmethod
    def parse(cls, text: str) -> "PodLevelMode":
        """Read the flag's value.

        Raises:
            ValueError: it is neither of the two.
        """
        for mode in cls:
            if text == mode:
                return mode
        raise ValueError(f"neither {cls.KEEP} nor {cls.FOLLOW}: {text!r}")


class Unfit(enum.StrEnum):
    """Why a recommendation can't be applied to a pod at all."""

    POD_LEVEL = "pod_level_resources_exhausted"

    @property
    def meaning(self) -> str:
        return (
            "the pod's own spec.resources leave no room for what is recommended, because other "
            "containers take all of it"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLevelResources:
    """What to set in ``spec.resources`` of a pod; a resource that isn't named stays as it is."""

    requests: ResourceQuantities = field(default_factory=dict)
    limits: ResourceQuantities = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.requests or self.limits)


UNCHANGED = PodLevelResources()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLevelBounds:
    """What a pod with ``spec.resources`` leaves to its containers; a missing resource is unbounded.

    ``fixed_requests`` and ``fixed_limits`` name resources whose pod-level value stays or is bounded
    elsewhere, so that a LimitRange of type Pod need not look at the sum over the containers.
    """

    room: ResourceQuantities  # for the requests of all containers together
    limits: ResourceQuantities  # for the limit of each container
    fixed_requests: frozenset[str]
    fixed_limits: frozenset[str]
    moving: frozenset[str]  # resources whose pod-level values move along with the containers
    mode: PodLevelMode
    present: ByContainer  # requests of the scaled containers
    sidecars: ResourceQuantities  # requests of native sidecars that aren't scaled, together
    starting: ResourceQuantities  # requests of the init containers while they run
    least: ResourceQuantities  # that a LimitRange asks of a container's request
    pod_limits: EffectiveLimits | None  # of the LimitRanges of type Pod

    def fit(self, values: ByContainer) -> dict[str, ResourceQuantities] | None:
        """Fit requests, by container, into the room; None if nothing fits.

        A container without a value keeps its own; the others share the rest in proportion, rounded
        down. None gets less than one unit, nor less than a LimitRange asks of it.
        """
        fitted = dict(values)
        for resource, room in self.room.items():
            wanted = {name: each[resource] for name, each in values.items() if resource in each}
            if not wanted or any(value.sign < 0 for value in wanted.values()):
                continue
            left = room - self.sidecars.get(resource, ZERO)
            for name, requests in self.present.items():
                if name not in wanted:
                    left -= requests.get(resource, ZERO)
            shares = _shared(resource, wanted, self.least.get(resource, ZERO), left)
            if shares is None:
                return None
            for name, share in shares.items():
                fitted[name] = {**fitted[name], resource: share}
        return fitted

    def least_together(self, resource: str, least: Quantity) -> Quantity:
        """Return what a minimum for the pod leaves for the scaled containers to request."""
        if resource in self.fixed_requests or self.starting.get(resource, ZERO) >= least:
            return ZERO
        return max(least - self.sidecars.get(resource, ZERO), ZERO)

    def cut(self, limits: ResourceQuantities) -> dict[str, Quantity]:
        """Return those of a container's limits that the pod-level limit lowers, lowered."""
        return {
            name: self.limits[name]
            for name, limit in limits.items()
            if name in self.limits and limit > self.limits[name]
        }

    def room_beside(self, resource: str, requests: ByContainer) -> Quantity | None:
        """Return what these requests of all scaled containers leave of the room; None: no bound."""
        if resource not in self.room:
            return None
        left = self.room[resource] - self.sidecars.get(resource, ZERO)
        for name, present in self.present.items():
            asked = {**present, **requests.get(name, {})}
            left -= as_stored(asked.get(resource, ZERO))
        return left

    def after(self, pod: Pod, changed: Mapping[str, Resources]) -> PodLevelResources:
        """Return what ``spec.resources`` becomes once containers have changed, by name.

        Containers and resources that aren't named keep what the pod says. With ``keep`` only a
        pod-level request that the API server filled in moves, because it is the sum of those of the
        containers. With ``follow`` a request moves in the proportion in which that sum does, its
        limit in proportion to the request, both within the LimitRanges of type Pod and large enough
        for the containers.
        """
        whole = pod.spec.resources
        if not self.moving or whole is None:
            return UNCHANGED
        requests = {name: each.requests for name, each in changed.items()}
        limits = {name: each.limits for name, each in changed.items()}
        stated_requests = parse_quantities(whole.requests)
        stated_limits = parse_quantities(whole.limits)
        before, then = RequestSums.of(pod, {}), RequestSums.of(pod, requests)
        most = _largest(pod, limits)
        touched = {name for each in (*requests.values(), *limits.values()) for name in each}
        new_requests: dict[str, Quantity] = {}
        new_limits: dict[str, Quantity] = {}
        for resource in self.moving & touched:
            request, limit = stated_requests.get(resource), stated_limits.get(resource)
            wanted: tuple[Quantity | None, Quantity | None] = then.aggregate.get(resource), None
            if self.mode is PodLevelMode.KEEP and resource in self.fixed_requests:
                wanted = limit, None
            if self.mode is PodLevelMode.FOLLOW:
                wanted = _followed(
                    resource,
                    request if request is not None else before.running.get(resource) or limit,
                    limit,
                    before=before,
                    then=then,
                    most=most.get(resource, ZERO),
                    bounds=self.pod_limits,
                )
            if wanted[0] is not None and wanted[0] != request:
                new_requests[resource] = wanted[0]
            if wanted[1] is not None and wanted[1] != limit:
                new_limits[resource] = wanted[1]
        if not new_requests and not new_limits:
            return UNCHANGED
        return PodLevelResources(requests=new_requests, limits=new_limits)


def pod_level_bounds(
    pod: Pod, mode: PodLevelMode, limit_ranges: Sequence[LimitRangeSpec]
) -> PodLevelBounds | None:
    """Return the bounds of a pod's own resources; None if it has none.

    With ``keep`` the room is the pod-level request. But one that equals the aggregate request of
    the containers, beside a limit, was filled in by the API server: then the room is the limit
    (A25). The user's own request is never used up to the last unit beside a limit, or the next look
    at the pod would take it for such a one. With ``follow`` the room is the maximum of the
    LimitRanges of type Pod (A26).

    Raises:
        QuantityError: a quantity of the pod or of a LimitRange is none.
    """
    stated = pod.spec.resources
    if stated is None or not (stated.requests or stated.limits):
        return None
    requests, limits = parse_quantities(stated.requests), parse_quantities(stated.limits)
    pod_limits = effective_limits(limit_ranges, LimitType.POD)
    own = effective_limits(limit_ranges, LimitType.CONTAINER)
    highest = pod_limits.max if pod_limits is not None else {}
    lowest = pod_limits.min if pod_limits is not None else {}
    sums = RequestSums.of(pod, {})
    room: dict[str, Quantity] = {}
    cuts: dict[str, Quantity] = {}
    moving: set[str] = set()
    for resource in RESOURCES:
        request, limit = requests.get(resource), limits.get(resource)
        if request is None and limit is None:
            continue
        if mode is PodLevelMode.FOLLOW:
            moving.add(resource)
            if not highest.get(resource, ZERO).is_zero:
                room[resource] = highest[resource]
                if limit is not None:
                    cuts[resource] = highest[resource]
            continue
        if limit is not None:
            cuts[resource] = limit
        if request is not None and limit in (None, request):
            room[resource] = request
        elif limit is not None and request in (None, sums.aggregate.get(resource)):
            room[resource] = limit
            if request is not None:
                moving.add(resource)
        elif request is not None:
            room[resource] = request - _UNIT[resource]
    follows = mode is PodLevelMode.FOLLOW
    # With ``follow`` they take care of minimums themselves; so does one that has to be the limit.
    fixed = {each for each in moving if follows or lowest.get(each, ZERO) >= limits[each]}
    return PodLevelBounds(
        room=room,
        limits=cuts,
        fixed_requests=frozenset(requests.keys() - moving | fixed),
        fixed_limits=frozenset(limits),
        moving=frozenset(moving),
        mode=mode,
        present={each.name: own_requests(each) for each in scaled_specs(pod)},
        sidecars=sums.sidecars,
        starting=sums.starting,
        least=own.min if own is not None else {},
        pod_limits=pod_limits,
    )


def default_pod_level_requests(before: Pod, after: Pod) -> dict[str, Quantity]:
    """Return the requests that the API server would have filled in for other containers.

    ``before`` is a pod that says what they are: those that equal its containers' aggregate, beside
    a limit. ``after`` is the same pod with other numbers of its containers.

    Raises:
        QuantityError: a quantity of the pod is none.
    """
    whole = before.spec.resources
    if whole is None or not whole.limits:
        return {}
    requests, limits = parse_quantities(whole.requests), parse_quantities(whole.limits)
    had, has = RequestSums.of(before, {}).aggregate, RequestSums.of(after, {}).aggregate
    return {
        name: has[name]
        for name in RESOURCES
        if name in requests
        and name in limits
        and name in has
        and requests[name] != limits[name]
        and requests[name] == had.get(name)
    }


def _largest(pod: Pod, changed: ByContainer) -> dict[str, Quantity]:
    """The largest limit of a container, by resource."""
    largest: dict[str, Quantity] = {}
    for container in pod.spec.containers:
        present = container.resources.limits if container.resources is not None else None
        limits = {**parse_quantities(present), **changed.get(container.name, {})}
        for name, limit in limits.items():
            largest[name] = max(as_stored(limit), largest.get(name, ZERO))
    return largest


def _followed(
    resource: str,
    request: Quantity | None,
    limit: Quantity | None,
    *,
    before: RequestSums,
    then: RequestSums,
    most: Quantity,
    bounds: EffectiveLimits | None,
) -> tuple[Quantity | None, Quantity | None]:
    """Pod-level request and limit that follow the sum of the containers' requests (A26)."""
    old, new = before.running.get(resource, ZERO), then.running.get(resource, ZERO)
    if request is None or new == old:
        moved = request
    elif old.is_zero:
        moved = new
    else:
        moved = scale_proportionally(resource, request, base=old, result=new).quantity
    if moved is None:
        return None, None
    low = bounds.min.get(resource, ZERO) if bounds is not None else ZERO
    high = bounds.max.get(resource, ZERO) if bounds is not None else ZERO
    moved = max(moved, low)
    if not high.is_zero:
        moved = min(moved, high)
    moved = max(moved, then.aggregate.get(resource, ZERO))
    if limit is None:
        return moved, None
    scaled = proportional_limit(resource, moved, limit=limit, request=request, default=None)
    ceiling = max(scaled.quantity or limit, low)
    if not high.is_zero:
        ceiling = min(ceiling, high)
    ceiling = max(ceiling, moved, most)
    return (ceiling if request == limit else moved), ceiling


def _shared(
    resource: str, wanted: Mapping[str, Quantity], least: Quantity, room: Quantity
) -> dict[str, Quantity] | None:
    """Share out the room in proportion to what is wanted; None if it is too small for that."""
    if sum((as_stored(value) for value in wanted.values()), start=ZERO) <= room:
        return {}
    unit = _UNIT[resource].nanos
    amounts = {name: -(-value.nanos // unit) for name, value in wanted.items()}
    lowest = max(-(-least.nanos // unit), 1)
    floors = {name: min(amount, lowest) for name, amount in amounts.items()}
    left, free = room.nanos // unit, dict(amounts)
    if sum(floors.values()) > left:
        return None
    shares: dict[str, int] = {}
    while free:
        total = sum(free.values())
        found = {name: amount * left // total for name, amount in free.items()} if total else free
        low = [name for name, share in found.items() if share < floors[name]]
        if not low:
            shares.update(found)
            break
        for name in low:
            shares[name] = floors[name]
            left -= floors[name]
            del free[name]
    return {
        name: Quantity(share * unit, wanted[name].format)
        for name, share in shares.items()
        if share * unit != wanted[name].nanos
    }

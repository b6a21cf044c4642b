"""Pod-level resources (``spec.resources``): the bounds that they set for containers, and changes.

The API server refuses a pod whose containers together request more than the pod-level request, or
with a container limit above the pod-level limit. Either recommendations are fitted into the
pod-level resources (``keep``), or these change with the containers (``follow``).

Source: KEP-2837, KEP-5419; ``validatePodResources``, k8s.io/kubernetes pkg/apis/core/validation;
``setDefaultPodRequests``, pkg/apis/core/v1/defaults.go. The rules A25 to A27 are ours.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

from common.api.core import LimitRangeSpec, Pod
from common.quantity import ZERO, Quantity
from common.recommendation.limit_range import EffectiveLimits, LimitType, effective_limits
from common.recommendation.limit_scaling import proportional_limit, scale_proportionally
from common.recommendation.pod_amounts import (
    Phase,
    PodAmounts,
    Resources,
    as_stored,
    phases_of,
    pod_amounts,
)
from common.recommendation.scaled_containers import scaled_specs
from common.resources import RESOURCES, ResourceQuantities, one_unit, parse_quantities

POD_LEVEL_PATH = "/spec/resources"  # JSON pointer

ByContainer = Mapping[str, ResourceQuantities]


class PodLevelMode(enum.StrEnum):
    """The values of ``--pod-level-resources``."""

    KEEP = "keep"  # containers are fitted into ``spec.resources``
    FOLLOW = "follow"  # ``spec.resources`` changes with the containers


@dataclass(frozen=True, slots=True)
class Unfit:
    """The reason why no part of a recommendation can be applied to a pod."""

    resources: tuple[str, ...]  # recommended, but without room

    reason: ClassVar[str] = "pod_level_resources_exhausted"

    @property
    def meaning(self) -> str:
        return (
            f"the pod's own spec.resources leave no room for the recommended "
            f"{' and '.join(self.resources)}: other containers or a minimum take all of it"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLevelResources:
    """Resources to set in ``spec.resources`` of a pod; other resources stay unchanged."""

    requests: ResourceQuantities = field(default_factory=dict)
    limits: ResourceQuantities = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.requests or self.limits)


UNCHANGED = PodLevelResources()


@dataclass(frozen=True, slots=True)
class Fitted:
    """Requests that fit into pod-level resources, by container.

    ``exhausted`` are the resources for which nothing fits; ``requests`` doesn't contain them.
    """

    requests: Mapping[str, ResourceQuantities]
    exhausted: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLevelBounds:
    """Bounds of pod-level resources on the containers; a missing resource is unbounded.

    ``fixed_requests`` and ``fixed_limits`` are resources whose pod-level value stays or is bounded
    elsewhere, so a LimitRange of type Pod doesn't bound the sum over the containers.
    """

    room: ResourceQuantities  # for the requests of all containers together
    limits: ResourceQuantities  # for the limit of each container
    fixed_requests: frozenset[str]
    fixed_limits: frozenset[str]
    moving: frozenset[str]  # resources whose pod-level values change with the containers
    mode: PodLevelMode
    phases: tuple[Phase, ...]
    least: ResourceQuantities  # of a container's request, by LimitRanges of type Container
    pod_limits: EffectiveLimits | None  # of the LimitRanges of type Pod

    @property
    def sums(self) -> frozenset[str]:
        """Return the resources whose pod-level request is set to the sum over the containers."""
        return self.moving - self.fixed_requests

    def fit(self, values: ByContainer, *, beside: ByContainer = MappingProxyType({})) -> Fitted:
        """Fit requests, by container, into the room.

        A container without a value keeps its request, or has the one in ``beside``. The others
        share the rest in proportion, rounded down. No share is smaller than one unit, or than the
        minimum of a LimitRange.
        """
        fitted = {name: dict(requests) for name, requests in values.items()}
        exhausted: set[str] = set()
        for resource in self.room:
            wanted = {name: each[resource] for name, each in values.items() if resource in each}
            if not wanted or any(value.sign < 0 for value in wanted.values()):
                continue
            others = {name: each[resource] for name, each in beside.items() if resource in each}
            shares = self._shares(resource, wanted, others)
            if shares is None:
                exhausted.add(resource)
            for name in wanted:
                if shares is None:
                    del fitted[name][resource]
                else:
                    fitted[name][resource] = shares[name]
        return Fitted(fitted, frozenset(exhausted))

    def _shares(
        self, resource: str, wanted: Mapping[str, Quantity], others: Mapping[str, Quantity]
    ) -> Mapping[str, Quantity] | None:
        """Fit one resource phase by phase; None if nothing fits.

        Return None, too, if the sum can't reach the minimum of a LimitRange of type Pod.
        """
        shares, nothing = {**others, **wanted}, {**others, **dict.fromkeys(wanted, ZERO)}
        for phase in self.phases:
            those = {name: shares[name] for name in wanted if name in phase.scaled}
            if not those:
                continue
            left = self.room[resource] - phase.requested(resource, nothing)
            found = _shared(resource, those, self.least.get(resource, ZERO), left)
            if found is None:
                return None
            shares.update(found)
        if resource in self.sums and self.pod_limits is not None:
            most = max(phase.requested(resource, shares) for phase in self.phases)
            return None if most < self.pod_limits.min.get(resource, ZERO) else shares
        return shares

    def room_for(self, name: str, resource: str, requests: ByContainer) -> Quantity | None:
        """Return the room for a container beside these requests of others; None if unbounded."""
        if resource not in self.room:
            return None
        asked = {each: own[resource] for each, own in requests.items() if resource in own}
        asked[name] = ZERO
        return min(
            self.room[resource] - phase.requested(resource, asked)
            for phase in self.phases
            if name in phase.scaled
        )

    def cut(self, limits: ResourceQuantities) -> dict[str, Quantity]:
        """Return the pod-level limits that are below a container's ``limits``."""
        return {
            name: self.limits[name]
            for name, limit in limits.items()
            if name in self.limits and limit > self.limits[name]
        }

    def after(self, pod: Pod, changed: Mapping[str, Resources]) -> PodLevelResources:
        """Return the changes of ``spec.resources`` after ``changed`` containers, by name.

        With ``keep``, only change a pod-level request that the API server set: it is the sum over
        the containers. With ``follow``, change a request in proportion to that sum, and its limit
        in proportion to the request. Both stay within the LimitRanges of type Pod, and are large
        enough for the containers.
        """
        whole = pod.spec.resources
        if not self.moving or whole is None:
            return UNCHANGED
        stated_requests = parse_quantities(whole.requests)
        stated_limits = parse_quantities(whole.limits)
        before, after = pod_amounts(pod.spec), pod_amounts(pod.spec, changed=changed)
        sums = after.inside.requests
        touched = {name for each in changed.values() for name in (*each.requests, *each.limits)}
        new_requests: dict[str, Quantity] = {}
        new_limits: dict[str, Quantity] = {}
        for resource in self.moving & touched:
            request, limit = stated_requests.get(resource), stated_limits.get(resource)
            wanted: tuple[Quantity | None, Quantity | None] = sums.get(resource), None
            if self.mode is PodLevelMode.KEEP and resource in self.fixed_requests:
                wanted = limit, None
            if self.mode is PodLevelMode.FOLLOW:
                wanted = _followed(
                    resource,
                    request,
                    limit,
                    before=before,
                    after=after,
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
    pod: Pod,
    mode: PodLevelMode,
    limit_ranges: Sequence[LimitRangeSpec],
    *,
    bare: Pod | None = None,
) -> PodLevelBounds | None:
    """Return the bounds of pod-level resources; None if the pod has none.

    With ``keep`` the room is the pod-level request, or the limit if the API server set the request
    (A25). Beside a limit, one unit of a request set by the user stays unused, so that the request
    is never equal to the sum over the containers (see ``filled_in``). With ``follow`` the room is
    the maximum of the LimitRanges of type Pod (A26). ``bare`` is the pod before its start-up
    boosts; its containers share the room.

    Raises:
        QuantityError: a quantity of the pod or of a LimitRange is malformed.
    """
    stated = pod.spec.resources
    if stated is None or not (stated.requests or stated.limits):
        return None
    requests, limits = parse_quantities(stated.requests), parse_quantities(stated.limits)
    pod_limits = effective_limits(limit_ranges, LimitType.POD)
    own = effective_limits(limit_ranges, LimitType.CONTAINER)
    highest = pod_limits.max if pod_limits is not None else {}
    lowest = pod_limits.min if pod_limits is not None else {}
    filled = filled_in(pod)
    room: dict[str, Quantity] = {}
    cuts: dict[str, Quantity] = {}
    moving: set[str] = set()
    for resource in RESOURCES:
        request, limit = requests.get(resource), limits.get(resource)
        # Beside any limit the API server sets the sum of the container requests.
        if request is None and limit is None and not (limits and mode is PodLevelMode.FOLLOW):
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
        elif limit is not None and (request is None or resource in filled):
            room[resource] = limit
            if request is not None:
                moving.add(resource)
        elif request is not None:
            room[resource] = request - one_unit(resource)
    follows = mode is PodLevelMode.FOLLOW
    # With ``follow`` they are raised to a minimum themselves. With ``keep`` a request whose
    # minimum is not below the limit becomes the limit.
    fixed = {each for each in moving if follows or lowest.get(each, ZERO) >= limits[each]}
    return PodLevelBounds(
        room=room,
        limits=cuts,
        fixed_requests=frozenset(requests.keys() - moving | fixed),
        fixed_limits=frozenset(limits),
        moving=frozenset(moving),
        mode=mode,
        phases=phases_of((bare or pod).spec),
        least=own.min if own is not None else {},
        pod_limits=pod_limits,
    )


def filled_in(pod: Pod) -> frozenset[str]:
    """Return the resources whose pod-level request the API server set.

    This is a request that equals the sum over the containers and differs from the limit. A request
    that equals the sum over init containers counts, too: once the other containers have been fitted
    below it, the two can't be distinguished.

    Raises:
        QuantityError: a quantity of the pod is malformed.
    """
    whole = pod.spec.resources
    if whole is None or not whole.limits:
        return frozenset()
    requests, limits = parse_quantities(whole.requests), parse_quantities(whole.limits)
    amounts = pod_amounts(pod.spec)
    inside = amounts.inside.requests
    scaled = {each.name for each in scaled_specs(pod.spec)}
    unscaled = [phase.fixed.requests for phase in amounts.phases(scaled)]
    return frozenset(
        name
        for name in RESOURCES
        if name in requests and name in limits and requests[name] != limits[name]
        if requests[name] in (inside.get(name), *(each.get(name) for each in unscaled))
    )


def _followed(
    resource: str,
    request: Quantity | None,
    limit: Quantity | None,
    *,
    before: PodAmounts,
    after: PodAmounts,
    bounds: EffectiveLimits | None,
) -> tuple[Quantity | None, Quantity | None]:
    """Return the pod-level request and limit after a change of the containers' requests (A26)."""
    olds, news = before.running.requests, after.running.requests
    old, new = olds.get(resource, ZERO), news.get(resource, ZERO)
    if request is None:
        request = olds.get(resource, limit)
    if request is None:
        moved = news.get(resource)
    elif new == old:
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
    moved = max(moved, after.inside.requests.get(resource, ZERO))
    if limit is None:
        return moved, None
    scaled = proportional_limit(resource, moved, limit=limit, request=request, default=None)
    ceiling = max(scaled.quantity or limit, low)
    if not high.is_zero:
        ceiling = min(ceiling, high)
    most = max(each.limits.get(resource, ZERO) for each in after.containers)
    ceiling = max(ceiling, moved, most)
    return (ceiling if request == limit else moved), ceiling


def _shared(
    resource: str, wanted: Mapping[str, Quantity], least: Quantity, room: Quantity
) -> dict[str, Quantity] | None:
    """Return shares of the room in proportion to ``wanted``; None if it is too small.

    Amounts that aren't reduced are omitted.
    """
    if sum((as_stored(value) for value in wanted.values()), start=ZERO) <= room:
        return {}
    unit = one_unit(resource).nanos
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
        if share * unit < wanted[name].nanos
    }

"""LimitRanges of type Pod: they bound the recommendations of all containers of a pod together.

Source: admission.md 6.4; vertical-pod-autoscaler/pkg/utils/vpa/capping.go. The rules A13, A18 and
A28 to A30 are ours.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from common.quantity import ZERO, Quantity
from common.recommendation.actual_resources import ContainerResources
from common.recommendation.amounts import ContainerAmounts, with_amounts
from common.recommendation.limit_range import EffectiveLimits
from common.recommendation.limit_scaling import proportional_limit, scale_proportionally
from common.recommendation.pod_amounts import Phase
from common.recommendation.pod_level import PodLevelBounds
from common.resources import RESOURCES, ResourceQuantities, one_unit

_NOTHING: ResourceQuantities = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """One container's share of the sum over a pod, for one resource."""

    name: str
    request: Quantity  # recommended, else the present one
    limit: Quantity  # in proportion to ``request`` unless it is fixed; zero: none
    recommended: bool  # only recommended requests change
    limit_follows: bool  # the limit is scaled with the request, which isn't zero


def fit_to_pod_limits(
    recommendations: Sequence[ContainerAmounts],
    containers: Sequence[ContainerResources],
    limits: EffectiveLimits | None,
    phases: Sequence[Phase],
    pod_level: PodLevelBounds | None = None,
) -> tuple[tuple[ContainerAmounts, ...], bool]:
    """Scale the recommendations of a pod together until their sum fits the bounds for pods.

    A container without a recommendation for a resource keeps its request, and the others share the
    rest in proportion (A13, A28). A container with a fixed limit keeps its limit when limits are
    scaled (A18). The reference scales these containers too, so that requests drift from pass to
    pass; without them the results are the same. As in the API server, the sum in each of ``phases``
    must not exceed the maximum, and in one phase it must reach the minimum. Containers that aren't
    scaled count in their phases. A value of ``pod_level`` counts instead of the sum.

    The second value is True if containers without a recommendation leave nothing of a resource to
    the others (A29).
    """
    if limits is None:
        return tuple(recommendations), False
    fit = _Fit(containers, limits, phases, pod_level)
    targets = fit.fitted({each.name: each.target for each in recommendations})
    exhausted = fit.exhausted
    lowers = fit.fitted({each.name: each.lower_bound for each in recommendations})
    uppers = fit.fitted({each.name: each.upper_bound for each in recommendations})
    fitted = with_amounts(
        recommendations, targets=targets, lower_bounds=lowers, upper_bounds=uppers
    )
    return fitted, exhausted


def shrink_others(
    recommendations: Sequence[ContainerAmounts],
    containers: Sequence[ContainerResources],
    limits: EffectiveLimits | None,
    phases: Sequence[Phase],
    pod_level: PodLevelBounds | None = None,
) -> dict[str, dict[str, Quantity]]:
    """Return smaller requests for containers without a recommendation, by container (A29).

    If the limits of a resource exceed the maximum for the pod, all containers share the maximum in
    proportion, rounded down, as in the reference. No request becomes zero. The containers with a
    recommendation get the remainder of the rounding, so the result for the changed pod is the same.
    """
    if limits is None:
        return {}
    found: dict[str, dict[str, Quantity]] = {}
    fit = _Fit(containers, limits, phases, pod_level)
    values = {each.name: each.target for each in recommendations}
    for resource, phase in product(RESOURCES, phases):
        shares = fit.shares(resource, phase, values)
        fixed = _limited(share for share in shares if not share.limit_follows)
        limited, high = _limited(shares) - fixed, fit.limit_bounds(resource)[1] - fixed
        if high >= limited or high <= ZERO:
            continue
        for share in shares:
            if share.recommended or not share.limit_follows or share.limit.is_zero:
                continue
            scaled = scale_proportionally(resource, share.request, base=limited, result=high)
            quantity = scaled.quantity
            if quantity.is_zero:
                quantity = one_unit(resource)
            lower = found.setdefault(share.name, {})
            lower[resource] = min(quantity, lower.get(resource, quantity))
    return found


def with_requests(
    containers: Sequence[ContainerResources], requests: Mapping[str, ResourceQuantities]
) -> tuple[ContainerResources, ...]:
    """Return the containers with other requests, and limits in proportion."""
    return tuple(
        _with_requests(each, requests[each.name]) if each.name in requests else each
        for each in containers
    )


def _with_requests(
    container: ContainerResources, requests: ResourceQuantities
) -> ContainerResources:
    limits = dict(container.limits)
    for name, request in requests.items():
        scaled = proportional_limit(
            name,
            request,
            limit=limits.get(name),
            request=container.requests.get(name),
            default=None,
        )
        if scaled.quantity is not None:
            limits[name] = scaled.quantity
    return replace(container, requests={**container.requests, **requests}, limits=limits)


@dataclass(slots=True)
class _Fit:
    """The bounds for a pod, to which targets, lower bounds and upper bounds are fitted."""

    containers: Sequence[ContainerResources]
    limits: EffectiveLimits
    phases: Sequence[Phase]
    pod_level: PodLevelBounds | None
    exhausted: bool = field(default=False, init=False)

    def fitted(self, values: Mapping[str, ResourceQuantities]) -> dict[str, ResourceQuantities]:
        """Fit ``values``, which are by container name."""
        fitted = dict(values)
        if not any(values.values()):
            return fitted  # for example bounds with ``targets_only``
        *starting, running = self.phases
        for resource in RESOURCES:
            # After the last phase was raised, an earlier one may exceed the maximum.
            for phase in (*starting, running, *starting):
                for name, quantity in self._shared_out(resource, phase, fitted).items():
                    fitted[name] = {**fitted[name], resource: quantity}
        return fitted

    def shares(
        self, resource: str, phase: Phase, values: Mapping[str, ResourceQuantities]
    ) -> list[_Share]:
        """Return the shares of a phase: one for each scaled container, and one for all others."""
        scaled = [
            self._share(resource, container, values.get(container.name, _NOTHING))
            for container in self.containers
            if container.name in phase.scaled
        ]
        others = _Share(
            name="",
            request=phase.fixed.requests.get(resource, ZERO),
            limit=phase.fixed.limits.get(resource, ZERO),
            recommended=False,
            limit_follows=False,
        )
        return [*scaled, others]

    def limit_bounds(self, resource: str) -> tuple[Quantity, Quantity]:
        """Return the minimum and the maximum of the sum of limits; zero is no bound."""
        if self.pod_level is not None and resource in self.pod_level.fixed_limits:
            return ZERO, ZERO
        return self.limits.min.get(resource, ZERO), self.limits.max.get(resource, ZERO)

    def _least_requested(self, resource: str) -> Quantity:
        if self.pod_level is not None and resource in self.pod_level.fixed_requests:
            return ZERO
        return self.limits.min.get(resource, ZERO)

    def _share(
        self, resource: str, container: ContainerResources, recommended: ResourceQuantities
    ) -> _Share:
        values = recommended if resource in recommended else container.requests
        request = values.get(resource, ZERO)
        limit = container.limits.get(resource)
        if container.limits_follow and resource in recommended:
            limit = proportional_limit(
                resource,
                request,
                limit=limit,
                request=container.requests.get(resource),
                default=self.limits.default.get(resource),
            ).quantity
        return _Share(
            name=container.name,
            request=request,
            limit=limit or ZERO,
            recommended=resource in recommended,
            limit_follows=container.limits_follow and not request.is_zero,
        )

    def _shared_out(
        self, resource: str, phase: Phase, values: Mapping[str, ResourceQuantities]
    ) -> dict[str, Quantity]:
        """Return new requests by container; empty if the phase fits, or can't be made to fit.

        If the sum of requests is below the minimum, raise the requests to it. Otherwise scale them
        so that the limits meet the bound. A missing minimum or maximum is zero. Memory is always
        rounded down, as in the reference, so a sum can be some bytes below the minimum. Without
        limits nothing is raised. Only a sum that becomes the pod-level request always reaches the
        minimum (A25).
        """
        shares = self.shares(resource, phase, values)
        requested, limited = _requested(shares), _limited(shares)
        low, least = self._minimums(resource, phase, values)
        high = self.limit_bounds(resource)[1]
        is_sum = self.pod_level is not None and resource in self.pod_level.sums
        fits = low <= limited and least <= requested and (high.is_zero or high >= limited)
        if fits or (limited.is_zero and not is_sum):
            return {}
        raises = least > requested
        free = [share for share in shares if share.recommended and (raises or share.limit_follows)]
        if raises:
            kept = requested - _requested(free)
            total, goal = requested - kept, least - kept
        else:
            kept = limited - _limited(free)
            total, goal = limited - kept, (high if ZERO < high < limited else low) - kept
        if goal <= ZERO or total <= ZERO:
            self.exhausted = self.exhausted or (goal <= ZERO < total)
            return {}
        found = {
            share.name: scale_proportionally(
                resource,
                share.request,
                base=total,
                result=goal,
                round_up=raises,
            ).quantity
            for share in free
        }
        if raises and is_sum:
            missing = goal - _sum(found.values())
            found[free[0].name] += max(missing, ZERO)
        return found

    def _minimums(
        self, resource: str, phase: Phase, values: Mapping[str, ResourceQuantities]
    ) -> tuple[Quantity, Quantity]:
        """Return the minimums for the limits and the requests of a phase; zero is no bound.

        It is enough that one phase reaches them. The last one can always be raised, so only it is.
        """
        *starting, running = self.phases
        low, least = self.limit_bounds(resource)[0], self._least_requested(resource)
        if phase is not running:
            return ZERO, ZERO
        for each in starting:
            shares = self.shares(resource, each, values)
            low = low if _limited(shares) < low else ZERO
            least = least if _requested(shares) < least else ZERO
        return low, least


def _requested(shares: Iterable[_Share]) -> Quantity:
    return _sum(share.request for share in shares)


def _limited(shares: Iterable[_Share]) -> Quantity:
    return _sum(share.limit for share in shares)


def _sum(quantities: Iterable[Quantity]) -> Quantity:
    return sum(quantities, start=ZERO)

"""Recommendations fitted to one pod: LimitRanges, the container policy, the container's limit.

Target, lower bound and upper bound take the same steps. Notes describe the steps of the target.

Source: admission.md 6.3 and 6.4; vertical-pod-autoscaler/pkg/utils/vpa/capping.go.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from common.api.autoscaling import ContainerPolicy, ResourcePolicy
from common.api.base import QuantityJson
from common.api.core import LimitRangeSpec
from common.quantity import ZERO, Quantity
from common.recommendation.actual_resources import ContainerResources
from common.recommendation.amounts import ContainerAmounts
from common.recommendation.decision_trace import ResourceStep
from common.recommendation.limit_range import EffectiveLimits, LimitType, effective_limits
from common.recommendation.limit_scaling import boundary_request
from common.recommendation.pod_amounts import Phase
from common.recommendation.pod_level import PodLevelBounds
from common.recommendation.pod_limit_range import fit_to_pod_limits
from common.recommendation.policy import ControlledValues, container_policy, controlled_values
from common.resources import RESOURCES, ResourceQuantities, in_order, parse_quantities


@dataclass(frozen=True, slots=True)
class AppliedCaps:
    """The caps of one container that changed a number, in the order in which they apply."""

    target: Sequence[ResourceStep]
    lower_bound: Sequence[ResourceStep]
    upper_bound: Sequence[ResourceStep]


@dataclass(frozen=True, slots=True)
class Capped:
    """The capped recommendations of a pod's containers, in the order of the input.

    ``applied`` are by container name. ``together`` are the recommendations after the LimitRange
    for pods, before the caps of each container. ``exhausted`` is True if containers without a
    recommendation leave nothing of a resource to the others (A29).
    """

    recommendations: tuple[ContainerAmounts, ...]
    applied: Mapping[str, AppliedCaps]
    together: tuple[ContainerAmounts, ...]
    exhausted: bool = False

    @property
    def notes(self) -> dict[str, tuple[str, ...]]:
        """Return the caps of targets, by container, as in the annotation ``vpaUpdates``."""
        return {
            name: tuple(f"{step.resource} {step.reason}" for step in applied.target)
            for name, applied in self.applied.items()
            if applied.target
        }


def cap_for_pod(
    recommendations: Sequence[ContainerAmounts],
    *,
    containers: Sequence[ContainerResources],
    policy: ResourcePolicy | None,
    limit_ranges: Sequence[LimitRangeSpec],
    phases: Sequence[Phase],
    pod_level: PodLevelBounds | None = None,
) -> Capped:
    """Fit recommendations to a pod, in the reference's order.

    First apply the LimitRange for pods to all containers together. Then apply to each container
    the LimitRange for containers, the policy, and with RequestsOnly the container's own limit. Drop
    recommendations without a container. A LimitRange for pods bounds each of ``phases``.
    ``pod_level`` are the bounds of pod-level resources: under a LimitRange for pods they count
    instead of the sum, and a maximum for containers above the pod-level limit doesn't apply (A27).

    Raises:
        QuantityError: a bound of a LimitRange, or one of the policy that counts, is no quantity.
    """
    of_pods = effective_limits(limit_ranges, LimitType.POD)
    together, exhausted = fit_to_pod_limits(recommendations, containers, of_pods, phases, pod_level)
    limits = effective_limits(limit_ranges, LimitType.CONTAINER)
    if limits is not None and pod_level is not None:
        limits = _below_pod_level(limits, pod_level)
    by_name = {container.name: container for container in containers}
    capped: list[ContainerAmounts] = []
    applied: dict[str, AppliedCaps] = {}
    for recommendation in together:
        container = by_name.get(recommendation.name)
        if container is None:
            continue
        recommended = {*recommendation.target, *recommendation.lower_bound}
        recommended.update(recommendation.upper_bound)
        caps = _caps(container, container_policy(policy, container.name), limits, recommended)
        target, target_steps = _apply(caps, recommendation.target)
        lower, lower_steps = _apply(caps, recommendation.lower_bound)
        upper, upper_steps = _apply(caps, recommendation.upper_bound)
        applied[container.name] = AppliedCaps(target_steps, lower_steps, upper_steps)
        capped.append(
            ContainerAmounts(
                name=recommendation.name,
                target=target,
                lower_bound=lower,
                upper_bound=upper,
                uncapped_target=recommendation.uncapped_target,
            )
        )
    return Capped(tuple(capped), applied, together, exhausted)


def _below_pod_level(limits: EffectiveLimits, pod_level: PodLevelBounds) -> EffectiveLimits:
    """Drop maximums that aren't below the pod-level limit, which cuts container limits first (A27).

    Cutting a limit changes its ratio to the request, so that maximum would bound the request
    differently in the next pass.
    """
    cuts = pod_level.limits
    most = {
        name: value for name, value in limits.max.items() if name not in cuts or value < cuts[name]
    }
    return replace(limits, max=most)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cap:
    """One step of capping: raise to ``low``, then lower to ``high``. Zero is no bound."""

    low: ResourceQuantities = field(default_factory=dict)
    high: ResourceQuantities = field(default_factory=dict)
    low_note: str = ""
    high_note: str = ""

    def apply(self, name: str, value: Quantity, steps: list[ResourceStep]) -> Quantity:
        low = self.low.get(name, ZERO)
        if not low.is_zero and value < low:
            value = low
            steps.append(ResourceStep(name, self.low_note, value))
        high = self.high.get(name, ZERO)
        if not high.is_zero and value > high:
            value = high
            steps.append(ResourceStep(name, self.high_note, value))
        return value


def _caps(
    container: ContainerResources,
    policy: ContainerPolicy | None,
    limits: EffectiveLimits | None,
    recommended: Collection[str],
) -> tuple[_Cap, ...]:
    """Return the caps of one container, in order; the policy follows the LimitRange, so it wins.

    Only ``recommended`` resources are parsed, because a policy may bound tens of thousands.
    """
    caps: list[_Cap] = []
    if limits is not None:
        low, high = _request_bounds(container, limits)
        caps.append(
            _Cap(
                low=low,
                high=high,
                low_note="capped to fit Min in container LimitRange",
                high_note="capped to fit Max in container LimitRange",
            )
        )
    if policy is not None:
        caps.append(
            _Cap(
                low=_bounds(policy.min_allowed, recommended),
                high=_bounds(policy.max_allowed, recommended),
                low_note="capped to minAllowed",
                high_note="capped to maxAllowed",
            )
        )
    if controlled_values(policy) == ControlledValues.REQUESTS_ONLY:
        caps.append(_Cap(high=container.limits, high_note="capped to container limit"))
    return tuple(caps)


def _bounds(
    written: Mapping[str, QuantityJson] | None, recommended: Collection[str]
) -> ResourceQuantities:
    there = written or {}
    return parse_quantities({name: there[name] for name in recommended if name in there})


def _apply(
    caps: Sequence[_Cap], values: ResourceQuantities
) -> tuple[ResourceQuantities, Sequence[ResourceStep]]:
    """Return the values after all caps, and the steps that changed a value."""
    steps: list[ResourceStep] = []
    capped = dict(values)
    names = in_order(values)
    for cap in caps:
        for name in names:
            capped[name] = cap.apply(name, capped[name], steps)
    return capped, steps


def _request_bounds(
    container: ContainerResources, limits: EffectiveLimits
) -> tuple[dict[str, Quantity], dict[str, Quantity]]:
    """Return the lowest and the highest request whose limit the LimitRange accepts.

    Both the request and its limit must reach the minimum. With a fixed limit the LimitRange bounds
    the request itself (A18).
    """
    low: dict[str, Quantity] = {}
    high: dict[str, Quantity] = {}
    for name in RESOURCES:
        fixed = not container.limits_follow and not container.limits.get(name, ZERO).is_zero
        if name in limits.min:
            least = ZERO if fixed else _boundary(name, limits.min, container, limits)
            low[name] = max(least, limits.min[name])
        if name in limits.max:
            most = limits.max[name]
            high[name] = most if fixed else _boundary(name, limits.max, container, limits)
    return low, high


def _boundary(
    name: str, bounds: ResourceQuantities, container: ContainerResources, limits: EffectiveLimits
) -> Quantity:
    return boundary_request(
        name,
        bounds[name],
        limit=container.limits.get(name),
        request=container.requests.get(name),
        default=limits.default.get(name),
    )

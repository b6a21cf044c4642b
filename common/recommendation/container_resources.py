"""What the containers of a pod should get: requests, and limits in proportion.

Source: admission.md 6.2 and 6.5; ``GetContainersResources``,
vertical-pod-autoscaler/pkg/admission-controller/resource/pod/recommendation/recommendation_provider.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod
from common.recommendation.actual import ContainerResources, containers_of
from common.recommendation.decision_trace import (
    CUT_AT_POD_LEVEL,
    REQUESTS_ONLY,
    Amount,
    DecisionTrace,
)
from common.recommendation.limit_range import LimitType, effective_limits
from common.recommendation.limit_scaling import Limits, proportional_limits
from common.recommendation.policy import ControlledValues, container_policy, controlled_values
from common.recommendation.processing import Processed
from common.resources import ResourceQuantities, in_order


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedResources:
    """What one container should have; a resource that isn't named stays as it is.

    ``notes`` say what happened on the way, capping first.
    """

    requests: ResourceQuantities = field(default_factory=dict)
    limits: ResourceQuantities = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def wanted_resources(
    pod: Pod,
    vpa: VerticalPodAutoscaler,
    processed: Processed | None,
    limit_ranges: Sequence[LimitRangeSpec],
    trail: DecisionTrace | None = None,
) -> tuple[WantedResources, ...]:
    """Requests and limits for each scaled container, in the order of ``scaled_specs``.

    A container without a recommendation gets nothing. Limits follow the capped requests,
    from the present ones, and only where the policy controls limits; none is above the pod-level
    limit (A27). ``trail`` records the limits.

    Raises:
        QuantityError: a quantity in the pod or a LimitRange is none.
    """
    limits = effective_limits(limit_ranges, LimitType.CONTAINER)
    defaults = limits.default if limits is not None else {}
    return tuple(
        _wanted(container, vpa, processed, defaults, trail) for container in containers_of(pod)
    )


def _wanted(
    container: ContainerResources,
    vpa: VerticalPodAutoscaler,
    processed: Processed | None,
    defaults: ResourceQuantities,
    trail: DecisionTrace | None,
) -> WantedResources:
    amounts = processed.containers.get(container.name) if processed is not None else None
    if processed is None or amounts is None:
        return WantedResources()
    limits = Limits({})
    notes = processed.notes.get(container.name, ())
    policy = container_policy(vpa, container.name)
    if controlled_values(policy) == ControlledValues.REQUESTS_AND_LIMITS:
        limits = proportional_limits(
            amounts.target,
            limits=container.limits,
            requests=container.requests,
            defaults=defaults,
        )
        if trail is not None:
            for name, rule in limits.rules.items():
                trail.add(container.name, Amount.LIMIT, name, rule, limits.quantities.get(name))
        cut = {} if processed.pod_level is None else processed.pod_level.cut(limits.quantities)
        if cut:
            notes += tuple(f"{name} limit capped to pod-level limit" for name in in_order(cut))
            limits = replace(limits, quantities={**limits.quantities, **cut})
            if trail is not None:
                trail.given(container.name, Amount.LIMIT, cut, CUT_AT_POD_LEVEL)
    elif trail is not None:
        for name in in_order(container.limits):
            trail.add(container.name, Amount.LIMIT, name, REQUESTS_ONLY, container.limits[name])
    return WantedResources(
        requests={name: quantity for name, quantity in amounts.target.items() if name},
        limits=limits.quantities,
        notes=notes + limits.notes,
    )

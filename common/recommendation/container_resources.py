"""The wanted resources of a pod's containers: requests, and limits in proportion.

Source: admission.md 6.2 and 6.5; ``GetContainersResources``,
vertical-pod-autoscaler/pkg/admission-controller/resource/pod/recommendation/recommendation_provider.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from common.api.autoscaling import VerticalPodAutoscaler
from common.api.core import LimitRangeSpec, Pod
from common.recommendation.actual_resources import ContainerResources, containers_of
from common.recommendation.decision_trace import ResourceStep
from common.recommendation.limit_range import LimitType, effective_limits
from common.recommendation.limit_scaling import Limits, proportional_limits
from common.recommendation.policy import ControlledValues, container_policy, controlled_values
from common.recommendation.processing import Processed
from common.resources import ResourceQuantities, in_order

CUT_AT_POD_LEVEL = "cut at the limit in spec.resources of the pod"
REQUESTS_ONLY = "left as it is: controlledValues is RequestsOnly"


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedResources:
    """The wanted resources of one container; other resources stay unchanged.

    ``notes`` describe the changes to the recommendation, capping first. ``limit_steps`` don't
    include boosts.
    """

    requests: ResourceQuantities = field(default_factory=dict)
    limits: ResourceQuantities = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    limit_steps: tuple[ResourceStep, ...] = field(default=(), compare=False)


def wanted_resources(
    pod: Pod,
    vpa: VerticalPodAutoscaler,
    processed: Processed | None,
    limit_ranges: Sequence[LimitRangeSpec],
) -> tuple[WantedResources, ...]:
    """Return requests and limits for each scaled container, in the order of ``scaled_specs``.

    They are empty for a container without a recommendation. If the policy controls limits, a limit
    keeps its present ratio to the request, up to the pod-level limit (A27).

    Raises:
        QuantityError: a quantity in the pod or a LimitRange is malformed.
    """
    limits = effective_limits(limit_ranges, LimitType.CONTAINER)
    defaults = limits.default if limits is not None else {}
    return tuple(_wanted(container, vpa, processed, defaults) for container in containers_of(pod))


def _wanted(
    container: ContainerResources,
    vpa: VerticalPodAutoscaler,
    processed: Processed | None,
    defaults: ResourceQuantities,
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
        steps = [
            ResourceStep(name, rule, limits.quantities.get(name))
            for name, rule in limits.rules.items()
        ]
        cut = {} if processed.pod_level is None else processed.pod_level.cut(limits.quantities)
        if cut:
            notes += tuple(f"{name} limit capped to pod-level limit" for name in in_order(cut))
            limits = replace(limits, quantities={**limits.quantities, **cut})
            steps += [ResourceStep(name, CUT_AT_POD_LEVEL, cut[name]) for name in in_order(cut)]
    else:
        present = container.limits
        steps = [ResourceStep(name, REQUESTS_ONLY, present[name]) for name in in_order(present)]
    return WantedResources(
        requests={name: quantity for name, quantity in amounts.target.items() if name},
        limits=limits.quantities,
        notes=notes + limits.notes,
        limit_steps=tuple(steps),
    )

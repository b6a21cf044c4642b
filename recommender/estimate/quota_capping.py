"""Targets that are lowered so that the pods of a workload fit the ResourceQuotas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from common.quantity import Quantity
from common.recommendation.amounts import ContainerAmounts
from common.resources import CPU, MEMORY, RESOURCES, ResourceQuantities
from recommender.estimate.estimation import EstimationSettings
from recommender.estimate.pod_sums import Targets, units
from recommender.estimate.post_processing import PostProcessed, ProcessingStage, quantity
from recommender.estimate.quota_bounds import QuotaBound
from recommender.estimate.step_reasons import StepReason

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaFinding:
    """A bound that the recommended pod exceeds."""

    bound: QuotaBound
    needed: int  # by the pod before it was lowered
    lowered: int  # by the pod after that

    @property
    def is_met(self) -> bool:
        """Return whether the lowered pod is within the bound."""
        return self.lowered <= self.bound.most


@dataclass(frozen=True, slots=True, kw_only=True)
class WithinQuotas:
    """The recommendation within the quotas, or at its minimums."""

    processed: PostProcessed
    findings: tuple[QuotaFinding, ...] = ()
    containers: tuple[str, ...] = ()  # whose target was lowered


def within_quotas(
    processed: PostProcessed, bounds: Sequence[QuotaBound], minimums: Mapping[str, Targets]
) -> WithinQuotas:
    """Lower the targets of a recommendation, so that its pods fit all quotas.

    The targets of a resource are lowered together, in proportion. None is lowered below its
    minimum, so a pod may stay above a bound; its recommendation is published nevertheless. The
    bounds of a lowered container are at most its target, as with maxAllowed.
    """
    before = targets_of(processed.amounts)
    after = dict(before)
    for bound in bounds:
        resource = bound.resource
        floors = minimums.get(resource, {})
        after[resource] = bound.pod.capped(after[resource], floors, bound.most)
    findings = tuple(
        QuotaFinding(bound=bound, needed=needed, lowered=bound.pod.of(after[bound.resource]))
        for bound in bounds
        if (needed := bound.pod.of(before[bound.resource])) > bound.most
    )
    caps = {
        one.name: {
            resource: quantity(resource, after[resource][one.name])
            for resource in RESOURCES
            if after[resource].get(one.name) != before[resource].get(one.name)
        }
        for one in processed.amounts
    }
    names = tuple(name for name, capped in caps.items() if capped)
    if not names:
        return WithinQuotas(processed=processed, findings=findings)
    amounts = tuple(_lowered(one, caps[one.name]) for one in processed.amounts)
    stage = ProcessingStage(reason=StepReason.QUOTA, amounts=amounts, by=caps)
    lowered = replace(processed, stages=(*processed.stages, stage))
    return WithinQuotas(processed=lowered, findings=findings, containers=names)


def targets_of(amounts: Sequence[ContainerAmounts]) -> Mapping[str, Targets]:
    """Return targets in millicores and bytes, by resource and container."""
    return {
        resource: {
            one.name: units(resource, one.target[resource])
            for one in amounts
            if resource in one.target
        }
        for resource in RESOURCES
    }


def quota_minimums(
    stages: Sequence[ProcessingStage], containers: Sequence[str], estimation: EstimationSettings
) -> Mapping[str, Targets]:
    """Return the amounts below which no quota lowers a target, by resource and container.

    They are minAllowed or, if larger, the smallest estimate: the pod's minimum, divided by its
    containers. Otherwise a full quota would lead to a target of zero.
    """
    low = next((each.by for each in stages if each.reason is StepReason.MIN_ALLOWED), {})
    number = max(1, len(containers))
    smallest = {
        CPU: int(estimation.pod_min_cpu / number),
        MEMORY: int(estimation.pod_min_memory * _MIB / number),
    }
    return {
        resource: {name: max(1, least, _units(resource, low.get(name, {}))) for name in containers}
        for resource, least in smallest.items()
    }


def _units(resource: str, amounts: ResourceQuantities) -> int:
    return units(resource, amounts[resource]) if resource in amounts else 0


def _lowered(one: ContainerAmounts, caps: ResourceQuantities) -> ContainerAmounts:
    if not caps:
        return one

    def capped(amounts: ResourceQuantities) -> dict[str, Quantity]:
        return {name: min(each, caps.get(name, each)) for name, each in amounts.items()}

    return replace(
        one,
        target=capped(one.target),
        lower_bound=capped(one.lower_bound),
        upper_bound=capped(one.upper_bound),
    )

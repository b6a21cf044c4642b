"""Targets that are lowered so that the pods of a workload fit the ResourceQuotas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from common.recommendation.amounts import ContainerAmounts
from common.resources import MEMORY, RESOURCES
from common.scheduling.pod_claims import Targets, as_numbers, by_resource
from common.scheduling.pod_sum import Numbers
from recommender.estimate.lowering import lowered, whole_mib
from recommender.estimate.post_processing import PostProcessed, ProcessingStage, quantity
from recommender.estimate.quota_bounds import QuotaBound
from recommender.estimate.quota_patience import QuotaWait, settle
from recommender.estimate.step_reasons import StepReason


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaFinding:
    """A bound that the recommended pod exceeds."""

    bound: QuotaBound
    needed: int  # by the pod before it was lowered
    lowered: int  # by the pod after that
    until: datetime | None = None  # when the targets are lowered further

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
    waits: Mapping[str, QuotaWait] = field(default_factory=dict)  # that go on, by resource


def within_quotas(
    processed: PostProcessed,
    bounds: Sequence[QuotaBound],
    lowest: Targets,
    *,
    published: Targets,
    waits: Mapping[str, QuotaWait],
    now: datetime,
) -> WithinQuotas:
    """Lower the targets of a recommendation, so that its pods fit all quotas.

    The targets of a resource are lowered together, in proportion. None is lowered below its
    ``lowest`` amount, so a pod may stay above a bound; its recommendation is published
    nevertheless. The ``published`` targets stay for some time (see ``quota_patience``); ``waits``
    are those of the last cycle, by resource.
    """
    before, floors = targets_of(processed.amounts), by_resource(lowest)
    after, going_on = dict(before), dict[str, QuotaWait]()
    for resource, stated in by_resource(published).items():
        own = [bound for bound in bounds if bound.resource == resource]
        if not own:
            continue
        wanted, least, kept = before[resource], floors[resource], None
        if wanted.keys() <= stated.keys():
            kept = {
                name: min(amount, max(stated[name], least[name])) for name, amount in wanted.items()
            }
        fitting = _fitting(resource, wanted, own, least)
        after[resource], wait = settle(
            wanted, fitting, kept, partial(_fit, own), wait=waits.get(resource), now=now
        )
        if wait is not None:
            going_on[resource] = wait
    return _result(processed, before, after, bounds, going_on)


def _fitting(
    resource: str, wanted: Numbers, bounds: Sequence[QuotaBound], lowest: Numbers
) -> Numbers:
    """Return the targets of a resource that fit its bounds now, if the lowest amounts do."""
    found = wanted
    for bound in bounds:
        found = bound.pod.capped(found, lowest, bound.most)
    if resource != MEMORY:
        return found
    return {name: whole_mib(each, wanted[name], lowest[name]) for name, each in found.items()}


def _fit(bounds: Sequence[QuotaBound], targets: Numbers) -> bool:
    return all(bound.pod.of(targets) <= bound.most for bound in bounds)


def _result(
    processed: PostProcessed,
    before: Mapping[str, Numbers],
    after: Mapping[str, Numbers],
    bounds: Sequence[QuotaBound],
    waits: Mapping[str, QuotaWait],
) -> WithinQuotas:
    untils = {resource: wait.until for resource, wait in waits.items() if wait.fitting}
    findings = tuple(
        QuotaFinding(
            bound=bound,
            needed=needed,
            lowered=bound.pod.of(after[bound.resource]),
            until=untils.get(bound.resource),
        )
        for bound in bounds
        if (needed := bound.pod.of(before[bound.resource])) > bound.most
    )
    caps = {
        one.name: {
            resource: after[resource][one.name]
            for resource in RESOURCES
            if after[resource].get(one.name) != before[resource].get(one.name)
        }
        for one in processed.amounts
    }
    names = tuple(name for name, capped in caps.items() if capped)
    if names:
        stage = ProcessingStage(
            reason=StepReason.QUOTA,
            amounts=tuple(lowered(one, caps[one.name]) for one in processed.amounts),
            by={
                name: {resource: quantity(resource, amount) for resource, amount in each.items()}
                for name, each in caps.items()
            },
        )
        processed = replace(processed, stages=(*processed.stages, stage))
    return WithinQuotas(processed=processed, findings=findings, containers=names, waits=waits)


def targets_of(amounts: Sequence[ContainerAmounts]) -> Mapping[str, Numbers]:
    """Return targets in millicores and bytes, by resource and container."""
    return by_resource(as_numbers((one.name, one.target) for one in amounts))

"""Targets that are lowered so that the pods of a workload fit the ResourceQuotas."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from common.recommendation.amounts import ContainerAmounts
from common.resources import MEMORY, RESOURCES
from common.scheduling.pod_claims import Targets, by_resource, targets_of
from common.scheduling.pod_sum import Numbers
from recommender.estimate.lowering import kept_targets, lowered, whole_mib
from recommender.estimate.post_processing import PostProcessed, ProcessingStage, quantity
from recommender.estimate.quota_bounds import QuotaBound
from recommender.estimate.quota_patience import QuotaState, QuotaWait, settle
from recommender.estimate.step_reasons import StepReason


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaFinding:
    """A bound that the recommended pod exceeds, or for which its targets stay lowered."""

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
    grows_at: datetime | None = None  # when lowered targets may grow; None: not soon
    states: Mapping[str, QuotaState] = field(default_factory=dict)  # by resource


def within_quotas(
    processed: PostProcessed,
    bounds: Sequence[QuotaBound],
    lowest: Targets,
    *,
    published: Targets,
    was_lowered: Collection[str],
    states: Mapping[str, QuotaState],
    now: datetime,
) -> WithinQuotas:
    """Lower the targets of a recommendation, so that its pods fit all quotas.

    The targets of a resource are lowered together, in proportion. None is lowered below its
    ``lowest`` amount, so a pod may stay above a bound; its recommendation is published
    nevertheless. The ``published`` targets stay for some time (see ``quota_patience``);
    ``was_lowered`` are the resources for which quotas have lowered them, and ``states`` those of
    the last cycle, by resource.
    """
    before, floors = targets_by_resource(processed.amounts), by_resource(lowest)
    after, going_on = dict(before), dict[str, QuotaState]()
    for resource, stated in by_resource(published).items():
        own = [bound for bound in bounds if bound.resource == resource]
        if not own:
            continue
        wanted, least = before[resource], floors[resource]
        after[resource], state = settle(
            wanted,
            _fitting(resource, wanted, own, least),
            kept_targets(wanted, stated, least),
            partial(_fit, own),
            was_lowered=resource in was_lowered,
            last=states.get(resource),
            now=now,
        )
        if state is not None:
            going_on[resource] = state
    return replace(
        _lowered(processed, before, after),
        findings=tuple(_findings(before, after, bounds, going_on, now)),
        grows_at=min(_untils(going_on, now, grows=True).values(), default=None),
        states=going_on,
    )


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


def _untils(
    states: Mapping[str, QuotaState], now: datetime, *, grows: bool
) -> Mapping[str, datetime]:
    """Return when targets move, by resource; those that have just moved are left out."""
    return {
        resource: each.until
        for resource, each in states.items()
        if isinstance(each, QuotaWait) and each.grows == grows and now < each.until
    }


def _findings(
    before: Mapping[str, Numbers],
    after: Mapping[str, Numbers],
    bounds: Sequence[QuotaBound],
    states: Mapping[str, QuotaState],
    now: datetime,
) -> Iterator[QuotaFinding]:
    """Yield the bounds that the recommended pod exceeds.

    If it exceeds none, and the targets stay lowered nevertheless, yield the bounds of the resource.
    """
    untils = _untils(states, now, grows=False)
    needs = [bound.pod.of(before[bound.resource]) for bound in bounds]
    exceeded = {
        bound.resource for bound, need in zip(bounds, needs, strict=True) if need > bound.most
    }
    for bound, need in zip(bounds, needs, strict=True):
        resource = bound.resource
        stays = resource not in exceeded and after[resource] != before[resource]
        if need > bound.most or stays:
            yield QuotaFinding(
                bound=bound,
                needed=need,
                lowered=bound.pod.of(after[resource]),
                until=untils.get(resource),
            )


def _lowered(
    processed: PostProcessed, before: Mapping[str, Numbers], after: Mapping[str, Numbers]
) -> WithinQuotas:
    """Return the recommendation with the targets ``after``, by resource and container."""
    caps = {
        one.name: {
            resource: after[resource][one.name]
            for resource in RESOURCES
            if after[resource].get(one.name) != before[resource].get(one.name)
        }
        for one in processed.amounts
    }
    names = tuple(name for name, capped in caps.items() if capped)
    if not names:
        return WithinQuotas(processed=processed)
    stage = ProcessingStage(
        reason=StepReason.QUOTA,
        amounts=tuple(lowered(one, caps[one.name]) for one in processed.amounts),
        by={
            name: {resource: quantity(resource, amount) for resource, amount in each.items()}
            for name, each in caps.items()
        },
    )
    return WithinQuotas(
        processed=replace(processed, stages=(*processed.stages, stage)), containers=names
    )


def targets_by_resource(amounts: Iterable[ContainerAmounts]) -> Mapping[str, Numbers]:
    """Return targets in millicores and bytes, by resource and container."""
    return by_resource(targets_of(amounts))

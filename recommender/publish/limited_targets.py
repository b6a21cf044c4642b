"""Targets that are lowered to nodes and to ResourceQuotas, one after the other."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime

from common.api.autoscaling import VerticalPodAutoscaler
from common.scheduling.pod_claims import Targets, targets_of
from recommender.estimate.estimation import EstimationSettings
from recommender.estimate.lowering import lowest_targets
from recommender.estimate.post_processing import PostProcessed
from recommender.estimate.quota_bounds import QuotaBound
from recommender.estimate.quota_capping import within_quotas
from recommender.estimate.quota_patience import QuotaState
from recommender.publish.pod_limits import Limited, VpaLimits, within_limits
from recommender.publish.quota_messages import quota_findings
from recommender.publish.status import ConditionType, lowered_resources, recommended_amounts


def within_all_limits(
    processed: PostProcessed,
    vpa: VerticalPodAutoscaler,
    *,
    limits: VpaLimits | None,
    quotas: Sequence[QuotaBound],
    states: Mapping[str, QuotaState],
    estimation: EstimationSettings,
    now: datetime,
) -> tuple[Limited, Mapping[str, QuotaState]]:
    """Lower targets so that the pod fits a node, and then so that its rollout fits the quotas.

    Return the states of targets that quotas bound, too.
    """
    if limits is None and not quotas:
        return Limited(processed=processed), {}
    published = targets_of(recommended_amounts(vpa.status).values())
    was_lowered = lowered_resources(vpa.status, ConditionType.CAPPED_BY_QUOTA)
    was_lowered &= {bound.resource for bound in quotas}
    limited = within_limits(
        processed,
        limits,
        estimation,
        published=_without(was_lowered, published),
    )
    if not quotas:
        return limited, {}
    names = tuple(one.name for one in processed.amounts)
    within = within_quotas(
        limited.processed,
        quotas,
        lowest_targets(processed.stages, names, estimation),
        published=published,
        was_lowered=was_lowered,
        states=states,
        now=now,
    )
    findings = (*limited.findings, *quota_findings(within))
    return replace(limited, processed=within.processed, findings=findings), within.states


def _without(resources: AbstractSet[str], targets: Targets) -> Targets:
    return {
        name: {resource: each for resource, each in own.items() if resource not in resources}
        for name, own in targets.items()
    }

"""The published recommendation, on which the next one may depend."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from common.recommendation.amounts import ContainerAmounts
from recommender.estimate.amount_selection import CurrentRecommendation, idle_containers
from recommender.estimate.vpa_estimates import ContainerEstimate
from recommender.model.autoscalers import EVERY_OTHER
from recommender.model.usage import Usage
from recommender.publish.status import (
    ConditionType,
    is_true,
    recommended_amounts,
    stale_containers,
)
from recommender.sources.conversion import vpa_key
from recommender.sources.target_resolution import LoadedVpa

_LOWERING = (ConditionType.CAPPED_BY_NODES, ConditionType.CAPPED_BY_QUOTA)


def current_recommendation(
    loaded: LoadedVpa,
    estimated: Sequence[ContainerEstimate],
    usage: Usage,
    *,
    publishes_without_samples: bool,
) -> CurrentRecommendation:
    """Return the published recommendation; empty if the estimates don't depend on it."""
    vpa = loaded.vpa
    history_flags = usage.autoscalers[vpa_key(vpa)].history_flags
    stale: AbstractSet[str] = frozenset()
    idle: Mapping[str, AbstractSet[str]] = {}
    if not publishes_without_samples:
        stale = stale_containers(vpa.status) | history_flags.expired
        if not loaded.resolution.unsupported:
            idle = idle_containers(usage, vpa, {one.container for one in estimated})
    is_known = all(set(one.target) <= one.observed for one in estimated)
    if is_known and not (stale or idle):
        return CurrentRecommendation()
    is_current = vpa.status.observed_generation == vpa.metadata.generation
    if EVERY_OTHER in history_flags.outdated and not is_current:
        return CurrentRecommendation()
    is_lowered = any(is_true(vpa.status, each) for each in _LOWERING)
    amounts = {
        name: _before_lowering(one) if is_lowered else one
        for name, one in recommended_amounts(vpa.status).items()
        if name not in history_flags.outdated
    }
    idle = {name: controlled for name, controlled in idle.items() if name in amounts}
    return CurrentRecommendation(
        amounts=amounts, stale=stale, killed=history_flags.killed, idle=idle
    )


def _before_lowering(published: ContainerAmounts) -> ContainerAmounts:
    """Return published amounts as they were before they were lowered together with others.

    Otherwise amounts that stay without samples would be lowered again in each cycle. The policy
    caps them again.
    """
    return replace(published, target={**published.target, **published.uncapped_target})

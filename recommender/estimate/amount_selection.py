"""What a status recommends already, and where that stays: too little is known to replace it.

A percentile of no samples is the pod's minimum, and that of the first minutes is theirs alone.
Neither may replace what was learnt in a week: pods would be evicted, to come back too small.

Source: docs/deviations.md X31 and X125.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from common.api.autoscaling import VerticalPodAutoscaler
from common.recommendation.amounts import ContainerAmounts
from common.recommendation.decision_trace import Amount
from common.resources import MEMORY, ResourceQuantities
from recommender.estimate.vpa_estimates import ContainerEstimate
from recommender.model.autoscalers import rule_for
from recommender.model.keys import VpaKey
from recommender.model.usage import Usage

_NO_NAMES: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentRecommendation:
    """What is published for a VPA's target; names are those of containers.

    ``idle`` containers have no estimate and stay; beside them stand their controlled resources.
    """

    amounts: Mapping[str, ContainerAmounts] = field(default_factory=dict)
    stale: AbstractSet[str] = _NO_NAMES  # whose history expired
    killed: AbstractSet[str] = _NO_NAMES  # of which an OOM kill was learnt since that
    idle: Mapping[str, AbstractSet[str]] = field(default_factory=dict)


def idle_containers(
    usage: Usage, vpa: VerticalPodAutoscaler, estimated: AbstractSet[str]
) -> dict[str, AbstractSet[str]]:
    """Containers of a VPA that are published and have no estimate, but may have one again.

    Left out are those that no pod has any more, where there are pods, and those that the policy or
    the gate NativeSidecar leaves out. Beside each stand its controlled resources.
    """
    recommendation = vpa.status.recommendation
    if recommendation is None or recommendation.container_recommendations is None:
        return {}
    names = {one.container_name for one in recommendation.container_recommendations} - estimated
    if not names:
        return {}
    key = VpaKey(vpa.metadata.namespace, vpa.metadata.name)
    names -= usage.sidecars.left_out(key, usage.matching)
    if usage.pod_count(key):
        names &= usage.pod_containers(key)
    rules = {name: rule_for(usage.autoscalers[key].rules, name) for name in names}
    return {name: frozenset(rule.controlled) for name, rule in rules.items() if not rule.off}


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedAmounts:
    """What is published of each container, sorted by name, and why not its estimate."""

    amounts: tuple[ContainerAmounts, ...]
    unknown: tuple[str, ...] = ()  # there is no usage of ``app``, or of one resource: ``app (cpu)``
    stale: tuple[str, ...] = ()  # history expired


def select_amounts(
    estimated: Sequence[ContainerEstimate],
    fresh: Sequence[ContainerAmounts],
    current: CurrentRecommendation,
    *,
    without_samples: bool,
) -> SelectedAmounts:
    """Choose between estimates and what is published, resource by resource.

    Without samples of a resource what is published stays; where that is nothing, nothing is
    published, or ``without_samples`` the estimate, which is the minimum. Once the history of a
    container expired, what is published stays until there is confidence in what was learnt since;
    an OOM kill raises memory before that.
    """
    found: dict[str, ContainerAmounts] = {}
    unknown, stale = list[str](), set(current.idle)
    for estimate, one in zip(estimated, fresh, strict=True):
        name, before = estimate.container, current.amounts.get(estimate.container)
        origins = {
            resource: _origin(resource, estimate, one, current, without_samples=without_samples)
            for resource in estimate.target
        }
        is_kept = before is not None and any(origin is before for origin in origins.values())
        if is_kept and name in current.stale:
            stale.add(name)
        if missing := [resource for resource in origins if resource not in estimate.observed]:
            unknown.append(name if len(missing) == len(origins) else f"{name} ({missing[0]})")
        mixed = _mixed(one, origins)
        if mixed.target or not origins:
            found[name] = mixed
    for name, controlled in current.idle.items():
        before = current.amounts[name]
        found[name] = _mixed(before, dict.fromkeys(sorted(controlled), before))
    return SelectedAmounts(
        amounts=tuple(found[name] for name in sorted(found)),
        unknown=() if without_samples else tuple(unknown),
        stale=tuple(sorted(stale)),
    )


def _origin(
    resource: str,
    estimate: ContainerEstimate,
    fresh: ContainerAmounts,
    current: CurrentRecommendation,
    *,
    without_samples: bool,
) -> ContainerAmounts | None:
    """Return the source of a resource's amounts; None if the resource is not published."""
    name, is_known = estimate.container, resource in estimate.observed
    before = current.amounts.get(name)
    if before is None or resource not in before.target:
        return fresh if is_known or without_samples else None
    if not is_known:
        return before
    if name not in current.stale or estimate.confidence[resource] >= 1:
        return fresh
    is_raised = name in current.killed and fresh.target[resource] > before.target[resource]
    return fresh if resource == MEMORY and is_raised else before


def _mixed(
    default: ContainerAmounts, origins: Mapping[str, ContainerAmounts | None]
) -> ContainerAmounts:
    """Take each resource from its source; bounds that are missing there come from ``default``."""
    selected = {resource: origin for resource, origin in origins.items() if origin is not None}

    def mixed(amount: Amount) -> ResourceQuantities:
        known = amount.of(default)
        return {
            resource: amount.of(origin).get(resource, known[resource])
            for resource, origin in selected.items()
            if resource in known
        }

    return ContainerAmounts(
        name=default.name,
        target=mixed(Amount.TARGET),
        lower_bound=mixed(Amount.LOWER_BOUND),
        upper_bound=mixed(Amount.UPPER_BOUND),
        uncapped_target=mixed(Amount.UNCAPPED_TARGET),
    )

"""The choice between a new estimate and the published amount, which stays without enough samples.

The percentile of no samples is the pod's minimum, and a percentile of a few minutes covers only
these. Neither may replace what was learnt in a week: pods would be evicted and start too small.

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
    """The published recommendation of a VPA; names are container names.

    ``idle`` containers have no estimate, and their amounts stay. It maps them to their controlled
    resources.
    """

    amounts: Mapping[str, ContainerAmounts] = field(default_factory=dict)
    stale: AbstractSet[str] = _NO_NAMES  # their history expired
    killed: AbstractSet[str] = _NO_NAMES  # an OOM kill was recorded after that
    idle: Mapping[str, AbstractSet[str]] = field(default_factory=dict)


def idle_containers(
    usage: Usage, vpa: VerticalPodAutoscaler, estimated: AbstractSet[str]
) -> dict[str, AbstractSet[str]]:
    """Return the published containers of a VPA without an estimate, with controlled resources.

    If there are pods, a container that none of them has is left out. So are containers that the
    policy or the gate NativeSidecar excludes.
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
    """The amounts to publish, sorted by container, and containers that don't get their estimate."""

    amounts: tuple[ContainerAmounts, ...]
    unknown: tuple[str, ...] = ()  # without samples: ``app``, or of one resource: ``app (cpu)``
    stale: tuple[str, ...] = ()  # their history expired


def select_amounts(
    estimated: Sequence[ContainerEstimate],
    fresh: Sequence[ContainerAmounts],
    current: CurrentRecommendation,
    *,
    without_samples: bool,
) -> SelectedAmounts:
    """Choose between estimated and published amounts, resource by resource.

    Without samples of a resource the published amount stays. If there is none, nothing is
    published, or with ``without_samples`` the estimate, which is the minimum. After the history of
    a container expired, the published amount stays until the confidence in the new samples is 1;
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
    """Return the origin of a resource's amounts; None if the resource is not published."""
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
    """Take each resource from its origin; bounds that are missing there come from ``default``."""
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

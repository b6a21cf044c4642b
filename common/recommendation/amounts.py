"""Recommendations as exact quantities."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from common.resources import ResourceQuantities


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerAmounts:
    """The recommendation for one container, as exact quantities."""

    name: str
    target: ResourceQuantities
    lower_bound: ResourceQuantities = field(default_factory=dict)
    upper_bound: ResourceQuantities = field(default_factory=dict)
    uncapped_target: ResourceQuantities = field(default_factory=dict)


def with_amounts(
    recommendations: Sequence[ContainerAmounts],
    *,
    targets: Mapping[str, ResourceQuantities],
    lower_bounds: Mapping[str, ResourceQuantities],
    upper_bounds: Mapping[str, ResourceQuantities],
) -> tuple[ContainerAmounts, ...]:
    """Return the recommendations with other targets and bounds, given by container name."""
    return tuple(
        replace(
            each,
            target=targets[each.name],
            lower_bound=lower_bounds[each.name],
            upper_bound=upper_bounds[each.name],
        )
        for each in recommendations
    )

"""What is recommended for one container, as exact quantities."""

from dataclasses import dataclass, field

from common.resources import ResourceQuantities


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerAmounts:
    """What is recommended for one container, as exact quantities."""

    name: str
    target: ResourceQuantities
    lower_bound: ResourceQuantities = field(default_factory=dict)
    upper_bound: ResourceQuantities = field(default_factory=dict)
    uncapped_target: ResourceQuantities = field(default_factory=dict)

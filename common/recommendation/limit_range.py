"""The LimitRanges of a namespace, merged into one set of bounds per type.

Source: admission.md 6.6; ``limitsChecker``, vertical-pod-autoscaler/pkg/utils/limitrange.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from common.api.base import QuantityJson
from common.api.core import LimitRangeSpec
from common.quantity import Quantity
from common.resources import RESOURCES, ResourceQuantities, parse_quantities


class LimitType(enum.StrEnum):
    """The kind of object that a LimitRange item bounds."""

    CONTAINER = "Container"
    POD = "Pod"


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveLimits:
    """The strictest bounds of all items of one type; a missing resource is unbounded."""

    max: ResourceQuantities = field(default_factory=dict)
    min: ResourceQuantities = field(default_factory=dict)
    default: ResourceQuantities = field(default_factory=dict)  # limits, not requests


def effective_limits(specs: Sequence[LimitRangeSpec], kind: LimitType) -> EffectiveLimits | None:
    """Merge all items of one type that have a maximum, a minimum or a default; None without any.

    For cpu and memory the lowest maximum and the highest minimum apply. Bounds of other resources
    come from the first item that has the map. The defaults come from the last item that has any.
    Default requests and ratios are ignored.

    Raises:
        QuantityError: a bound is no quantity.
    """
    found = False
    highest: dict[str, Quantity] | None = None
    lowest: dict[str, Quantity] | None = None
    default: dict[str, Quantity] = {}
    for item in (item for spec in specs for item in spec.limits or () if item.type == kind):
        if item.max is None and item.min is None and item.default is None:
            continue
        found = True
        highest = _merged(highest, item.max, min)
        lowest = _merged(lowest, item.min, max)
        if item.default is not None:
            default = parse_quantities(item.default)
    if not found:
        return None
    return EffectiveLimits(max=highest or {}, min=lowest or {}, default=default)


def _merged(
    merged: dict[str, Quantity] | None,
    raw: Mapping[str, QuantityJson] | None,
    pick: Callable[[Quantity, Quantity], Quantity],
) -> dict[str, Quantity] | None:
    if raw is None:
        return merged
    bounds = parse_quantities(raw)
    if merged is None:
        return bounds
    for name in RESOURCES:
        if name in bounds:
            # Of equal bounds keep the later one, as the reference does: its format is printed.
            merged[name] = pick(bounds[name], merged[name]) if name in merged else bounds[name]
    return merged

"""Limits in proportion to requests, and the requests that keep a limit within a bound.

CPU is computed in millicores and memory in bytes, with integers. Results are rounded down and keep
the format of the scaled quantity.

Source: admission.md 6.3 to 6.5; vertical-pod-autoscaler/pkg/utils/vpa/limit_and_request_scaling.go.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from common.quantity import MAX_INT64, ZERO, Quantity, divide_toward_zero, divide_up
from common.resources import CPU, RESOURCES, ResourceQuantities

_NO_LIMIT = "{}: limit NOT set since originalLimit is nil or 0"
_NO_REQUEST = "{}: limit NOT set since recommendedRequest is nil or 0"
_OVERFLOW = "{}: failed to keep limit to request ratio; capping limit to int64"

NO_LIMIT = "none: the container has no limit, and the LimitRange no default"
NO_REQUEST = "none: no request is recommended"
AS_REQUEST = "same as the request: there was no request before"
EQUAL = "same as the request: they were equal before"
IN_PROPORTION = "in the proportion to the request that it had before"
CUT = "in proportion to the request, but cut at the largest number"


@dataclass(frozen=True, slots=True)
class Scaled:
    """A scaled quantity; ``overflow`` means that it was cut at the int64 maximum."""

    quantity: Quantity
    overflow: bool = False


@dataclass(frozen=True, slots=True)
class Limit:
    """A wanted limit, or None.

    ``rule`` describes how it follows from the request. ``note`` is the text of the reference, or
    empty.
    """

    quantity: Quantity | None
    rule: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """The wanted limits of a container; without limits there are no notes."""

    quantities: ResourceQuantities
    notes: tuple[str, ...] = ()
    rules: Mapping[str, str] = field(default_factory=dict)  # by resource, also without a limit


def scale_proportionally(
    resource: str, scaled: Quantity, *, base: Quantity, result: Quantity, round_up: bool = False
) -> Scaled:
    """Return ``scaled * result / base``, or ``scaled`` if the base is zero.

    ``round_up`` only affects CPU: memory is always rounded down, as in the reference.
    """
    units = _amount(resource, scaled)
    divisor = _amount(resource, base)
    if divisor:
        divide = divide_up if round_up and resource == CPU else divide_toward_zero
        units = divide(units * _amount(resource, result), divisor)
    make = Quantity.from_milli if resource == CPU else Quantity.from_value
    return Scaled(make(min(units, MAX_INT64), scaled.format), units > MAX_INT64)


def proportional_limit(
    resource: str,
    recommendation: Quantity | None,
    *,
    limit: Quantity | None,
    request: Quantity | None,
    default: Quantity | None,
) -> Limit:
    """Return the limit of one resource that keeps its present ratio to the request.

    ``default`` is the LimitRange's default limit, which replaces a missing limit.
    """
    original = default if limit is None or limit.is_zero else limit
    if original is None or original.is_zero:
        return Limit(None, NO_LIMIT, _NO_LIMIT.format(resource))
    if recommendation is None or recommendation.is_zero:
        return Limit(None, NO_REQUEST, _NO_REQUEST.format(resource))
    if request is None or request.is_zero:
        return Limit(recommendation, AS_REQUEST)
    if _equal_in_milli(request, original):
        return Limit(recommendation, EQUAL)
    scaled = scale_proportionally(resource, original, base=request, result=recommendation)
    if scaled.overflow:
        return Limit(scaled.quantity, CUT, _OVERFLOW.format(resource))
    return Limit(scaled.quantity, IN_PROPORTION)


def proportional_limits(
    recommendation: ResourceQuantities,
    *,
    limits: ResourceQuantities,
    requests: ResourceQuantities,
    defaults: ResourceQuantities,
) -> Limits:
    """Return the limits for recommended requests; only cpu and memory have one."""
    found: dict[str, Quantity] = {}
    rules: dict[str, str] = {}
    notes: list[str] = []
    for resource in RESOURCES:
        wanted = proportional_limit(
            resource,
            recommendation.get(resource),
            limit=limits.get(resource),
            request=requests.get(resource),
            default=defaults.get(resource),
        )
        rules[resource] = wanted.rule
        if wanted.quantity is not None:
            found[resource] = wanted.quantity
        if wanted.note:
            notes.append(wanted.note)
    return Limits(found, tuple(notes) if found else (), rules)


def boundary_request(
    resource: str,
    boundary: Quantity,
    *,
    limit: Quantity | None,
    request: Quantity | None,
    default: Quantity | None,
) -> Quantity:
    """Return the request whose proportional limit is ``boundary``; zero is no boundary."""
    original = default if limit is None or limit.is_zero else limit
    if original is None or original.is_zero:
        return ZERO
    if request is None or request.is_zero:
        return boundary
    return scale_proportionally(resource, request, base=original, result=boundary).quantity


def _amount(resource: str, quantity: Quantity) -> int:
    return quantity.milli if resource == CPU else quantity.value


def _equal_in_milli(left: Quantity, right: Quantity) -> bool:
    """Compare at milli scale; ``Quantity.milli`` is cut at int64, so it would equate large ones."""
    return left.round_up(-3) == right.round_up(-3)

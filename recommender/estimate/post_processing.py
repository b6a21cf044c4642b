"""From estimated amounts to what the status publishes: rounding, whole CPUs, caps, order.

Source: recommender.md section 8 and Q20; vertical-pod-autoscaler/pkg/recommender/routines and
vertical-pod-autoscaler/pkg/utils/vpa/capping.go.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from common.api.autoscaling import ResourcePolicy
from common.api.base import QuantityJson
from common.quantity import ZERO, Format, Quantity
from common.recommendation.policy import container_policy
from common.recommendation.processing import ContainerAmounts, order_bounds
from common.resources import (
    CPU,
    MEMORY,
    RESOURCES,
    ResourceQuantities,
    in_order,
    parse_quantities,
)
from recommender.estimate.estimation import ContainerEstimate
from recommender.estimate.published import Chosen, Earlier, choose
from recommender.estimate.trace import Amount, Cause, Trail, quantity

INTEGER_CPU_PREFIX = "vpa-post-processor.kubernetes.io/"
INTEGER_CPU_SUFFIX = "_integerCPU"

_SUFFIXES = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


class _Tell(Protocol):
    """Tells one step of one number of a container."""

    def __call__(
        self,
        resource: str,
        cause: Cause,
        *,
        by: str = "",
        before: Quantity | None,
        after: Quantity | None,
    ) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """How recommendations are written; the defaults are the flags'."""

    round_cpu: int = 1  # millicores: up to a multiple of it
    round_memory: int = 1  # bytes
    humanize_memory: bool = False
    integer_cpu: bool = False  # heed the annotations that ask for whole CPUs
    max_allowed: ResourceQuantities = field(default_factory=dict)  # where a policy has no maximum
    without_samples: bool = False  # containers without any get the minimum

    @property
    def is_plain(self) -> bool:
        """Whether nothing is rounded: then amounts that are close are published close."""
        rounds = self.round_cpu > 1 or self.round_memory > 1
        return not (rounds or self.humanize_memory or self.integer_cpu)


_NOTHING_EARLIER = Earlier()


def publish(
    estimates: Iterable[ContainerEstimate],
    publication: Publication,
    *,
    annotations: Mapping[str, str],
    policy: ResourcePolicy | None,
    earlier: Earlier = _NOTHING_EARLIER,
    trail: Trail | None = None,
) -> Chosen:
    """Everything that happens between the estimate and the status, in the reference's order.

    Two steps differ from the reference. What is published stays where too little is known (see
    ``recommender.estimate.published``), and the last step makes the bounds enclose the target
    (Q20). ``trail`` records each step.

    Raises:
        QuantityError: a bound of the policy is no quantity.
    """
    estimated = tuple(estimates)
    fresh = tuple(formatted(estimate, publication, trail) for estimate in estimated)
    chosen = choose(estimated, fresh, earlier, without_samples=publication.without_samples)
    amounts = chosen.amounts
    whole = with_integer_cpu(amounts, annotations) if publication.integer_cpu else amounts
    if trail is not None:
        trail.moved(Cause.UNOBSERVED, fresh, amounts)
        trail.moved(Cause.INTEGER_CPU, amounts, whole)
    capped = with_caps(whole, policy, publication.max_allowed, trail)
    ordered = tuple(order_bounds(one) for one in capped)
    if trail is not None:
        trail.moved(Cause.ORDER, capped, ordered)
    return replace(chosen, amounts=ordered)


def formatted(
    estimate: ContainerEstimate, publication: Publication, trail: Trail | None = None
) -> ContainerAmounts:
    """Round the amounts and make quantities of them; the uncapped target is the target."""

    def quantities(amount: Amount, values: Mapping[str, int]) -> dict[str, Quantity]:
        tell = None if trail is None else partial(trail.add, estimate.container, amount)
        return _quantities(values, publication, tell)

    target = quantities(Amount.TARGET, estimate.target)
    if trail is not None:
        for resource, value in target.items():
            uncapped = partial(trail.add, estimate.container, Amount.UNCAPPED_TARGET, resource)
            uncapped(Cause.BEFORE_CAPS, before=None, after=value)
    return ContainerAmounts(
        name=estimate.container,
        target=target,
        lower_bound=quantities(Amount.LOWER_BOUND, estimate.lower),
        upper_bound=quantities(Amount.UPPER_BOUND, estimate.upper),
        uncapped_target=target,
    )


def with_integer_cpu(
    amounts: tuple[ContainerAmounts, ...], annotations: Mapping[str, str]
) -> tuple[ContainerAmounts, ...]:
    """Round CPU up to whole cores for each container that an annotation of the VPA names.

    Source: recommender.md 8.3; ``IntegerCPUPostProcessor``.
    """
    named = {
        key[len(INTEGER_CPU_PREFIX) : -len(INTEGER_CPU_SUFFIX)]
        for key, value in annotations.items()
        if value == "true"
        and key.startswith(INTEGER_CPU_PREFIX)
        and key.endswith(INTEGER_CPU_SUFFIX)
    }
    named.discard("")
    return tuple(_each(one, _whole_cpus) if one.name in named else one for one in amounts)


def with_caps(
    amounts: tuple[ContainerAmounts, ...],
    policy: ResourcePolicy | None,
    max_allowed: ResourceQuantities,
    trail: Trail | None = None,
) -> tuple[ContainerAmounts, ...]:
    """Raise to minAllowed, then lower to maxAllowed, so the maximum wins; zero is no bound.

    ``max_allowed`` stands in, resource by resource, where the policy has no maximum. The
    uncapped target stays. Only bounds of what is recommended are read: a policy may have thousands.
    ``trail`` is told of each cap, whether it takes hold or not.

    Source: recommender.md 8.4; ``cappingRecommendationProcessor.Apply``.

    Raises:
        QuantityError: a bound of the policy that counts is no quantity.
    """
    capped = []
    for one in amounts:
        found = container_policy(policy, one.name)
        recommended = {*one.target, *one.lower_bound, *one.upper_bound}
        low = _bounds(found.min_allowed if found is not None else None, recommended)
        own = _bounds(found.max_allowed if found is not None else None, recommended)
        others = {name: bound for name, bound in max_allowed.items() if name not in own}
        caps = ((Cause.MIN_ALLOWED, low), (Cause.MAX_ALLOWED, own), (Cause.GLOBAL_MAX, others))
        target, lower, upper = (
            _capped(
                amount.of(one),
                caps,
                None if trail is None else partial(trail.add, one.name, amount),
            )
            for amount in (Amount.TARGET, Amount.LOWER_BOUND, Amount.UPPER_BOUND)
        )
        capped.append(replace(one, target=target, lower_bound=lower, upper_bound=upper))
    return tuple(capped)


def round_up(value: int, multiple: int) -> int:
    """Round an amount up to a multiple, which may be above the largest amount.

    Raises:
        ValueError: the multiple isn't positive.
    """
    if multiple <= 0:
        raise ValueError(f"can't round up to a multiple of {multiple}")
    factor = float(multiple)
    return int(math.ceil(float(value) / factor) * factor)


def humanize(count: int) -> str:
    """Bytes with two decimals and the largest unit that is not above them: ``800.61Mi``."""
    for suffix, unit in _SUFFIXES:
        if count >= unit:
            return f"{count / unit:.2f}{suffix}"
    return str(count)


def _quantities(
    amounts: Mapping[str, int], publication: Publication, tell: _Tell | None
) -> dict[str, Quantity]:
    found = {}
    for resource in in_order(amounts):
        if resource not in RESOURCES:
            continue
        value = amounts[resource]
        multiple = publication.round_cpu if resource == CPU else publication.round_memory
        rounded = _rounded(value, multiple)
        found[resource] = quantity(resource, rounded)
        if tell is not None and rounded != value:
            by, before = quantity(resource, multiple), quantity(resource, value)
            tell(resource, Cause.ROUNDING, by=str(by), before=before, after=found[resource])
        if resource == MEMORY and publication.humanize_memory and rounded:
            before, found[resource] = found[resource], Quantity.parse(humanize(rounded))
            if tell is not None and found[resource] != before:
                tell(resource, Cause.HUMANIZED, before=before, after=found[resource])
    return found


def _rounded(value: int, multiple: int) -> int:
    if value == 0 or multiple == 1 or multiple <= 0:  # start-up has warned of the last
        return value
    return round_up(value, multiple)


def _whole_cpus(values: ResourceQuantities) -> ResourceQuantities:
    if CPU not in values:
        return values
    return {**values, CPU: Quantity.from_value(values[CPU].value, Format.DECIMAL_SI)}


def _each(
    amounts: ContainerAmounts, change: Callable[[ResourceQuantities], ResourceQuantities]
) -> ContainerAmounts:
    return replace(
        amounts,
        target=change(amounts.target),
        lower_bound=change(amounts.lower_bound),
        upper_bound=change(amounts.upper_bound),
        uncapped_target=change(amounts.uncapped_target),
    )


def _bounds(
    written: Mapping[str, QuantityJson] | None, recommended: Collection[str]
) -> ResourceQuantities:
    there = written or {}
    return parse_quantities({name: there[name] for name in recommended if name in there})


def _capped(
    values: ResourceQuantities,
    caps: Iterable[tuple[Cause, ResourceQuantities]],
    tell: _Tell | None,
) -> dict[str, Quantity]:
    capped = {}
    for resource, value in values.items():
        now = value
        for cause, bounds in caps:
            bound, before = bounds.get(resource, ZERO), now
            if bound.is_zero:
                continue
            beyond = before < bound if cause is Cause.MIN_ALLOWED else before > bound
            now = bound if beyond else before
            if tell is not None:
                tell(resource, cause, by=str(bound), before=before, after=now)
        capped[resource] = now
    return capped

"""Post-processing of estimated amounts for the status: rounding, whole CPUs, caps, order.

Source: recommender.md section 8 and Q20; vertical-pod-autoscaler/pkg/recommender/routines and
vertical-pod-autoscaler/pkg/utils/vpa/capping.go.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from common.api.autoscaling import ResourcePolicy
from common.api.base import QuantityJson
from common.quantity import ZERO, Format, Quantity
from common.recommendation.amounts import ContainerAmounts
from common.recommendation.policy import container_policy
from common.recommendation.processing import order_bounds
from common.resources import (
    CPU,
    MEMORY,
    RESOURCES,
    ResourceQuantities,
    cpu_quantity,
    memory_quantity,
    parse_quantities,
)
from recommender.estimate.amount_selection import (
    CurrentRecommendation,
    SelectedAmounts,
    select_amounts,
)
from recommender.estimate.step_reasons import StepReason
from recommender.estimate.vpa_estimates import ContainerEstimate

INTEGER_CPU_PREFIX = "vpa-post-processor.kubernetes.io/"
INTEGER_CPU_SUFFIX = "_integerCPU"

_SUFFIXES = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


@dataclass(frozen=True, slots=True, kw_only=True)
class PostProcessingSettings:
    """Settings of post-processing; defaults are those of the flags."""

    round_cpu: int = 1  # millicores: round up to a multiple of it
    round_memory: int = 1  # bytes
    humanize_memory: bool = False
    integer_cpu: bool = False  # apply the integerCPU annotations
    max_allowed: ResourceQuantities = field(default_factory=dict)  # if the policy has no maximum
    without_samples: bool = False  # publish the minimum for containers without samples

    @property
    def is_plain(self) -> bool:
        """Return True if nothing is rounded, so that close estimates become close amounts."""
        rounds = self.round_cpu > 1 or self.round_memory > 1
        return not (rounds or self.humanize_memory or self.integer_cpu)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingStage:
    """The amounts of all containers after one step; ``by`` has its operands, by container."""

    reason: StepReason
    amounts: tuple[ContainerAmounts, ...]
    by: Mapping[str, ResourceQuantities] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostProcessed:
    """The results of all steps of post-processing for a VPA."""

    estimated: tuple[ContainerAmounts, ...]
    stages: tuple[ProcessingStage, ...]
    selected: SelectedAmounts

    @property
    def amounts(self) -> tuple[ContainerAmounts, ...]:
        """Return the result, sorted by container."""
        return self.stages[-1].amounts


_NO_RECOMMENDATION = CurrentRecommendation()


def post_process(
    estimates: Sequence[ContainerEstimate],
    publication: PostProcessingSettings,
    *,
    annotations: Mapping[str, str],
    policy: ResourcePolicy | None,
    current: CurrentRecommendation = _NO_RECOMMENDATION,
) -> PostProcessed:
    """Make the recommendation of a VPA from its estimates, in the reference's order of steps.

    Two steps differ from the reference. Without enough samples the amounts in the status stay
    (see ``recommender.estimate.amount_selection``). The last step makes the bounds enclose the
    target (Q20).

    Raises:
        QuantityError: a bound of the policy is not a quantity.
    """
    estimated = tuple(amounts_of(estimate) for estimate in estimates)
    rounded = rounding_stages(estimated, publication)
    fresh = rounded[-1].amounts
    selected = select_amounts(
        estimates, fresh, current, without_samples=publication.without_samples
    )
    whole = selected.amounts
    if publication.integer_cpu:
        whole = with_integer_cpu(whole, annotations)
    caps = cap_stages(whole, policy, publication.max_allowed)
    ordered = tuple(order_bounds(one) for one in caps[-1].amounts)
    stages = (
        *rounded,
        ProcessingStage(reason=StepReason.UNOBSERVED, amounts=selected.amounts),
        ProcessingStage(reason=StepReason.INTEGER_CPU, amounts=whole),
        *caps,
        ProcessingStage(reason=StepReason.ORDER, amounts=ordered),
    )
    return PostProcessed(estimated=estimated, stages=stages, selected=selected)


def amounts_of(estimate: ContainerEstimate) -> ContainerAmounts:
    """Convert estimated amounts to quantities; the uncapped target is the target."""
    target = _quantities(estimate.target)
    return ContainerAmounts(
        name=estimate.container,
        target=target,
        lower_bound=_quantities(estimate.lower),
        upper_bound=_quantities(estimate.upper),
        uncapped_target=target,
    )


def rounding_stages(
    amounts: tuple[ContainerAmounts, ...], publication: PostProcessingSettings
) -> tuple[ProcessingStage, ProcessingStage]:
    """Round up to the multiples of the flags, then write memory in its largest unit."""
    multiples = {CPU: publication.round_cpu, MEMORY: publication.round_memory}
    multiples = {name: multiple for name, multiple in multiples.items() if multiple > 1}
    rounded = amounts
    if multiples:
        rounded = tuple(_each(one, partial(_rounded, multiples)) for one in amounts)
    humanized = rounded
    if publication.humanize_memory:
        humanized = tuple(_each(one, _humanized) for one in rounded)
    by = {name: quantity(name, multiple) for name, multiple in multiples.items()}
    return (
        ProcessingStage(
            reason=StepReason.ROUNDING, amounts=rounded, by={one.name: by for one in amounts}
        ),
        ProcessingStage(reason=StepReason.HUMANIZED, amounts=humanized),
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


def cap_stages(
    amounts: tuple[ContainerAmounts, ...],
    policy: ResourcePolicy | None,
    max_allowed: ResourceQuantities,
) -> tuple[ProcessingStage, ProcessingStage, ProcessingStage]:
    """Raise to minAllowed, then lower to maxAllowed, so the maximum wins; zero is no bound.

    ``max_allowed`` applies to resources without a maximum in the policy. The uncapped target
    stays. Only bounds of recommended resources are parsed, because a policy may have thousands.

    Source: recommender.md 8.4; ``cappingRecommendationProcessor.Apply``.

    Raises:
        QuantityError: a bound of a recommended resource is not a quantity.
    """
    lowest: dict[str, ResourceQuantities] = {}
    highest: dict[str, ResourceQuantities] = {}
    others: dict[str, ResourceQuantities] = {}
    for one in amounts:
        found = container_policy(policy, one.name)
        recommended = {*one.target, *one.lower_bound, *one.upper_bound}
        low = _bounds(found.min_allowed if found is not None else None, recommended)
        own = _bounds(found.max_allowed if found is not None else None, recommended)
        rest = {name: bound for name, bound in max_allowed.items() if name not in own}
        lowest[one.name], highest[one.name] = _without_zeros(low), _without_zeros(own)
        others[one.name] = _without_zeros(rest)
    raised = tuple(_capped(one, lowest[one.name], max) for one in amounts)
    lowered = tuple(_capped(one, highest[one.name], min) for one in raised)
    capped = tuple(_capped(one, others[one.name], min) for one in lowered)
    return (
        ProcessingStage(reason=StepReason.MIN_ALLOWED, amounts=raised, by=lowest),
        ProcessingStage(reason=StepReason.MAX_ALLOWED, amounts=lowered, by=highest),
        ProcessingStage(reason=StepReason.GLOBAL_MAX, amounts=capped, by=others),
    )


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
    """Format bytes with two decimals, in the largest unit that is not above them: ``800.61Mi``."""
    for suffix, unit in _SUFFIXES:
        if count >= unit:
            return f"{count / unit:.2f}{suffix}"
    return str(count)


def quantity(resource: str, amount: int) -> Quantity:
    """Return millicores or bytes as the quantity of the status."""
    return cpu_quantity(amount) if resource == CPU else memory_quantity(amount)


def _quantities(amounts: Mapping[str, int]) -> dict[str, Quantity]:
    return {name: quantity(name, amounts[name]) for name in RESOURCES if name in amounts}


def _rounded(multiples: Mapping[str, int], values: ResourceQuantities) -> ResourceQuantities:
    rounded = dict(values)
    for name, multiple in multiples.items():
        if name in values:
            amount = values[name].milli if name == CPU else values[name].value
            rounded[name] = quantity(name, round_up(amount, multiple))
    return rounded


def _humanized(values: ResourceQuantities) -> ResourceQuantities:
    memory = values.get(MEMORY, ZERO)
    return values if memory.is_zero else {**values, MEMORY: Quantity.parse(humanize(memory.value))}


def _whole_cpus(values: ResourceQuantities) -> ResourceQuantities:
    if CPU not in values:
        return values
    return {**values, CPU: Quantity.from_value(values[CPU].value, Format.DECIMAL_SI)}


def _each(
    amounts: ContainerAmounts, change: Callable[[ResourceQuantities], ResourceQuantities]
) -> ContainerAmounts:
    return ContainerAmounts(
        name=amounts.name,
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


def _without_zeros(bounds: ResourceQuantities) -> ResourceQuantities:
    return {name: bound for name, bound in bounds.items() if not bound.is_zero}


def _capped(
    amounts: ContainerAmounts,
    bounds: ResourceQuantities,
    pick: Callable[[Quantity, Quantity], Quantity],
) -> ContainerAmounts:
    if not bounds:
        return amounts

    def capped(values: ResourceQuantities) -> ResourceQuantities:
        return {
            name: pick(value, bounds[name]) if name in bounds else value
            for name, value in values.items()
        }

    return replace(
        amounts,
        target=capped(amounts.target),
        lower_bound=capped(amounts.lower_bound),
        upper_bound=capped(amounts.upper_bound),
    )

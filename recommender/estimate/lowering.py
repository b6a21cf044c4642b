"""Targets that are lowered together because of nodes or quotas."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from common.quantity import Quantity
from common.recommendation.amounts import ContainerAmounts
from common.resources import CPU, MEMORY, RESOURCES, ResourceQuantities
from common.scheduling.pod_claims import Targets, as_numbers, number
from common.scheduling.pod_sum import Numbers
from recommender.estimate.estimation import EstimationSettings
from recommender.estimate.post_processing import ProcessingStage, quantity
from recommender.estimate.step_reasons import StepReason

_MIB = 1 << 20
_GROWTH = 10  # percent: the default of the updater's --pod-update-threshold


def lowest_targets(
    stages: Sequence[ProcessingStage], containers: Sequence[str], estimation: EstimationSettings
) -> Targets:
    """Return the amounts below which no target is lowered.

    They are minAllowed or, if larger, the smallest estimate: the pod's minimum, divided by its
    containers. With less a pod would hardly run. A target of zero would remove the request.
    """
    allowed: Mapping[str, ResourceQuantities] = next(
        (each.by for each in stages if each.reason is StepReason.MIN_ALLOWED), {}
    )
    count = max(1, len(containers))
    least = {
        CPU: max(1, int(estimation.pod_min_cpu / count)),
        MEMORY: max(1, int(estimation.pod_min_memory * _MIB / count)),
    }
    own = as_numbers((name, allowed.get(name, {})) for name in containers)
    return {
        name: {each: max(least[each], there.get(each, 0)) for each in RESOURCES}
        for name, there in own.items()
    }


def kept_targets(wanted: Numbers, published: Numbers, lowest: Numbers) -> Numbers | None:
    """Return the published targets of a resource, at most the wanted ones.

    Return None if a container has no published target.
    """
    if not wanted.keys() <= published.keys():
        return None
    return {
        name: min(amount, max(published[name], lowest[name])) for name, amount in wanted.items()
    }


def grows_enough(kept: Numbers, fitting: Numbers, wanted: Numbers) -> bool:
    """Return whether targets that fit are enough above the published ones to replace them.

    If the wanted targets fit, they replace smaller ones. Lowered targets grow only by ten percent
    or more: if the lower bound of a recommendation is above them, the updater replaces all pods at
    once.
    """
    before, after = total(kept), total(fitting)
    return after > before and (fitting == wanted or after * 100 >= before * (100 + _GROWTH))


def total(amounts: Numbers) -> int:
    """Return the sum over all containers."""
    return sum(amounts.values())


def whole_mib(amount: int, before: int, lowest: int) -> int:
    """Round memory that was lowered down to whole MiB, if ``lowest`` allows it."""
    whole = amount // _MIB * _MIB
    return whole if amount < before and whole >= max(1, lowest) else amount


def lowered(one: ContainerAmounts, most: Mapping[str, int]) -> ContainerAmounts:
    """Return a container's amounts with targets of at most ``most``, by resource.

    The lower bound is at most the target. The upper bound stays: a running pod has its place, and
    is not to be updated at once because a cap has moved (X131, X134). The updater doesn't see pods
    without a node.
    """
    caps = {
        resource: quantity(resource, amount)
        for resource, amount in most.items()
        if amount < number(resource, one.target[resource])
    }
    if not caps:
        return one

    def capped(values: ResourceQuantities) -> dict[str, Quantity]:
        return {name: min(value, caps.get(name, value)) for name, value in values.items()}

    return replace(one, target=capped(one.target), lower_bound=capped(one.lower_bound))

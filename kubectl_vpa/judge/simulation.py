"""The numbers of VPAs with other settings, beside those with the present ones."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from common.api.autoscaling import (
    ContainerPolicy,
    ResourcePolicy,
    VerticalPodAutoscaler,
    VpaStatus,
)
from common.quantity import ZERO, Quantity
from common.recommendation.amounts import ContainerAmounts
from common.recommendation.decision_trace import Amount
from common.recommendation.policy import EVERY_OTHER
from common.resources import RESOURCES
from common.vpa_creation.policy import CreationPolicy
from kubectl_vpa.judge.vpa_fields import workload
from kubectl_vpa.judge.vpa_status import VpaFacts
from kubectl_vpa.results.simulate import NowAndSimulated, SimulatedNumbers, SimulatedTotal
from recommender.model.keys import VpaKey
from recommender.publish.status import recommended_amounts

_OFF = "Off"
_NOTICED = 0.05  # relative difference of a target from that of the status
_NOTHING = ContainerAmounts(name="", target={})

Statuses = Mapping[VpaKey, VpaStatus]


def with_policy(vpa: VerticalPodAutoscaler, change: CreationPolicy) -> VerticalPodAutoscaler:
    """Return the VPA with the bounds and controlled resources of ``change`` in all its policies.

    What is None there stays as it is, and so do bounds of the other resource, and containers with
    mode Off.
    """
    policy = vpa.spec.resource_policy or ResourcePolicy()
    there = policy.container_policies or ()
    if all(each.container_name != EVERY_OTHER for each in there):
        there = (*there, ContainerPolicy(container_name=EVERY_OTHER))
    changed = tuple(each if each.mode == _OFF else _changed(each, change) for each in there)
    policy = replace(policy, container_policies=changed)
    return replace(vpa, spec=replace(vpa.spec, resource_policy=policy))


def _changed(policy: ContainerPolicy, change: CreationPolicy) -> ContainerPolicy:
    controlled = change.controlled_resources
    return replace(
        policy,
        min_allowed={**(policy.min_allowed or {}), **(change.min_allowed or {})},
        max_allowed={**(policy.max_allowed or {}), **(change.max_allowed or {})},
        controlled_resources=policy.controlled_resources if controlled is None else controlled,
    )


def simulated_numbers(
    facts: Iterable[VpaFacts], now: Statuses, simulated: Statuses
) -> Iterator[SimulatedNumbers]:
    """Yield both numbers of each resource and container with a recommendation."""
    for each in facts:
        meta = each.vpa.metadata
        key = _key(each)
        before, after = (
            recommended_amounts(some.get(key, VpaStatus())) for some in (now, simulated)
        )
        pods = None if each.groups is None else sum(group.count for group in each.groups)
        for name in sorted(before.keys() | after.keys()):
            old, new = before.get(name, _NOTHING), after.get(name, _NOTHING)
            for resource in RESOURCES:
                if resource not in old.target and resource not in new.target:
                    continue
                yield SimulatedNumbers(
                    namespace=meta.namespace,
                    name=meta.name,
                    **workload(each.vpa),
                    container=name,
                    resource=resource,
                    target=_both(old, new, Amount.TARGET, resource),
                    lower_bound=_both(old, new, Amount.LOWER_BOUND, resource),
                    upper_bound=_both(old, new, Amount.UPPER_BOUND, resource),
                    change=_change(old.target.get(resource), new.target.get(resource)),
                    pods=pods,
                    difference=_difference(
                        old.target.get(resource), new.target.get(resource), pods
                    ),
                )


def totals(results: Sequence[SimulatedNumbers]) -> tuple[SimulatedTotal, ...]:
    """Return the sums over all pods, by resource; a container counts if both numbers are known."""
    return tuple(_total(resource, results) for resource in RESOURCES)


def deviating(facts: Iterable[VpaFacts], now: Statuses) -> int:
    """Return the number of VPAs whose status has targets that are not close to the computed ones.

    A VPA without a recommendation doesn't count.
    """
    return sum(
        _deviates(recommended_amounts(each.vpa.status), recommended_amounts(status))
        for each in facts
        if (status := now.get(_key(each))) is not None
    )


def _key(facts: VpaFacts) -> VpaKey:
    return VpaKey(facts.vpa.metadata.namespace, facts.vpa.metadata.name)


def _deviates(
    published: Mapping[str, ContainerAmounts], computed: Mapping[str, ContainerAmounts]
) -> bool:
    changes = (
        _change(amount, computed[name].target.get(resource))
        for name, one in published.items()
        if name in computed
        for resource, amount in one.target.items()
    )
    return any(change is not None and abs(change) > _NOTICED for change in changes)


def _total(resource: str, results: Sequence[SimulatedNumbers]) -> SimulatedTotal:
    now = simulated = ZERO
    for each in results:
        before, after = each.target.now, each.target.simulated
        if each.resource == resource and each.pods and before is not None and after is not None:
            now += _times(Quantity.parse(before), each.pods)
            simulated += _times(Quantity.parse(after), each.pods)
    return SimulatedTotal(
        resource=resource,
        now=str(now),
        simulated=str(simulated),
        difference=str(simulated - now),
        change=_change(now, simulated),
    )


def _both(
    old: ContainerAmounts, new: ContainerAmounts, amount: Amount, resource: str
) -> NowAndSimulated:
    before, after = (amount.of(each).get(resource) for each in (old, new))
    return NowAndSimulated(
        now=None if before is None else str(before),
        simulated=None if after is None else str(after),
    )


def _change(before: Quantity | None, after: Quantity | None) -> float | None:
    if before is None or after is None or before.is_zero:
        return None
    return round(after.nanos / before.nanos - 1, 4)


def _difference(before: Quantity | None, after: Quantity | None, pods: int | None) -> str | None:
    if before is None or after is None or pods is None:
        return None
    return str(_times(after - before, pods))


def _times(quantity: Quantity, count: int) -> Quantity:
    return Quantity(quantity.nanos * count, quantity.format)

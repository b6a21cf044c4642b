"""The numbers of VPAs with other settings, beside those with the present ones."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from common.api.autoscaling import (
    ContainerPolicy,
    ResourcePolicy,
    VerticalPodAutoscaler,
    VpaStatus,
)
from common.errors import ConfigError
from common.quantity import ZERO, Quantity, parse_unsigned
from common.recommendation.amounts import ContainerAmounts
from common.recommendation.decision_trace import Amount
from common.resources import CPU, MEMORY
from kubectl_vpa.judge.vpa_fields import workload
from kubectl_vpa.judge.vpa_status import VpaFacts
from kubectl_vpa.results.simulate import NowAndSimulated, SimulatedNumbers, SimulatedTotal
from recommender.model.keys import VpaKey
from recommender.publish.status import recommended_amounts

_RESOURCES = (CPU, MEMORY)
_ALL = "*"
_OFF = "Off"
_NOTICED = 0.05  # relative difference of a target from that of the status
_NOTHING = ContainerAmounts(name="", target={})

Statuses = Mapping[VpaKey, VpaStatus]


def bounds(text: str) -> Mapping[str, Quantity]:
    """Parse ``cpu=100m,memory=1Gi``.

    Raises:
        ValueError: a resource is unknown or occurs twice, or an amount is not a quantity.
    """
    found: dict[str, Quantity] = {}
    for part in text.split(","):
        name, equals, amount = part.partition("=")
        if name not in _RESOURCES or not equals:
            raise ValueError(f"must be like cpu=100m,memory=1Gi: {text!r}")
        if name in found:
            raise ValueError(f"{name} occurs twice: {text!r}")
        found[name] = parse_unsigned(amount)
    return found


def resources(text: str) -> tuple[str, ...]:
    """Parse ``cpu``, ``memory`` or ``cpu,memory``.

    Raises:
        ValueError: a resource is unknown.
    """
    named = tuple(text.split(","))
    if not named or set(named) - set(_RESOURCES):
        raise ValueError(f"must be cpu, memory or cpu,memory: {text!r}")
    return named


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChange:
    """Changes of the policies of all containers; what is empty or None stays as it is."""

    min_allowed: Mapping[str, Quantity] = field(default_factory=dict)
    max_allowed: Mapping[str, Quantity] = field(default_factory=dict)
    controlled_resources: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Validate the bounds.

        Raises:
            ConfigError: a minimum is above the maximum.
        """
        for name, least in self.min_allowed.items():
            most = self.max_allowed.get(name)
            if most is not None and most < least:
                raise ConfigError(f"--min-allowed {name}={least} is above --max-allowed {most}")

    @property
    def shown(self) -> Mapping[str, str]:
        """Return the changes as on the command line, by flag."""
        found = {"--min-allowed": self.min_allowed, "--max-allowed": self.max_allowed}
        shown = {
            flag: ",".join(f"{name}={quantity}" for name, quantity in amounts.items())
            for flag, amounts in found.items()
            if amounts
        }
        if self.controlled_resources is not None:
            shown["--controlled-resources"] = ",".join(self.controlled_resources)
        return shown

    @property
    def is_empty(self) -> bool:
        """Return True if nothing changes."""
        return not self.shown

    def applied_to(self, vpa: VerticalPodAutoscaler) -> VerticalPodAutoscaler:
        """Return the VPA with the changed policies; containers with mode Off stay off."""
        if self.is_empty:
            return vpa
        policy = vpa.spec.resource_policy or ResourcePolicy()
        there = policy.container_policies or ()
        if all(each.container_name != _ALL for each in there):
            there = (*there, ContainerPolicy(container_name=_ALL))
        changed = replace(policy, container_policies=tuple(map(self._changed, there)))
        return replace(vpa, spec=replace(vpa.spec, resource_policy=changed))

    def _changed(self, policy: ContainerPolicy) -> ContainerPolicy:
        if policy.mode == _OFF:
            return policy
        controlled = self.controlled_resources
        return replace(
            policy,
            min_allowed={**(policy.min_allowed or {}), **_texts(self.min_allowed)},
            max_allowed={**(policy.max_allowed or {}), **_texts(self.max_allowed)},
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
            for resource in _RESOURCES:
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
    return tuple(_total(resource, results) for resource in _RESOURCES)


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


def _texts(quantities: Mapping[str, Quantity]) -> Mapping[str, str]:
    return {name: str(quantity) for name, quantity in quantities.items()}

"""A trace of the steps that lead to the numbers of a decision.

The functions that compute numbers return their intermediate values together with the result.
A ``DecisionTrace`` records these values and computes none.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from common.quantity import Quantity
from common.recommendation.amounts import ContainerAmounts
from common.resources import ResourceQuantities, in_order


class Amount(enum.StrEnum):
    """The number of a container that a step changes."""

    REQUEST = "request"  # of a pod, computed from the recommended target
    LIMIT = "limit"
    TARGET = "target"
    LOWER_BOUND = "lowerBound"
    UPPER_BOUND = "upperBound"
    UNCAPPED_TARGET = "uncappedTarget"

    def of(self, amounts: ContainerAmounts | None) -> ResourceQuantities:
        """Return this number of a container, by resource; for a request, return the target."""
        if amounts is None or self is Amount.LIMIT:
            return {}
        match self:
            case Amount.LOWER_BOUND:
                return amounts.lower_bound
            case Amount.UPPER_BOUND:
                return amounts.upper_bound
            case Amount.UNCAPPED_TARGET:
                return amounts.uncapped_target
        return amounts.target


@dataclass(frozen=True, slots=True)
class ResourceStep:
    """The value of one resource after one step; None if it has no value."""

    resource: str
    reason: str
    value: Quantity | None


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One number of a container before and after one step; None if it has no value.

    ``by`` is the operand of the step, for example a factor or a bound; empty if there is none.
    """

    amount: Amount
    resource: str
    reason: str
    by: str
    before: Quantity | None
    after: Quantity | None


class DecisionTrace:
    """A record of steps by container, in their order."""

    def __init__(self) -> None:
        self._steps: dict[str, list[TraceStep]] = {}  # by container

    @property
    def containers(self) -> Iterable[str]:
        """Return the containers with steps, in the order of their first step."""
        return self._steps.keys()

    def of(self, container: str) -> Sequence[TraceStep]:
        """Return the steps of one container."""
        return self._steps.get(container, ())

    def record(
        self,
        container: str,
        amount: Amount,
        resource: str,
        reason: str,
        *,
        before: Quantity | None,
        after: Quantity | None,
        by: str = "",
    ) -> None:
        """Record one step of one number."""
        step = TraceStep(amount, resource, reason, by, before, after)
        self._steps.setdefault(container, []).append(step)

    def record_steps(self, container: str, amount: Amount, steps: Iterable[ResourceStep]) -> None:
        """Record steps; each starts from the last recorded value."""
        for step in steps:
            before = self._last(container, amount, step.resource)
            self.record(
                container, amount, step.resource, step.reason, before=before, after=step.value
            )

    def record_values(
        self, container: str, amount: Amount, values: ResourceQuantities, reason: str
    ) -> None:
        """Record one step for several resources."""
        steps = (ResourceStep(resource, reason, values[resource]) for resource in in_order(values))
        self.record_steps(container, amount, steps)

    def record_dropped(self, container: str, reason: str, resource: str | None = None) -> None:
        """Record that the numbers of a container are dropped, for one resource or for all."""
        recorded = {(each.amount, each.resource): each.after for each in self.of(container)}
        for (amount, name), before in recorded.items():
            if resource in (None, name):
                self.record(container, amount, name, reason, before=before, after=None)

    def record_changes(
        self,
        amounts: Iterable[Amount],
        before: Iterable[ContainerAmounts],
        after: Iterable[ContainerAmounts],
        reason: str,
        *,
        lowered: str = "",
        dropped: str = "",
        by: Mapping[str, ResourceQuantities] | None = None,
        with_unchanged: bool = False,
    ) -> None:
        """Record the numbers that one step changed, for all containers.

        ``lowered`` and ``dropped``, if set, replace ``reason`` for numbers that became smaller or
        were removed. ``by`` are the operands, by container and resource. With ``with_unchanged``,
        record a number with an operand even if it didn't change.
        """
        kinds = tuple(amounts)
        old_by_name, new_by_name = ({each.name: each for each in some} for some in (before, after))
        for container in sorted(old_by_name.keys() | new_by_name.keys()):
            operands = {} if by is None else by.get(container, {})
            for amount in kinds:
                olds = amount.of(old_by_name.get(container))
                news = amount.of(new_by_name.get(container))
                for resource in in_order(olds.keys() | news.keys()):
                    old, new = olds.get(resource), news.get(resource)
                    operand = operands.get(resource)
                    if old == new and not (with_unchanged and operand is not None):
                        continue
                    why = reason
                    if new is None:
                        why = dropped or reason
                    elif old is not None and new < old:
                        why = lowered or reason
                    text = "" if operand is None else str(operand)
                    self.record(container, amount, resource, why, before=old, after=new, by=text)

    def _last(self, container: str, amount: Amount, resource: str) -> Quantity | None:
        for step in reversed(self.of(container)):
            if step.amount is amount and step.resource == resource:
                return step.after
        return None

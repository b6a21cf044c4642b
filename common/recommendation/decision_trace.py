"""How the numbers of a decision came about, step by step.

The functions that compute numbers return their intermediate values together with the result.
An explanation records these in a ``DecisionTrace``, so it never computes a number itself.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from common.quantity import Quantity
from common.recommendation.amounts import ContainerAmounts
from common.resources import ResourceQuantities, in_order


class Amount(enum.StrEnum):
    """Which number of a container a step is about."""

    REQUEST = "request"  # what the recommended target becomes in a pod
    LIMIT = "limit"
    TARGET = "target"
    LOWER_BOUND = "lowerBound"
    UPPER_BOUND = "upperBound"
    UNCAPPED_TARGET = "uncappedTarget"

    def of(self, amounts: ContainerAmounts | None) -> ResourceQuantities:
        """Return this number of a container, by resource; a request is the target."""
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
    """The number of one resource after one step; None: there is no number."""

    resource: str
    reason: str
    value: Quantity | None


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One number of a container before and after one step; None: there is no number.

    ``by`` is the operand of the step, for example a factor or a bound; empty if there is none.
    """

    amount: Amount
    resource: str
    reason: str
    by: str
    before: Quantity | None
    after: Quantity | None


class DecisionTrace:
    """Records steps by container, in the order in which they are taken."""

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
        """Record steps that start from the last value of their number."""
        for step in steps:
            before = self._last(container, amount, step.resource)
            self.record(
                container, amount, step.resource, step.reason, before=before, after=step.value
            )

    def record_values(
        self, container: str, amount: Amount, values: ResourceQuantities, reason: str
    ) -> None:
        """Record one step of several resources."""
        steps = (ResourceStep(resource, reason, values[resource]) for resource in in_order(values))
        self.record_steps(container, amount, steps)

    def record_dropped(self, container: str, reason: str, resource: str | None = None) -> None:
        """Record that numbers of a container are dropped: of one resource, or all of them."""
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
        """Record which numbers of all containers a step has changed.

        ``lowered`` and ``dropped`` are the reasons of numbers that became smaller, and of those
        that are gone, where these reasons differ. ``by`` are the operands, by container and
        resource; ``with_unchanged`` records numbers that have one even if it changed nothing.
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

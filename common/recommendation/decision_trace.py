"""What happened to the numbers of a pod on their way from a recommendation to a patch.

The functions that compute the numbers tell a trail, where they are given one, each step as they
take it. So what people are shown is what was done, and never a second opinion.
"""

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from common.quantity import Quantity
from common.resources import ResourceQuantities, in_order

WHOLE_POD = ""  # stands for a container where it is about spec.resources of the pod

UNCAPPED = "estimated by the recommender (uncappedTarget)"
RECOMMENDED = "recommended in the VPA's status"
SWITCHED_OFF = "dropped: the container's policy has mode Off"
NO_CONTAINER = "dropped: the pod has no such container"
RAISED_FOR_POD = "raised in proportion to fit Min in pod LimitRange"
LOWERED_FOR_POD = "lowered in proportion to fit Max in pod LimitRange"
LOWERED_FOR_POD_LEVEL = "lowered in proportion to fit spec.resources of the pod"
NO_ROOM_IN_POD = "dropped: spec.resources of the pod leave no room for it"
SHARED_WITH_ALL = (
    "lowered in proportion to fit Max in pod LimitRange, although nothing is recommended for it: "
    "it would leave nothing to the others"
)
FOLLOWED = "moved along with the containers"
CUT_AT_POD_LEVEL = "cut at the limit in spec.resources of the pod"
ONE_UNIT = "raised to one unit: nothing is scaled down to zero"
KEPT = "kept as it is: only rounding would change it"
ORDERED = "moved to the target: lower bound <= target <= upper bound"
REQUESTS_ONLY = "left as it is: controlledValues is RequestsOnly"


class Amount(enum.StrEnum):
    """Which of a container's numbers it is about."""

    REQUEST = "request"  # what the recommended target becomes
    LIMIT = "limit"
    LOWER_BOUND = "lowerBound"  # the bounds are the updater's; no pod is given them
    UPPER_BOUND = "upperBound"


@dataclass(frozen=True, slots=True)
class AppliedCap:
    """One cap that took hold; ``cap`` as in the annotation ``vpaUpdates``."""

    resource: str
    cap: str
    value: Quantity


@dataclass(frozen=True, slots=True)
class Step:
    """One number after one step; None: there is no number any more, or there never was."""

    container: str
    amount: Amount
    resource: str
    cause: str
    value: Quantity | None


class DecisionTrace:
    """Collects steps in the order in which they are taken."""

    def __init__(self) -> None:
        self._steps: dict[str, list[Step]] = {}  # by container

    @property
    def containers(self) -> Iterable[str]:
        """The containers that there are steps of, in the order of their first."""
        return self._steps.keys()

    def add(
        self, container: str, amount: Amount, resource: str, cause: str, value: Quantity | None
    ) -> None:
        """Tell one step."""
        step = Step(container, amount, resource, cause, value)
        self._steps.setdefault(container, []).append(step)

    def given(self, container: str, amount: Amount, values: ResourceQuantities, cause: str) -> None:
        """Tell where numbers begin."""
        for resource in in_order(values):
            self.add(container, amount, resource, cause, values[resource])

    def ended(self, container: str, cause: str) -> None:
        """Tell that a container's numbers are dropped, all of them."""
        told = {(each.amount, each.resource): None for each in self.of(container)}
        for amount, resource in told:
            self.add(container, amount, resource, cause, None)

    def capped(self, container: str, amount: Amount, changes: Iterable[AppliedCap]) -> None:
        """Tell the caps that took hold."""
        for change in changes:
            self.add(container, amount, change.resource, change.cap, change.value)

    def moved(
        self,
        container: str,
        amount: Amount,
        before: ResourceQuantities,
        after: ResourceQuantities,
        *,
        raised: str,
        lowered: str = "",
    ) -> None:
        """Tell which numbers are others than before, as ``raised`` or ``lowered``."""
        for resource in in_order(after):
            old, new = before.get(resource), after[resource]
            if old != new:
                down = old is not None and new < old
                self.add(container, amount, resource, lowered if down and lowered else raised, new)

    def of(self, container: str) -> Sequence[Step]:
        """The steps of one container."""
        return self._steps.get(container, ())

"""How the numbers of a recommendation come about, step by step.

The functions that make the numbers tell a trail of each step, where they are given one. So what
people are shown is what was published, and never a second opinion.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from common.codes import Code
from common.quantity import Quantity
from common.recommendation.processing import ContainerAmounts
from common.resources import CPU, ResourceQuantities, cpu_quantity, in_order, memory_quantity
from recommender.model.column_table import Ints


class Amount(enum.StrEnum):
    """Which number of a container it is about, as the status calls it."""

    TARGET = "target"
    LOWER_BOUND = "lowerBound"
    UPPER_BOUND = "upperBound"
    UNCAPPED_TARGET = "uncappedTarget"

    def of(self, amounts: ContainerAmounts | None) -> ResourceQuantities:
        """This one of a container's amounts, by resource."""
        if amounts is None:
            return {}
        return {
            Amount.TARGET: amounts.target,
            Amount.LOWER_BOUND: amounts.lower_bound,
            Amount.UPPER_BOUND: amounts.upper_bound,
            Amount.UNCAPPED_TARGET: amounts.uncapped_target,
        }[self]


class Cause(Code):
    """A step; beside each stands what it means, in the words of ``GET /debug/vpa``."""

    PERCENTILE = "percentile", "The usage that this part of the samples' weight stays within."
    MARGIN = "margin", "--recommendation-margin-fraction is added."
    CONFIDENCE = "confidence", "The less history there is, the further a bound is moved away."
    MINIMUM = "minimum", "The pod's minimum, divided by its containers."
    NOT_CONTROLLED = "not_controlled", "controlledResources of the policy leaves it out."
    ROUNDING = "rounding", "Up to a multiple."
    HUMANIZED = "humanized", "--humanize-memory: two decimals in the largest unit."
    BEFORE_CAPS = "before_caps", "What the target is before anything caps it."
    UNOBSERVED = "unobserved", "Too little is known: what is published stays, or there is nothing."
    INTEGER_CPU = "integer_cpu", "Up to whole cores, as an annotation of the VPA asks."
    MIN_ALLOWED = "min_allowed", "minAllowed of the policy."
    MAX_ALLOWED = "max_allowed", "maxAllowed of the policy."
    GLOBAL_MAX = "global_max_allowed", "--container-recommendation-max-allowed-cpu or -memory."
    ORDER = "order_bounds", "Moved to the target: lower bound <= target <= upper bound."
    TARGET_UNKNOWN = "target_unknown", "The pods can't be told now: what is published stays."
    HISTORY_MISSING = "history_missing", "History is being loaded: what is published stays."
    TOO_CLOSE = "too_close", "Nearly what is published: not written yet."


@dataclass(frozen=True, slots=True)
class Step:
    """One number before and after one step; None: there is none (yet, or any more).

    ``by`` is what the step works with: a percentile, a factor, a bound; empty if nothing.
    """

    amount: Amount
    resource: str
    cause: Cause
    by: str
    before: Quantity | None
    after: Quantity | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the numbers of a container are made of; times are instants, of CPU samples alone.

    ``weight`` is what all samples weigh together at that time, by resource: one CPU sample weighs
    a tenth when it comes, the memory peak of a window weighs 1 at the end of the window.
    """

    samples: int
    first_sample: int
    last_sample: int
    sharing: int  # containers that share the pod's minimum, this one included
    weight: Mapping[str, float]
    confidence: Mapping[str, float]  # in units of its interval


class Trail:
    """Collects steps in the order in which they are taken, and what they started from."""

    def __init__(self, at: int) -> None:
        """``at`` is the instant at which weights are told."""
        self.at = at
        self.evidence: dict[str, Evidence] = {}  # by container
        self._steps: dict[str, list[Step]] = {}  # by container

    @property
    def containers(self) -> Sequence[str]:
        """The containers that there is something to say about, sorted."""
        return sorted(self._steps.keys() | self.evidence.keys())

    def of(self, container: str) -> Sequence[Step]:
        """The steps of one container."""
        return self._steps.get(container, ())

    def add(
        self,
        container: str,
        amount: Amount,
        resource: str,
        cause: Cause,
        *,
        by: str = "",
        before: Quantity | None,
        after: Quantity | None,
    ) -> None:
        """Tell one step of one number."""
        step = Step(amount, resource, cause, by, before, after)
        self._steps.setdefault(container, []).append(step)

    def rows(
        self,
        containers: Sequence[str],
        amount: Amount,
        resource: str,
        cause: Cause,
        *,
        by: Iterable[str],
        before: Ints | None = None,
        after: Ints,
    ) -> None:
        """Tell one step of columns, which have a row for each of ``containers``.

        ``by`` may be endless, where it is the same for all.
        """
        olds = [None] * len(containers) if before is None else before.tolist()
        for container, text, old, new in zip(containers, by, olds, after.tolist(), strict=False):
            self.add(
                container,
                amount,
                resource,
                cause,
                by=text,
                before=_known(resource, old),
                after=_known(resource, new),
            )

    def ended(self, container: str, resource: str, cause: Cause) -> None:
        """Tell that all of a container's numbers of a resource end."""
        last = {step.amount: step.after for step in self.of(container) if step.resource == resource}
        for amount, value in last.items():
            self.add(container, amount, resource, cause, before=value, after=None)

    def moved(
        self,
        cause: Cause,
        before: Iterable[ContainerAmounts],
        after: Iterable[ContainerAmounts],
        *,
        by: str = "",
    ) -> None:
        """Tell which numbers of all containers are others than before, as one step."""
        olds, news = ({one.name: one for one in amounts} for amounts in (before, after))
        for container in sorted(olds.keys() | news.keys()):
            for amount in Amount:
                old, new = amount.of(olds.get(container)), amount.of(news.get(container))
                for resource in in_order(old.keys() | new.keys()):
                    one, other = old.get(resource), new.get(resource)
                    if one != other:
                        self.add(container, amount, resource, cause, by=by, before=one, after=other)


def quantity(resource: str, amount: int) -> Quantity:
    """Millicores or bytes, as the status writes them."""
    return cpu_quantity(amount) if resource == CPU else memory_quantity(amount)


def _known(resource: str, amount: int | None) -> Quantity | None:
    """None for no number, and for not a number, which is below any minimum."""
    return None if amount is None or amount < 0 else quantity(resource, amount)

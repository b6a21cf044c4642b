"""The sum that a pod requests, or is limited to, as a function of the targets of its containers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from common.quantity import ZERO, Quantity
from common.recommendation.pod_amounts import Amounts, PodAmounts
from common.resources import CPU, RESOURCES, ResourceQuantities
from common.scheduling.capping import Claims, capped_in_proportion

REQUESTS = "requests"
LIMITS = "limits"

Targets = Mapping[str, int]
"""Millicores or bytes by container."""


@dataclass(frozen=True, slots=True)
class PhaseSum:
    """The sum over containers that run at the same time.

    ``ratios`` are those of the scaled containers: 1 for a request, and for a limit its ratio to the
    request. ``present`` are their present amounts, which stay without a target. ``fixed`` is the
    sum of everything else.
    """

    fixed: int
    ratios: Mapping[str, Fraction] = field(default_factory=dict)
    present: Mapping[str, int] = field(default_factory=dict)

    def of(self, targets: Targets) -> int:
        """Return the sum with these targets."""
        return self._kept(targets) + sum(self._parts(targets).values())

    def capped(self, targets: Targets, minimums: Targets, most: int) -> Targets:
        """Return targets whose sum is at most ``most``, lowered in proportion.

        No target gets below its minimum, so the sum may stay above ``most``.
        """
        parts = self._parts(targets)
        claims = Claims(
            targets=parts, minimums=self._parts({name: minimums.get(name, 0) for name in parts})
        )
        lowered = capped_in_proportion(claims, most - self._kept(targets))
        found = dict(targets)
        for name, part in lowered.items():
            if part < parts[name]:
                least = min(minimums.get(name, 0), targets[name])
                found[name] = max(least, _floor(part / self.ratios[name]))
        return found

    def _kept(self, targets: Targets) -> int:
        return self.fixed + sum(
            amount for name, amount in self.present.items() if name not in targets
        )

    def _parts(self, targets: Targets) -> dict[str, int]:
        return {
            name: -_floor(-ratio * targets[name])
            for name, ratio in self.ratios.items()
            if name in targets
        }


@dataclass(frozen=True, slots=True)
class PodSum:
    """The sum over a whole pod: the largest of its phases, of which the last one stays."""

    phases: tuple[PhaseSum, ...]

    @property
    def fixed(self) -> int:
        """Return the sum of the running containers that aren't scaled."""
        return self.phases[-1].fixed

    @property
    def is_scaled(self) -> bool:
        """Return whether a target changes the sum."""
        return bool(self.phases[-1].ratios)

    def of(self, targets: Targets) -> int:
        """Return the sum with these targets."""
        return max(phase.of(targets) for phase in self.phases)

    def capped(self, targets: Targets, minimums: Targets, most: int) -> Targets:
        """Return targets with which the pod's sum is at most ``most``, if the minimums allow."""
        for phase in self.phases:
            targets = phase.capped(targets, minimums, most)
        return targets


def pod_sums(
    amounts: PodAmounts,
    scaled: Mapping[str, Collection[str]],
    *,
    overhead: ResourceQuantities,
    fixed_limits: Collection[str] = (),
    template: Mapping[str, Amounts] | None = None,
) -> Mapping[str, PodSum]:
    """Return the sums of a pod by the names that quotas use, such as ``limits.memory``.

    ``scaled`` are the containers with a target, by resource; those in ``fixed_limits`` keep their
    limits. ``template`` are the resources in the workload's pod template, by container: they decide
    the ratio of limit and request, because a new pod starts from them. A pod-level amount replaces
    the sum of the containers, and no target changes it.
    """
    names = set[str]().union(*scaled.values())
    phases, stated = amounts.phases(names), template or {}
    found: dict[str, PodSum] = {}
    for resource in RESOURCES:
        mine = frozenset(scaled.get(resource, ()))
        more = units(resource, overhead.get(resource, ZERO))
        whole = amounts.stanza
        for part in (REQUESTS, LIMITS):
            key, added = f"{part}.{resource}", more if part == REQUESTS else 0
            if whole is not None and resource in _of(whole, part):
                fixed = units(resource, _of(whole, part)[resource]) + added
                found[key] = PodSum((PhaseSum(fixed),))
                continue
            sums = []
            for phase in phases:
                ratios: dict[str, Fraction] = {}
                amounts_now = dict[str, int]()
                fixed = units(resource, _of(phase.fixed, part).get(resource, ZERO)) + added
                for name, present in phase.scaled.items():
                    ratio = None
                    if name in mine and part == REQUESTS:
                        ratio = Fraction(1)
                    elif name in mine and name not in fixed_limits:
                        ratio = limit_ratio(resource, (stated.get(name), present))
                    amount = units(resource, _of(present, part).get(resource, ZERO))
                    if ratio is None:
                        fixed += amount
                    else:
                        ratios[name], amounts_now[name] = ratio, amount
                sums.append(PhaseSum(fixed, ratios, amounts_now))
            found[key] = PodSum(tuple(sums))
    return found


def limit_ratio(resource: str, sources: Sequence[Amounts | None]) -> Fraction | None:
    """Return the ratio of limit and request in the first source with a limit; None without one.

    A limit without a request follows the recommended request as it is.

    Source: ``common.recommendation.limit_scaling``.
    """
    for source in sources:
        limit = ZERO if source is None else source.limits.get(resource, ZERO)
        if source is None or limit.is_zero:
            continue
        request = source.requests.get(resource, ZERO)
        if request.is_zero:
            return Fraction(1)
        return Fraction(units(resource, limit), units(resource, request))
    return None


def units(resource: str, amount: Quantity) -> int:
    """Return millicores or bytes, rounded up."""
    return amount.milli if resource == CPU else amount.value


def _of(amounts: Amounts, part: str) -> ResourceQuantities:
    return amounts.requests if part == REQUESTS else amounts.limits


def _floor(number: Fraction) -> int:
    return number.numerator // number.denominator

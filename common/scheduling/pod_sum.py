"""The sum that a pod requests, or is limited to, as a function of the targets of its containers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from common.scheduling.capping import Claims, capped_in_proportion

Numbers = Mapping[str, int]
"""Millicores or bytes of one resource, by container."""


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

    def of(self, targets: Numbers) -> int:
        """Return the sum with these targets."""
        return self._kept(targets) + sum(self._parts(targets).values())

    def capped(self, targets: Numbers, minimums: Numbers, most: int) -> Numbers:
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

    def _kept(self, targets: Numbers) -> int:
        return self.fixed + sum(
            amount for name, amount in self.present.items() if name not in targets
        )

    def _parts(self, targets: Numbers) -> dict[str, int]:
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

    def of(self, targets: Numbers) -> int:
        """Return the sum with these targets."""
        return max(phase.of(targets) for phase in self.phases)

    def capped(self, targets: Numbers, minimums: Numbers, most: int) -> Numbers:
        """Return targets with which the pod's sum is at most ``most``, if the minimums allow."""
        for phase in reversed(self.phases):  # the regular containers run in the last one
            targets = phase.capped(targets, minimums, most)
        return targets


def _floor(number: Fraction) -> int:
    return number.numerator // number.denominator

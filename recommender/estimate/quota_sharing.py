"""The division of a ResourceQuota among the workloads that VPAs scale.

All amounts of one resource are integers: millicores or bytes.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The part of a quota that all pods of one workload need."""

    least: int  # with the minimums of their containers
    need: int  # with the targets that the policy allows; at least ``least``
    fixed: int = 0  # of containers that the VPA doesn't scale, and overhead
    weight: int = 0  # uncapped targets: the share of scaled containers is in proportion to it

    def taken(self, share: int) -> int:
        """Return what the workload takes of a share."""
        return max(self.least, min(share, self.need))


def divide(room: int, claims: Mapping[K, Claim]) -> Mapping[K, int]:
    """Return by claim the most that it may take, so that all of them fit in ``room`` together.

    If all needs fit, each claim may also take everything that is left. Otherwise the scaled
    containers of each claim get a share in proportion to their weight. No claim needs more than
    its need, and what it leaves goes to the others; no claim gets less than its least amount. If
    even the least amounts are above ``room``, each claim gets a share in proportion to these.
    """
    left = room - sum(each.need for each in claims.values())
    if left >= 0:
        return {key: each.need + left for key, each in claims.items()}
    least = sum(each.least for each in claims.values())
    if least > room:
        there = max(0, room)
        return {key: there * each.least // max(1, least) for key, each in claims.items()}
    level = _level(room, claims.values())
    return {key: max(each.least, _share(each, level)) for key, each in claims.items()}


def _share(claim: Claim, level: Fraction) -> int:
    return claim.fixed + level.numerator * claim.weight // level.denominator


def _level(room: int, claims: Iterable[Claim]) -> Fraction:
    """Return the amount per weight at which the shares add up to ``room``, which holds the least.

    The share of a claim grows with the level from its least amount to its need. Their sum is
    piecewise linear, and this follows it from one bend to the next.
    """
    total, slope, level = 0, 0, Fraction(0)
    bends: list[tuple[Fraction, int]] = []
    for each in claims:
        total += each.least
        if each.weight and each.need > each.least:
            bends.append((Fraction(each.least - each.fixed, each.weight), each.weight))
            bends.append((Fraction(each.need - each.fixed, each.weight), -each.weight))
    reached = Fraction(total)
    for bend, change in sorted(bends):
        if reached + slope * (bend - level) > room:
            break
        reached += slope * (bend - level)
        level, slope = bend, slope + change
    return level + (room - reached) / slope if slope and reached < room else level

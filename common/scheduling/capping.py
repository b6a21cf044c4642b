"""Lower the requests of a pod's containers in proportion, so that their sum fits a bound."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What the containers of a pod want of one resource, in millicores or bytes."""

    targets: Mapping[str, int]
    minimums: Mapping[str, int] = field(default_factory=dict)  # by container; absent: 0

    @property
    def least(self) -> int:
        """Return the smallest sum that the minimums allow."""
        return sum(map(self.minimum, self.targets))

    def minimum(self, name: str) -> int:
        """Return the least amount of a container, which is never above its target."""
        return min(self.minimums.get(name, 0), self.targets[name])


def capped_in_proportion(claims: Claims, most: int) -> Mapping[str, int]:
    """Return amounts that add up to at most ``most``, in proportion to the targets.

    No amount is above its target or below its minimum. Containers whose share would be below
    their minimum get the minimum, and the others share the rest. If the minimums alone are above
    ``most``, each container gets its minimum.
    """
    targets = claims.targets
    if sum(targets.values()) <= most:
        return dict(targets)
    least = {name: claims.minimum(name) for name in targets}
    found: dict[str, int] = {}
    open_names = set(targets)
    while open_names:
        room = max(0, most - sum(found.values()))
        wanted = sum(targets[name] for name in open_names)
        share = Fraction(room, wanted) if wanted else Fraction(0)
        raised = {name for name in open_names if targets[name] * share < least[name]}
        for name in raised or open_names:
            found[name] = least[name] if name in raised else int(targets[name] * share)
        open_names -= raised or open_names
    return {name: found[name] for name in targets}

"""Decisions that nothing is to be written, which hold as long as nothing relevant changes."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from recommender.model.usage import ContainerGroup
from recommender.publish.status import NOTICEABLE_CHANGE

_ROUNDING = 1e-9  # relative, of the tolerance: so much is lost in computing it


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DecisionInputs:
    """All that a decision about a status depends on, but time."""

    version: str  # of the VPA in the API server; without one it may be any
    unsupported: str
    controlled_by: str
    groups: Sequence[ContainerGroup]
    has_pods: bool
    is_confident: bool  # there is enough history
    targets: "array[int]"  # as estimated, of every container
    bounds: "array[int]"

    def differ_in_bounds_alone(self, then: "DecisionInputs") -> bool:
        """Return whether all inputs are equal, the bounds aside."""
        return (
            bool(self.version)
            and self.version == then.version
            and self.groups == then.groups
            and self.has_pods == then.has_pods
            and self.is_confident == then.is_confident
            and self.unsupported == then.unsupported
            and self.controlled_by == then.controlled_by
            and self.targets == then.targets
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CachedDecision:
    """A decision that there is nothing to write now."""

    inputs: DecisionInputs
    tolerance: float  # relative: how far estimated bounds can move before a reader would notice
    due: datetime  # when smaller differences are written
    is_equal: bool  # the status is what was wanted

    def holds(self, now: DecisionInputs, at: datetime) -> bool:
        """Return whether these inputs lead to the same decision."""
        then = self.inputs
        if not now.differ_in_bounds_alone(then):
            return False
        if at >= self.due:
            return self.is_equal and now.bounds == then.bounds
        return all(
            abs(after - before) <= self.tolerance * before
            for before, after in zip(then.bounds, now.bounds, strict=True)
        )


def tolerance(difference: float) -> float:
    """Return how far bounds may move further, if they have moved so far since the last write.

    Caps and the order of bounds never make two bounds differ more than they did.
    """
    return max((NOTICEABLE_CHANGE - difference) / (1.0 + difference) - _ROUNDING, 0.0)

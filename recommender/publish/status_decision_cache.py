"""What was decided last about a VPA's status, and as long as it stands nothing is decided anew."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from recommender.model.usage import Group
from recommender.publish.status import NOTICED

_ROUNDING = 1e-9  # of the room for a bound: so much is lost in computing it


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grounds:
    """All that a decision about a status depends on, but time."""

    version: str  # of the VPA in the API server; without one it may be any
    unsupported: str
    controlled_by: str
    groups: Sequence[Group]
    has_pods: bool
    is_sure: bool  # there is enough history
    targets: "array[int]"  # as estimated, of every container
    bounds: "array[int]"

    def are_those_of(self, then: "Grounds") -> bool:
        """Whether they are the same but for the bounds."""
        return (
            bool(self.version)
            and self.version == then.version
            and self.groups == then.groups
            and self.has_pods == then.has_pods
            and self.is_sure == then.is_sure
            and self.unsupported == then.unsupported
            and self.controlled_by == then.controlled_by
            and self.targets == then.targets
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Standing:
    """A decision that there is nothing to write now."""

    grounds: Grounds
    room: float  # relative: how far estimated bounds can move before a reader would notice
    due: datetime  # when smaller differences are written
    is_equal: bool  # the status is what was wanted
    compared: Mapping[str, int]  # by resource, the aggregates whose recommendation this is

    def holds(self, now: Grounds, at: datetime) -> bool:
        """Whether these grounds lead to the same decision."""
        then = self.grounds
        if not now.are_those_of(then):
            return False
        if at >= self.due:
            return self.is_equal and now.bounds == then.bounds
        return all(
            abs(after - before) <= self.room * before
            for before, after in zip(then.bounds, now.bounds, strict=True)
        )


def room(moved: float) -> float:
    """How far bounds may move further, if they have moved so far since they were published.

    Caps and the order of bounds never make two bounds differ more than they did.
    """
    return max((NOTICED - moved) / (1.0 + moved) - _ROUNDING, 0.0)

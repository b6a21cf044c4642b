"""Cached decisions not to write a status, which hold until an input changes."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from common.scheduling.room import Room
from recommender.estimate.quota_bounds import QuotaBound
from recommender.model.usage import ContainerGroup
from recommender.publish.pod_limits import VpaLimits
from recommender.publish.status_difference import NOTICEABLE_CHANGE

_ROUNDING = 1e-9  # rounding error of the tolerance


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionInputs:
    """The inputs of a decision about a status, except time.

    They are equal if all but the bounds and the limits are.
    """

    version: str  # resource version of the VPA; empty: unknown, so the inputs never match
    unsupported: str
    controlled_by: str
    groups: Sequence[ContainerGroup]
    has_pods: bool
    controls: tuple[str, ...]
    known_quarters: int  # of a confidence interval, see VpaEstimate
    targets: "array[int]"  # estimates of all containers
    bounds: "array[int]" = field(compare=False)
    quotas: tuple[QuotaBound, ...] = ()
    limits: VpaLimits | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CachedDecision:
    """A decision not to write now."""

    inputs: DecisionInputs
    tolerance: float  # relative change of estimated bounds that isn't noticeable
    due: datetime  # when smaller differences are written
    is_equal: bool  # the status equals the wanted one
    admitted: Room | None = None  # what the pod needs, if all limits admitted it unchanged

    def holds(self, now: DecisionInputs, at: datetime) -> bool:
        """Return True if these inputs lead to the same decision."""
        then = self.inputs
        if not now.version or now != then or not self._limits_hold(now.limits):
            return False
        if at >= self.due:
            return self.is_equal and now.bounds == then.bounds
        return all(
            abs(after - before) <= self.tolerance * before
            for before, after in zip(then.bounds, now.bounds, strict=True)
        )

    def _limits_hold(self, now: VpaLimits | None) -> bool:
        """Return True if limits that changed still admit the pod; its other requests are equal."""
        then = self.inputs.limits
        if now is then or now == then:
            return True
        if now is None or then is None or self.admitted is None:
            return False
        return now.pod == then.pod and now.admit(self.admitted)


def tolerance(difference: float) -> float:
    """Return how far bounds may move further if they differ by ``difference`` from the status.

    Caps and the order of bounds never increase a difference.
    """
    return max((NOTICEABLE_CHANGE - difference) / (1.0 + difference) - _ROUNDING, 0.0)

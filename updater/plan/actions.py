"""The actions that a plan consists of, and the plan of one VPA, as values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from common.recommendation.changes import ResourceChange
from common.target.owners import Controller
from updater.decision import Reason
from updater.evaluate.update_order import ContainerOomKill
from updater.eviction.breaker import Breaker, BreakerObservation
from updater.plan.assessment import Undecided
from updater.plan.pod_outcome import PodOutcome
from updater.resize.resize_plan import ResizePlan
from updater.resize.resize_state import Attempt
from updater.snapshot.live_pod import LivePod


@dataclass(frozen=True, slots=True)
class UnboostPod:
    """Take start-up boosts back: resize the pod, if that changes it, and drop the annotations."""

    plan: ResizePlan
    annotations: tuple[str, ...]

    @property
    def disrupts(self) -> bool:
        """Return whether the pod's containers notice it."""
        return bool(self.plan.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizePod:
    """Resize a pod in place."""

    plan: ResizePlan
    reason: Reason
    ooms: tuple[ContainerOomKill, ...]  # that it answers
    attempt: Attempt

    @property
    def disrupts(self) -> bool:
        """Return whether the pod's containers may notice it; they don't of a withdrawal."""
        return not self.plan.withdraws


@dataclass(frozen=True, slots=True)
class EvictPod:
    """Evict a pod; ``changes`` are what it is for."""

    reason: Reason
    changes: tuple[ResourceChange, ...]


@dataclass(frozen=True, slots=True)
class TryReplacement:
    """Create the pod's replacement in a dry run; one answer holds for its whole workload (X112)."""

    controller: Controller


PodAction: TypeAlias = UnboostPod | ResizePod | EvictPod | TryReplacement


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    """The decision on one pod, and the action that it leads to, if it does.

    It is the final one if every action of the plan is carried out. ``waits`` says that it would
    be another one if some action is not, or that it waits for the answer to a dry run.
    """

    pod: LivePod
    outcome: PodOutcome
    undecided: Undecided
    action: PodAction | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VpaPlan:
    """What is done to the pods of one VPA now, in this order.

    ``updatable`` and ``evictable`` count the pods for which nothing but a part of a budget may be
    missing; None where the mode has no such pods.
    """

    pods: Sequence[PodPlan]
    breaker: Breaker | None  # after ``observation``, before any eviction of this plan
    observation: BreakerObservation | None
    updatable: int | None
    evictable: int | None

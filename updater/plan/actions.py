"""The actions of a plan, and the plan of one pod, as values."""

from dataclasses import dataclass
from typing import TypeAlias

from common.target.owners import Controller
from updater.capacity.reservations import FoundRoom
from updater.plan.assessment import Undecided
from updater.plan.pod_outcome import PodOutcome
from updater.resize.resize_decision import WHOLE, Attempt
from updater.resize.resize_plan import ResizePlan
from updater.snapshot.live_pod import LivePod


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizePod:
    """Resize a pod in place, if that changes it, and remove annotations of start-up boosts."""

    plan: ResizePlan
    attempt: Attempt = WHOLE
    unboosted: tuple[str, ...] = ()  # containers whose boost ends; empty: no boost ends

    @property
    def disrupts(self) -> bool:
        """Return whether the action uses the disruption budget; a withdrawal doesn't."""
        return bool(self.plan.changes) and not self.plan.withdraws


@dataclass(frozen=True, slots=True)
class EvictPod:
    """Evict a pod; ``room`` is what its replacement needs, on a node; None: not looked for."""

    room: FoundRoom | None = None


@dataclass(frozen=True, slots=True)
class TryReplacement:
    """Create the pod's replacement in a dry run; the result counts for its workload (X112)."""

    controller: Controller


PodAction: TypeAlias = ResizePod | EvictPod | TryReplacement


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    """The decision on one pod, and its action, if any.

    The decision is final if every action of the plan succeeds. ``waits``: it depends on the
    success of other actions, or on the result of a dry run.
    """

    pod: LivePod
    outcome: PodOutcome
    undecided: Undecided
    action: PodAction | None = None
    waits: bool = False
